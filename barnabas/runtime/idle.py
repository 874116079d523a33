"""How much of its time an event loop, or a pool of threads, has nothing to do: Kafka's idle percents, from 0 to 1.

A loop is idle while it waits in its selector, as Kafka's processors are in theirs. With work at hand a loop asks its
selector without waiting, and nothing is measured: what this costs, an idle loop pays.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Final

from barnabas.metrics.family import Family, Sample

_WINDOW_NS_MIN: Final = 1_000_000_000


class _Waited:
    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0


_WAITED: Final = _Waited()
"""By the event loop of this process that `new_event_loop` has made."""


class _MeasuredSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began_ns = monotonic_ns()
        ready = super().select(timeout)
        _WAITED.ns += monotonic_ns() - began_ns
        return ready


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop whose waiting is measured, for `asyncio.Runner`; one in a process."""
    return asyncio.SelectorEventLoop(_MeasuredSelector())


def loop_waited_ns() -> int:
    return _WAITED.ns


class IdlePart:
    """The part of the time since it was asked last (a second at least) in which something waited."""

    def __init__(self, family: Family, label: str, waited_ns: Callable[[], int], now_ns: Callable[[], int]) -> None:
        """`waited_ns` since any beginning."""
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
