"""The two clocks, read here and passed into the cores as arguments (`now_ms`, `wall_ms`)."""

from __future__ import annotations

import time


def monotonic_ms() -> int:
    """Milliseconds that never go back, from an unknown start: for timeouts and intervals."""
    return time.monotonic_ns() // 1_000_000


def monotonic_us() -> int:
    """The same clock in microseconds: for timing requests."""
    return time.monotonic_ns() // 1_000


def wall_ms() -> int:
    """Milliseconds since 1970 by the system's clock, which may jump: for record timestamps only."""
    return time.time_ns() // 1_000_000
