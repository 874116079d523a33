"""What time it is for all groups of one logstore: it stands still within a turn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    now_ms: int = 0
    """Monotonic: deadlines count by it."""
    wall_ms: int = 0
    """What is written into records."""
