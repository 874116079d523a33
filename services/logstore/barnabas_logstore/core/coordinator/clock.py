"""The time for all groups of one logstore, constant within a turn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    now_ms: int = 0
    """Monotonic: deadlines use it."""
    wall_ms: int = 0
    """The wall clock, for records."""
