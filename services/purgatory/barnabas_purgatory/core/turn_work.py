"""Work that grows with what clients have parked: some of it in each turn, so that no turn is long.

A job is a generator that yields what a piece of it has cost, in steps; a step is the work for one condition of an
entry: a watch, a heap item and an object, 10 µs at most. All jobs together have `STEPS_PER_TURN` in a turn, and each
has `STEPS_AT_ONCE` before the next one has its share. A job that fits into what is left of a turn is done at once.
Between two steps of a job anything may arrive: a job holds nothing for granted that it has not looked at since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

STEPS_PER_TURN: Final = 1_500
STEPS_AT_ONCE: Final = 500
SHORT: Final = 100
"""What takes no more steps is no job, unless the turn's steps are used up."""


class TurnWork:
    __slots__ = ("_is_running", "_jobs", "steps_left")

    def __init__(self) -> None:
        self._jobs: deque[Iterator[int]] = deque()
        self._is_running = False
        self.steps_left = STEPS_PER_TURN
        """Of this turn; below 0 if what can't wait has taken more."""

    def begin(self, job: Iterator[int]) -> None:
        """Do `job`, as much of it now as the turn allows."""
        if self._jobs or self._is_running or self.steps_left <= 0:
            self._jobs.append(job)
        else:
            self._go_on(job)

    def has_time_for(self, steps: int) -> bool:
        """Whether so many may be done at once, without a job; then they are counted."""
        if steps > SHORT or (steps > 0 and self.steps_left <= 0):
            return False
        self.steps_left -= steps
        return True

    def run(self) -> None:
        """Continue with what is left of earlier turns."""
        while self._jobs and self.steps_left > 0:
            self._go_on(self._jobs.popleft())

    def end_turn(self) -> None:
        """The next turn has all its steps."""
        self.steps_left = STEPS_PER_TURN

    def has_work(self) -> bool:
        return len(self._jobs) > 0

    def _go_on(self, job: Iterator[int]) -> None:
        """Do the job's share, and queue it for another one if that is not enough."""
        share_ends = max(0, self.steps_left - STEPS_AT_ONCE)
        self._is_running = True
        try:
            for steps in job:
                self.steps_left -= steps
                if self.steps_left <= share_ends:
                    self._jobs.append(job)
                    break
        finally:
            self._is_running = False
