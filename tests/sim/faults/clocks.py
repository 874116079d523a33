"""What goes wrong with clocks: wall clocks are set, wrong, or strobe; monotonic ones run a little fast or slow.

Nothing that is promised may depend on wall clocks. Leases are counted by each machine's own monotonic clock: they have
to bear that the clocks of two machines gain on each other, as far as quartz does and somewhat beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.faults.kinds import Fault
from tests.sim.process import Process
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.faults.swarm import Faults

MINUTE_MS = 60_000
# Two clocks that are both wrong are less than an hour apart: beyond that a leader may refuse timestamps (KIP-937).
WRONG_MS_MAX = 25 * MINUTE_MS
# Quartz: some 50; under virtualization more has been seen.
RATES_PPM = (-10_000, -500, 500, 10_000)


def _wrong_by(faults: Faults) -> int:
    sign = faults.random.choice((-1, 1))
    return sign * faults.random.choice((1, 200, 5_000, MINUTE_MS, WRONG_MS_MAX))


def _machine(faults: Faults) -> Process:
    return faults.random.choice(faults.cluster.processes)


def jump(faults: Faults) -> None:
    """And back, some time later."""
    process = _machine(faults)
    process.clock.set_wall(_wrong_by(faults), faults.first_hit(Fault.CLOCK_JUMP))
    faults.later(5 * SECOND, f"the clock of {process.name} is set right", lambda: process.clock.set_wall(0))


def skew(faults: Faults) -> None:
    """Every machine has a time of its own, until its clock is set."""
    hit = faults.first_hit(Fault.CLOCK_SKEW)
    for process in faults.cluster.processes:
        process.clock.set_wall(_wrong_by(faults), hit)


def strobe(faults: Faults) -> None:
    """Every few milliseconds, for a while."""
    process, offset_ms = _machine(faults), _wrong_by(faults)
    hit = faults.first_hit(Fault.CLOCK_STROBE)
    interval_us = faults.random.choice((5, 50, 300)) * MS

    def flip(left: int) -> None:
        is_wrong = left % 2 == 1
        process.clock.set_wall(offset_ms if is_wrong else 0, hit)
        if left:
            faults.after(interval_us, f"the clock of {process.name} jumps", lambda: flip(left - 1))

    flip(2 * faults.random.randint(5, 20))


def rate(faults: Faults) -> None:
    process = _machine(faults)
    process.clock.run_at(faults.random.choice(RATES_PPM), faults.first_hit(Fault.CLOCK_RATE))


STRIKES: dict[Fault, Callable[[Faults], None]] = {
    Fault.CLOCK_JUMP: jump,
    Fault.CLOCK_SKEW: skew,
    Fault.CLOCK_STROBE: strobe,
    Fault.CLOCK_RATE: rate,
}


def heal(cluster: Cluster) -> None:
    for process in cluster.processes:
        process.clock.set_wall(0)
        process.clock.run_at(0)
