"""The fraction of time that an event loop, or a pool of threads, is idle: Kafka's idle percents, from 0 to 1.

A loop is idle while it waits in its selector, as Kafka's processors are in theirs. Between two waits it takes a turn:
all that was ready is done, and whatever arrives meanwhile waits for the end of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from barnabas.metrics.family import Family, Sample

_WINDOW_NS_MIN: Final = 1_000_000_000
_TURN_WINDOW_NS: Final = 60_000_000_000


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
