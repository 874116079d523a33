"""Machines that stand still and go on as if nothing had been: SIGSTOP, longer and shorter than a lease."""

from __future__ import annotations

from tests.faults.injections.crashes import Choice
from tests.faults.machines import LEASE_TTL_MS
from tests.faults.stage import Stage


def pause(stage: Stage, whom: Choice, leases: float) -> None:
    """For so many lease TTLs. What it sends when it wakes up is of an epoch that may be over."""
    victims = whom(stage)
    with stage.injected(f"SIGSTOP {', '.join(victims)} for {leases:g} TTL"):
        for victim in victims:
            stage.cluster.pause(victim)
        stage.hold(leases * LEASE_TTL_MS / 1000)
        for victim in victims:
            stage.cluster.resume(victim)


def stutter(stage: Stage, whom: Choice) -> None:
    """Half a second awake, half a second asleep, for two leases: a machine that has no time."""
    victims = whom(stage)
    with stage.injected(f"SIGSTOP {', '.join(victims)}, half of the time"):
        for _ in range(2 * LEASE_TTL_MS // 1000):
            for victim in victims:
                stage.cluster.pause(victim)
            stage.hold(0.5)
            for victim in victims:
                stage.cluster.resume(victim)
            stage.hold(0.5)
