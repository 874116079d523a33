"""The fraction of time that an event loop, or a pool of threads, is idle: Kafka's idle percents, from 0 to 1.

A loop is idle while it waits in its selector, as Kafka's processors are in theirs. Between two waits it takes a turn:
all that was ready is done, and whatever arrives meanwhile waits for the end of it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from time import monotonic_ns, thread_time_ns
from typing import Final

from barnabas.metrics.family import Family, Sample
from barnabas.runtime.collector import COLLECTOR

_WINDOW_NS_MIN: Final = 1_000_000_000
_TURN_WINDOW_NS: Final = 60_000_000_000


class _Turns:
    """What the loop has done so far."""

    __slots__ = ("began_ns", "cpu_ns", "longest_cpu_ns", "longest_ns", "waited_ns")

    def __init__(self) -> None:
        self.waited_ns = 0
        self.began_ns = 0
        """The present turn."""
        self.longest_ns = 0
        """The longest of the turns since this was last set to 0."""
        self.cpu_ns = 0
        """What the thread had used at the end of the previous turn; waiting uses almost nothing."""
        self.longest_cpu_ns = 0


_TURNS: Final = _Turns()
"""The turns of the event loop of this process that `new_event_loop` has created."""


class _MeasuredSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        turns = _TURNS
        if timeout is None or timeout > 0:
            COLLECTOR.loop_is_idle()
        ended_ns, cpu_ns = monotonic_ns(), thread_time_ns()
        if turns.began_ns:
            if ended_ns - turns.began_ns > turns.longest_ns:
                turns.longest_ns = ended_ns - turns.began_ns
            if cpu_ns - turns.cpu_ns > turns.longest_cpu_ns:
                turns.longest_cpu_ns = cpu_ns - turns.cpu_ns
        turns.cpu_ns = cpu_ns
        ready = super().select(timeout)
        turns.began_ns = began_ns = monotonic_ns()
        if timeout is None or timeout > 0:
            turns.waited_ns += began_ns - ended_ns
        return ready


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop whose waiting is measured, and which collects garbage while idle, for `asyncio.Runner`; one per
    process, once its code is loaded."""
    COLLECTOR.begin()
    return asyncio.SelectorEventLoop(_MeasuredSelector())


def loop_waited_ns() -> int:
    return _TURNS.waited_ns


def take_longest_turn_ns() -> int:
    """Return the longest turn since the last call, without the present one."""
    longest_ns, _TURNS.longest_ns = _TURNS.longest_ns, 0
    return longest_ns


def take_longest_turn_cpu_ns() -> int:
    """Return the most processor time that one turn has used since the last call, without the present turn."""
    longest_ns, _TURNS.longest_cpu_ns = _TURNS.longest_cpu_ns, 0
    return longest_ns


class LongestTurn:
    """The longest turn of an event loop in the last one to two minutes, however often it is read."""

    def __init__(self, family: Family, label: str, take_ns: Callable[[], int], now_ns: Callable[[], int]) -> None:
        """`take_ns` returns the longest turn since its last call."""
        self._family = family
        self._label = label
        self._take_ns = take_ns
        self._read_ns = now_ns
        self._since_ns = now_ns()
        self._before_ns = 0
        """The value of the previous minute."""
        self._longest_ns = 0

    def samples(self) -> Iterator[Sample]:
        now_ns = self._read_ns()
        if now_ns - self._since_ns >= _TURN_WINDOW_NS:
            self._since_ns, self._before_ns, self._longest_ns = now_ns, self._longest_ns, 0
        self._longest_ns = max(self._longest_ns, self._take_ns())
        yield Sample(self._family, (self._label,), max(self._before_ns, self._longest_ns) / 1_000_000)


class IdlePart:
    """The fraction of the time since the last call (at least a second) during which something waited."""

    def __init__(self, family: Family, label: str, waited_ns: Callable[[], int], now_ns: Callable[[], int]) -> None:
        """`waited_ns` counts from any beginning."""
        self._family = family
        self._label = label
        self._read_waited_ns = waited_ns
        self._read_ns = now_ns
        self._since_ns = now_ns()
        self._waited_ns = waited_ns()
        self._part = 1.0

    def samples(self) -> Iterator[Sample]:
        now_ns = self._read_ns()
        passed_ns = now_ns - self._since_ns
        if passed_ns >= _WINDOW_NS_MIN:
            waited_ns = self._read_waited_ns()
            self._part = min(1.0, max(0.0, (waited_ns - self._waited_ns) / passed_ns))
            self._since_ns, self._waited_ns = now_ns, waited_ns
        yield Sample(self._family, (self._label,), self._part)
