"""A machine's clocks: a monotonic one that may run a little faster or slower than others, and a wall clock that may be
wrong and may jump.
"""

from __future__ import annotations

from tests.sim.scheduler import MS, Scheduler
from tests.sim.weather import Hit, unnoticed

MILLION = 1_000_000


class Clock:
    __slots__ = ("_hit_by_rate", "_hit_by_wall", "_rate_ppm", "_scheduler", "_since_us", "_until_us", "wall_offset_ms")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        # At `_since_us` of the simulation's time this clock was at `_until_us`, and has gained so much since.
        self._since_us = 0
        self._until_us = 0
        self._rate_ppm = 0
        self.wall_offset_ms = 0
        self._hit_by_rate: Hit = unnoticed
        self._hit_by_wall: Hit = unnoticed

    @property
    def elapsed_us(self) -> int:
        """Since the start, by the monotonic clock."""
        since_us = self._scheduler.now_us - self._since_us
        if self._rate_ppm:
            self._hit_by_rate()
            since_us += since_us * self._rate_ppm // MILLION
        return self._until_us + since_us

    @property
    def wall_elapsed_ms(self) -> int:
        if self.wall_offset_ms:
            self._hit_by_wall()
        return self._scheduler.now_us // MS + self.wall_offset_ms

    def run_at(self, rate_ppm: int, hit: Hit = unnoticed) -> None:
        """Gain so many millionths from now on; `hit` is called whenever it is read."""
        self._until_us = self.elapsed_us
        self._since_us = self._scheduler.now_us
        self._rate_ppm = rate_ppm
        self._hit_by_rate = hit

    def set_wall(self, offset_ms: int, hit: Hit = unnoticed) -> None:
        """Be wrong by so much from now on; `hit` is called whenever it is read."""
        self.wall_offset_ms = offset_ms
        self._hit_by_wall = hit
