"""The time of the present input, as the host gave it."""

from __future__ import annotations


class Clock:
    """One per processor; the processor sets it at each input, everything else reads it."""

    __slots__ = ("now_ms",)

    def __init__(self) -> None:
        self.now_ms = 0
        """Monotonic."""
