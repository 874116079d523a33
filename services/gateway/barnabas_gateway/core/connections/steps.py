"""Requests that take long, some steps in each turn: however much one client requests, others have their turns in
between.

Work that grows with the elements of a request, or of its response, is a generator (`barnabas.wire.primitives.Steps`):
its decoding, its start (`Handler.start`), its response's encoding. A step is the work for about one element. All
requests together have `STEPS_PER_TURN` in a turn of the processor, and each has `STEPS_AT_ONCE` before the next one has
its share. What fits into the present turn is done at once, so that a small request is not delayed by this.

Between two steps anything may happen: the image changes, the connection closes, the request's time is over. A request
whose connection is closed is dropped, and so is work that is replaced by other work for the same request. What a long
request leaves behind is freed in later turns (`Discarded`), faster than steps can make more of it.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.containment import end_by

STEPS_PER_TURN: Final = 500
"""At 5 to 20 µs each, the slowest steps."""
STEPS_AT_ONCE: Final = 125
DISCARDED_OBJECTS_PER_TURN: Final = 2_000
"""At half a microsecond each. A request has some tracked objects for each element, which takes three steps or more."""

_PARTS_PER_OBJECT: Final = 8
"""Looking at so many parts costs as much as freeing one object."""


def _count_own_references() -> int:
    """Return what `sys.getrefcount` reports for an object that only a local variable references: 2, or from Python 3.14
    on 1.
    """
    each = object()
    return sys.getrefcount(each)


_OWN_REFERENCES: Final = _count_own_references()


class Discarded:
    """Free what long requests leave behind, a little in each turn.

    The last reference to a request of 100,000 elements frees all of them at once, in a turn of 50 ms. So it is kept
    here instead, and taken apart from above: an object's parts are kept before the object itself is freed, which then
    frees nothing else. What anything else still refers to is left to that.

    This reads the reference counts of CPython (`sys.getrefcount`, `gc.get_referents`). It changes no object: where it
    takes something for shared that is not, that is freed at once as it would be without it.
    """

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: list[Any] = []

    def free_later(self, what: object) -> None:
        """Free this in later turns, if nothing else references it then."""
        self._objects.append(what)

    def has_work(self) -> bool:
        return len(self._objects) > 0

    def free_objects(self, objects_max: int) -> None:
        """Free so many objects, or all."""
        objects = self._objects
        left = objects_max
        while objects and left > 0:
            each = objects.pop()
            left -= 1
            if sys.getrefcount(each) == _OWN_REFERENCES:
                parts = gc.get_referents(each)
                # Untracked objects (text, numbers) have no parts, and are freed with the object.
                objects.extend(filter(gc.is_tracked, parts))
                left -= len(parts) // _PARTS_PER_OBJECT
                del parts


class RequestSteps:
    __slots__ = ("_give_up", "_running", "_steps_left", "_waiting", "discarded")

    def __init__(self, discarded: Discarded, give_up: Callable[[PendingRequest], None]) -> None:
        """`give_up` cancels what a request has begun although its connection is closed."""
        self._give_up = give_up
        self._running: PendingRequest | None = None
        self._steps_left = STEPS_PER_TURN
        self._waiting: deque[PendingRequest] = deque()
        self.discarded = discarded

    def begin_steps(self, pending: PendingRequest, steps: Steps[None]) -> None:
        """Do this for a request, now as far as the turn allows, instead of what was still to be done for it."""
        is_waiting = pending.steps is not None
        pending.steps = steps
        if is_waiting or pending is self._running:
            return
        if self._waiting or self._running is not None or self._steps_left <= 0:
            self._waiting.append(pending)
        else:
            self._go_on(pending)

    def run_turn(self) -> None:
        """Continue with what waits, until the turn's steps are used up; the next turn begins with this."""
        if self.discarded.has_work():
            self.discarded.free_objects(DISCARDED_OBJECTS_PER_TURN)
        while self._waiting and self._steps_left > 0:
            self._go_on(self._waiting.popleft())
        self._steps_left = STEPS_PER_TURN

    def has_work(self) -> bool:
        return len(self._waiting) > 0 or self.discarded.has_work()

    def _go_on(self, pending: PendingRequest) -> None:
        """Run the request's share, and queue it for another one if that is not enough."""
        left = min(self._steps_left, STEPS_AT_ONCE)
        self._steps_left -= left
        self._running = pending
        quotas = pending.connection.quotas
        began_us = -1 if quotas is None else quotas.start_timing()
        try:
            while left > 0 and pending.steps is not None and not pending.connection.is_closed:
                steps, pending.steps = pending.steps, None
                for cost in steps:
                    left -= cost
                    if left <= 0 or pending.steps is not None:
                        break
                else:
                    continue
                if pending.steps is None:
                    pending.steps = steps
            if pending.connection.is_closed:
                self._give_up(pending)
        except Exception as error:
            # An internal error in one request must not close the other connections.
            end_by(pending, error)
        finally:
            self._running = None
            if quotas is not None:
                pending.connection.spent_us += quotas.stop_timing(began_us)
        self._steps_left += left
        if pending.steps is not None:
            if pending.connection.is_closed:
                self.discarded.free_later(pending.steps)
                pending.steps = None
            else:
                self._waiting.append(pending)
