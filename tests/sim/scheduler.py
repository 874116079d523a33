"""The loop of the simulation: virtual time, one heap of events, one source of chance, one trace.

Everything that happens is an event, and every event happens at a time of its own in microseconds since the start;
events of one microsecond happen in the order in which they were planned. Nothing else decides an order: no thread, no
hash, no real clock. So a seed is a whole run, and the hash over its events tells two runs apart.

The hash is over numbers: when each event happened and as which it was planned, and what clients and etcd received. The
words of events are made only if they are read: an exploration of thousands of seeds does without, and runs the one that
failed again.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING
from zlib import crc32

from barnabas.containment import Uncontained

if TYPE_CHECKING:
    from tests.sim.process import Process

MS = 1_000
SECOND = 1_000_000

# Numbers of the trace that are hashed together.
TRACE_BLOCK = 8_192

# What an event is, in words; a function where it takes some work to say.
Label = str | Callable[[], str]


class InvariantViolation(Exception):  # noqa: N818 - it reads as what it is
    """Something is true that must never be; the message is for people."""


class StepsUsedUp(Exception):  # noqa: N818 - nothing is wrong
    """The run was to end here."""


class ProcessEnds(BaseException):
    """Raised in the midst of what a process does, where no code of production's can catch it: its life ends there."""


class InjectedFault(Exception):  # noqa: N818 - of ours, thrown where none is expected
    """An exception that the simulation throws within a core; where no guard of the core contains it, `process` ends."""

    def __init__(self, text: str, process: Process) -> None:
        super().__init__(text)
        self.process = process


def injected(error: BaseException | None) -> InjectedFault | None:
    """Return what was thrown on purpose, where `error` is that, was raised from it, or while it was handled. A verdict
    about it is none of these.
    """
    if isinstance(error, InvariantViolation):
        return None
    while error is not None and not isinstance(error, InjectedFault):
        error = error.__cause__ or error.__context__
    return error


def _refuse_contained(process: Process, guard: str, scope: str, text: str) -> None:
    raise InvariantViolation(f"{process.name} has contained an exception at {guard} ({scope}): {text}")


class Event:
    """Something planned. `process` is whose doing it is: it does not happen once that process has died."""

    __slots__ = ("action", "cancelled", "due_us", "incarnation", "label", "process")

    def __init__(self, label: Label, action: Callable[[], None], process: Process | None) -> None:
        self.label = label
        self.action = action
        self.process = process
        self.incarnation = process.incarnation if process is not None else 0
        self.cancelled = False
        self.due_us = 0

    def __str__(self) -> str:
        said = self.label if isinstance(self.label, str) else self.label()
        return said if self.process is None else f"{self.process.name} {said}"


class Scheduler:
    def __init__(self, seed: int, steps: int = -1, lines_max: int = 0) -> None:
        """After `steps` events comes StepsUsedUp; -1: never. The last `lines_max` events are remembered in words."""
        self._steps = steps
        self.random = Random(seed)
        self.now_us = 0
        self.events = 0
        self.remembered: deque[str] = deque(maxlen=lines_max)
        self._is_reported = lines_max > 0
        self._heap: list[tuple[int, int, Event]] = []
        self._planned = 0
        self._trace = hashlib.sha256()
        self._trace_block = array("q")
        # Hears of each exception that a process has contained, or has ended by: the process, the guard, its scope, the
        # text. Where none is thrown on purpose there is none.
        self.contained: Callable[[Process, str, str, str], None] = _refuse_contained

    @property
    def trace(self) -> str:
        """The hash over everything up to now."""
        self._trace.update(self._trace_block.tobytes())
        del self._trace_block[:]
        return self._trace.hexdigest()

    def below(self, end: int) -> int:
        """A number by chance, 0 to `end` - 1: as `random.randrange`, at a tenth of its price."""
        return int(self.random.random() * end)

    def plan(self, delay_us: int, label: Label, action: Callable[[], None], process: Process | None = None) -> Event:
        """Have `action` happen in `delay_us`, unless its process has died by then; a paused one does it late."""
        assert delay_us >= 0, "the past is over"
        event = Event(label, action, process)
        self._planned += 1
        event.due_us = due_us = self.now_us + delay_us
        heappush(self._heap, (due_us, self._planned, event))
        return event

    def replan(self, delay_us: int, event: Event) -> None:
        """An event that could not happen when it was due."""
        assert delay_us >= 0, "the past is over"
        self._planned += 1
        event.due_us = due_us = self.now_us + delay_us
        heappush(self._heap, (due_us, self._planned, event))

    def note(self, what: str) -> None:
        """What is no event, and tells runs apart; for what is rare."""
        self.fingerprint(what.encode())
        if self._is_reported:
            self._remember(what)

    def fingerprint(self, data: bytes) -> None:
        """Make `data` part of the trace."""
        self._trace_block.append(crc32(data))

    def _remember(self, what: str) -> None:
        self.remembered.append(f"{self.now_us:>12} {what}")

    def step(self) -> bool:
        """Let the next event happen; False when nothing is planned any more."""
        heap = self._heap
        while heap:
            due_us, number, event = heappop(heap)
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
            block = self._trace_block
            block.append(due_us)
            block.append(number)
            if len(block) > TRACE_BLOCK:
                self._trace.update(block.tobytes())
                del block[:]
            if self._is_reported:
                self._remember(str(event))
            try:
                event.action()
            except ProcessEnds:
                assert process is not None
                process.interrupted()
            except (Exception, Uncontained) as error:
                fault = injected(error)
                if fault is None:
                    raise
                fault.process.failed(fault)
            return True
        return False

    def run_until(self, at_us: int) -> None:
        """Everything up to and including `at_us`."""
        heap, step = self._heap, self.step
        while heap and heap[0][0] <= at_us:
            step()
        self.now_us = max(self.now_us, at_us)

    def run_while(self, condition: Callable[[], bool], limit_us: int) -> bool:
        """Run as long as `condition` holds; False when it still does after `limit_us`."""
        end_us = self.now_us + limit_us
        while condition():
            if not self._heap or self._heap[0][0] > end_us:
                return False
            self.step()
        return True
