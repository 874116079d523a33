"""Requests that take long, some steps in each turn: however much one client asks, others have their turns between.

What grows with what a request names, or with what its answer has, is a generator (`barnabas.wire.primitives.Steps`):
its decoding, its beginning (`Handler.start`), its answer's encoding. A step is the work for about one element. All
requests together have `STEPS_PER_TURN` in a turn of the processor, and each has `STEPS_AT_ONCE` before the next one has
its share. What fits into the present turn is done at once, so that a request of some elements notices nothing of this.

Between two steps anything may happen: the image changes, the connection closes, the request's time is over. A request
whose connection is closed is dropped, and so is work that is replaced by other work for the same request. What a long
request leaves behind is freed in later turns (`discarded`), faster than steps can make more of it.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.connections.discarded import Discarded

STEPS_PER_TURN: Final = 500
"""Of 5 to 20 µs each, as the slowest are."""
STEPS_AT_ONCE: Final = 125
DISCARDED_OBJECTS_PER_TURN: Final = 2_000
"""Of half a microsecond each. A request has some tracked objects for each element, which takes three steps or more."""


class StepsOwner(Protocol):
    def failed(self, pending: PendingRequest, error: Exception) -> None:
        """The work for a request has raised this."""


class RequestSteps:
    __slots__ = ("_owner", "_running", "_steps_left", "_waiting", "discarded")

    def __init__(self, owner: StepsOwner, discarded: Discarded) -> None:
        """`owner` closes the connection of work that fails."""
        self._owner = owner
        self._running: PendingRequest | None = None
        self._steps_left = STEPS_PER_TURN
        self._waiting: deque[PendingRequest] = deque()
        self.discarded = discarded

    def begin(self, pending: PendingRequest, steps: Steps[None]) -> None:
        """Do this for a request, now as far as the turn allows; in place of what was still to be done for it."""
        is_waiting = pending.steps is not None
        pending.steps = steps
        if is_waiting or pending is self._running:
            return
        if self._waiting or self._running is not None or self._steps_left <= 0:
            self._waiting.append(pending)
        else:
            self._go_on(pending)

    def run(self) -> None:
        """Go on with what waits, until the turn's steps are used up; the next turn begins with this."""
        if self.discarded.has_work():
            self.discarded.free(DISCARDED_OBJECTS_PER_TURN)
        while self._waiting and self._steps_left > 0:
            self._go_on(self._waiting.popleft())
        self._steps_left = STEPS_PER_TURN

    def has_work(self) -> bool:
        return len(self._waiting) > 0 or self.discarded.has_work()

    def _go_on(self, pending: PendingRequest) -> None:
        """The request's share, and into the line for another one where that is not enough."""
        left = min(self._steps_left, STEPS_AT_ONCE)
        self._steps_left -= left
        self._running = pending
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
        except Exception as error:
            # A fault that one request finds must not take the other connections with it.
            self._owner.failed(pending, error)
        finally:
            self._running = None
        self._steps_left += left
        if pending.steps is not None:
            if pending.connection.is_closed:
                self.discarded.add(pending.steps)
                pending.steps = None
            else:
                self._waiting.append(pending)
