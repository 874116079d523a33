"""The loop of the simulation: virtual time, one heap of events, one source of chance, one trace.

Everything that happens is an event, and every event happens at a time of its own in microseconds since the start;
events of one microsecond happen in the order in which they were planned. Nothing else decides an order: no thread, no
hash, no real clock. So a seed is a whole run, and the hash over its events tells two runs apart.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.process import Process

MS = 1_000
SECOND = 1_000_000

# What a failure shows of how it came about.
REMEMBERED_EVENTS = 60


class InvariantViolation(Exception):  # noqa: N818 - it reads as what it is
    """Something is true that must never be; the message is for people."""


class StepsUsedUp(Exception):  # noqa: N818 - nothing is wrong
    """The run was to end here."""


class Event:
    """Something planned. `process` is whose doing it is: it does not happen once that process has died."""

    __slots__ = ("action", "cancelled", "incarnation", "label", "process")

    def __init__(self, label: str, action: Callable[[], None], process: Process | None) -> None:
        self.label = label
        self.action = action
        self.process = process
        self.incarnation = process.incarnation if process is not None else 0
        self.cancelled = False


class Scheduler:
    def __init__(self, seed: int, steps: int = -1) -> None:
        """After `steps` events comes StepsUsedUp; -1: never."""
        self._steps = steps
        self.random = Random(seed)
        self.now_us = 0
        self.events = 0
        self.remembered: deque[str] = deque(maxlen=REMEMBERED_EVENTS)
        self._heap: list[tuple[int, int, Event]] = []
        self._planned = 0
        self._trace = hashlib.sha256()

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    def plan(self, delay_us: int, label: str, action: Callable[[], None], process: Process | None = None) -> Event:
        """Have `action` happen in `delay_us`, unless its process has died by then; a paused one does it late."""
        event = Event(label, action, process)
        self.replan(delay_us, event)
        return event

    def replan(self, delay_us: int, event: Event) -> None:
        """An event that could not happen when it was due."""
        assert delay_us >= 0, "the past is over"
        self._planned += 1
        heapq.heappush(self._heap, (self.now_us + delay_us, self._planned, event))

    def note(self, what: str) -> None:
        """A line of the trace: every event is one, and whatever else tells runs apart."""
        line = f"{self.now_us:>12} {what}"
        self._trace.update(line.encode())
        self.remembered.append(line)

    def step(self) -> bool:
        """Let the next event happen; False when nothing is planned any more."""
        while self._heap:
            due_us, _, event = heapq.heappop(self._heap)
            process = event.process
            if event.cancelled or (process is not None and process.incarnation != event.incarnation):
                continue
            self.now_us = due_us
            if process is not None and process.paused:
                process.held.append(event)
                continue
            if self.events == self._steps:
                raise StepsUsedUp
            self.events += 1
            self.note(event.label)
            event.action()
            return True
        return False

    def run_until(self, at_us: int) -> None:
        """Everything up to and including `at_us`."""
        while self._heap and self._heap[0][0] <= at_us:
            self.step()
        self.now_us = max(self.now_us, at_us)

    def run_while(self, condition: Callable[[], bool], limit_us: int) -> bool:
        """Run as long as `condition` holds; False when it still does after `limit_us`."""
        end_us = self.now_us + limit_us
        while condition():
            if not self._heap or self._heap[0][0] > end_us:
                return False
            self.step()
        return True
