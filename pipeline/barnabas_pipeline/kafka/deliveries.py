"""What becomes of records that librdkafka is given, as one line.

On its own it prints each attempt to reach a broker that is gone, hundreds of them: so its producers get
PRODUCER_LOG_LEVEL, and the last error of a connection goes with the failure, whose own text is that time ran out.
"""

from __future__ import annotations

from typing import Any


class Deliveries:
    """Of one producer: `delivered` is its `on_delivery`, `met` its `error_cb`."""

    def __init__(self) -> None:
        self.failure: str | None = None
        """Of the first record that was not written."""
        self._met: str | None = None

    def delivered(self, error: Any, message: Any) -> None:
        if error is not None and self.failure is None:
            self.failure = f"a record for topic {message.topic()} was not written: {self.why(error.str())}"

    def met(self, error: Any) -> None:
        self._met = error.str()

    def why(self, reason: str) -> str:
        """The reason, with the last error of a connection, if there was one."""
        return reason if self._met is None or self._met == reason else f"{reason}; the last error was: {self._met}"
