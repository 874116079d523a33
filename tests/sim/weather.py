"""What a link does, in one direction, to what passes it: losses (which TCP repeats, late), jitter, slowness.

Nothing is lost or overtaken within a connection; messages of other connections do overtake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.sim.scheduler import MS, Scheduler

# Linux' first retransmission timeout; it doubles.
RETRANSMISSION_US = 200 * MS
REPETITIONS_MAX = 4

Hit = Callable[[], None]
"""Called when something has really gone wrong."""


def unnoticed() -> None:
    """None counts."""


@dataclass(slots=True)
class Weather:
    hit: Hit
    # The share of packets that get lost.
    loss: float = 0.0
    jitter_us: int = 0
    factor: int = 1
    # When the latest of all that has been sent so far arrives.
    newest_us: int = 0

    def delay_us(self, usual_us: int, scheduler: Scheduler) -> int:
        delay_us = usual_us * self.factor
        if self.factor > 1:
            self.hit()
        if self.jitter_us:
            delay_us += scheduler.below(self.jitter_us)
            due_us = scheduler.now_us + delay_us
            if due_us < self.newest_us:
                self.hit()
            self.newest_us = max(self.newest_us, due_us)
        for repetition in range(REPETITIONS_MAX if self.loss else 0):
            if scheduler.random.random() >= self.loss:
                break
            delay_us += RETRANSMISSION_US << repetition
            self.hit()
        return delay_us
