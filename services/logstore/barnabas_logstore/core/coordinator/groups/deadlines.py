"""Deadlines, most of which move before they come: heartbeats put theirs off thousands of times a second."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

_NONE: Final = -1
_SPARE_ENTRIES: Final = 64


class Deadline:
    """Something that happens at its time, if that is not moved or taken away before."""

    __slots__ = ("at_ms", "on_due", "planned_ms")

    def __init__(self, on_due: Callable[[], None]) -> None:
        self.on_due = on_due
        self.at_ms = _NONE
        self.planned_ms = _NONE
        """When the heap will look at it, never later than `at_ms`."""


class Deadlines:
    """To move a deadline costs an assignment: the heap hears of it when the old one comes.

    The heap never has more than about twice as many entries as there are deadlines, whatever became of the others.
    """

    __slots__ = ("_count", "_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Deadline]] = []
        self._sequence = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def set(self, deadline: Deadline, at_ms: int) -> None:
        """From now on this is its time, earlier or later than the one before."""
        if deadline.at_ms < 0:
            self._count += 1
        deadline.at_ms = at_ms
        if deadline.planned_ms < 0 or at_ms < deadline.planned_ms:
            self._plan(deadline)

    def cancel(self, deadline: Deadline | None) -> None:
        """Nothing happens when there is none."""
        if deadline is not None and deadline.at_ms >= 0:
            deadline.at_ms = _NONE
            self._count -= 1
            self._shrink()

    def next_ms(self) -> int | None:
        """When `act` is worth calling; there may be nothing to do then."""
        return self._heap[0][0] if self._heap else None

    def act(self, now_ms: int) -> None:
        """Let happen what is due; a deadline that has come is none any more."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            planned_ms, _, deadline = heapq.heappop(heap)
            if deadline.planned_ms != planned_ms:
                continue  # It was planned anew for earlier.
            deadline.planned_ms = _NONE
            if deadline.at_ms > now_ms:
                self._plan(deadline)
            elif deadline.at_ms >= 0:
                deadline.at_ms = _NONE
                self._count -= 1
                deadline.on_due()

    def _plan(self, deadline: Deadline) -> None:
        deadline.planned_ms = deadline.at_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline.at_ms, self._sequence, deadline))
        self._shrink()

    def _shrink(self) -> None:
        heap = self._heap
        if len(heap) <= 2 * self._count + _SPARE_ENTRIES:
            return
        kept: dict[Deadline, tuple[int, int, Deadline]] = {}
        for entry in heap:
            deadline = entry[2]
            if deadline.at_ms < 0:
                deadline.planned_ms = _NONE
            elif deadline.planned_ms == entry[0]:
                kept[deadline] = entry
        heap[:] = kept.values()  # In place: `act` may be going through it.
        heapq.heapify(heap)
