"""Timers, most of which move before they are reached: heartbeats postpone theirs thousands of times a second."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from barnabas.containment import Guard, StateOwner
from barnabas_logstore.core.replica.containment import COORDINATOR_STATE

_NONE: Final = -1
_SPARE_ENTRIES: Final = 64


@dataclass(slots=True)
class Clock:
    """The time for all shards of one kind, constant within a turn."""

    now_ms: int = 0
    """Monotonic: deadlines use it."""
    wall_ms: int = 0
    """The wall clock, for records."""


class Deadline:
    """Runs its action at its time, unless it is moved or cancelled before."""

    __slots__ = ("at_ms", "on_due", "owner", "planned_ms")

    def __init__(self, on_due: Callable[[], None], owner: StateOwner | None = None) -> None:
        """`owner`: of what is in doubt if the action fails; None, if all that this process does is in doubt."""
        self.on_due = on_due
        self.owner = owner
        self.at_ms = _NONE
        self.planned_ms = _NONE
        """When the heap will check it, never later than `at_ms`."""


def _nothing() -> None:
    """The action of a deadline that was ended."""


class Timers:
    """Moving a deadline costs one assignment: the heap finds out when the old time is reached.

    The heap never has more than about twice as many entries as there are deadlines.
    """

    __slots__ = ("_count", "_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Deadline]] = []
        self._sequence = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def set(self, deadline: Deadline, at_ms: int) -> None:
        """Set its time, earlier or later than before."""
        if deadline.at_ms < 0:
            self._count += 1
        deadline.at_ms = at_ms
        if deadline.planned_ms < 0 or at_ms < deadline.planned_ms:
            self._plan(deadline)

    def cancel(self, deadline: Deadline | None) -> None:
        """Does nothing if there is none."""
        if deadline is not None and deadline.at_ms >= 0:
            deadline.at_ms = _NONE
            self._count -= 1
            self._shrink()

    def end(self, deadline: Deadline | None) -> None:
        """As `cancel`, for good: its action and owner are let go, though the heap may keep it until its old time."""
        if deadline is not None:
            deadline.on_due = _nothing
            deadline.owner = None
            self.cancel(deadline)

    def next_ms(self) -> int | None:
        """Return when to call `act`; there may be nothing to do then."""
        return self._heap[0][0] if self._heap else None

    def act(self, now_ms: int) -> None:
        """Run the actions that are due; a deadline that was reached is removed."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            planned_ms, _, deadline = heapq.heappop(heap)
            if deadline.planned_ms != planned_ms:
                continue  # it was rescheduled to an earlier time
            deadline.planned_ms = _NONE
            if deadline.at_ms > now_ms:
                self._plan(deadline)
            elif deadline.at_ms >= 0:
                deadline.at_ms = _NONE
                self._count -= 1
                owner = deadline.owner  # which its action may end
                if owner is None:
                    deadline.on_due()
                else:
                    with Guard(owner, COORDINATOR_STATE):
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
        heap[:] = kept.values()  # in place: `act` may be iterating over it
        heapq.heapify(heap)
