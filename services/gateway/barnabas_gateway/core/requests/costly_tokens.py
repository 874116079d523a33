"""CostlyTokens: tokens of SASL whose check takes a processor's loop long, in small numbers per turn.

A signature takes half a millisecond, and any client can send a token. Of hundreds that come at once a few are checked
in each turn, so that the other clients of the processor are served in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas_gateway.core.model.deadlines import Clock, Deadlines

CHECKS_PER_TURN: Final = 8
"""Some 5 ms, with RSA keys of 8192 bits 23 ms."""


class CostlyTokens:
    """Checks wait in order. Those of connections that are closed meanwhile return at once."""

    __slots__ = ("_clock", "_deadlines", "_left", "_waiting", "deadline_bucket", "is_used")

    def __init__(self, clock: Clock, deadlines: Deadlines) -> None:
        self._clock = clock
        self._deadlines = deadlines
        self._waiting: deque[Callable[[], None]] = deque()
        self._left = CHECKS_PER_TURN
        self.is_used = False
        """Whether a check has run in this turn; `turn_taken` is called then."""
        self.deadline_bucket = -1

    def submit(self, check: Callable[[], None]) -> None:
        """Run it now, or in one of the next turns."""
        if self._left > 0 and not self._waiting:
            self._run(check)
            return
        self._waiting.append(check)
        if self.deadline_bucket < 0:
            self._deadlines.schedule(self, self._clock.now_ms + 1)

    def turn_taken(self) -> None:
        """The turn is over: the next one has checks of its own."""
        self._left = CHECKS_PER_TURN
        self.is_used = False

    def failed(self, error: Exception) -> None:
        raise error

    def expire(self, now_ms: int) -> None:
        """Run checks that wait."""
        while self._waiting and self._left > 0:
            self._run(self._waiting.popleft())
        if self._waiting:
            self._deadlines.schedule(self, now_ms + 1)

    def _run(self, check: Callable[[], None]) -> None:
        self._left -= 1
        self.is_used = True
        check()
