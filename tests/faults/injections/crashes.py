"""Processes that die, and processes that get SIGTERM."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.faults.machines import CONTROLLERS, ETCD, GATEWAYS, LOGSTORES, PURGATORIES, SERVICES
from tests.faults.stage import Stage

DOWN_SECONDS = 4.0
"""For so long a machine stays dead; less than a lease."""
STOP_SECONDS_MAX = 30.0
"""How long a service may take to stop after SIGTERM."""

_PROCESSOR = "processor"
_CONTROL_PROCESS = "control"
"""By the names of the processes: those that were forked have their parent's command line."""

Choice = Callable[[Stage], list[str]]
"""Who is hit."""


def leader(stage: Stage) -> list[str]:
    return [stage.leader()]


def follower(stage: Stage) -> list[str]:
    return [stage.follower()]


def two_logstores(stage: Stage) -> list[str]:
    return sorted(stage.chance.sample(LOGSTORES, 2))


def all_logstores(stage: Stage) -> list[str]:
    return list(LOGSTORES)


def gateway(stage: Stage) -> list[str]:
    return [stage.chance.choice(GATEWAYS)]


def purgatory(stage: Stage) -> list[str]:
    return [stage.chance.choice(PURGATORIES)]


def both_purgatories(stage: Stage) -> list[str]:
    return list(PURGATORIES)


def active_controller(stage: Stage) -> list[str]:
    return [stage.cluster.active_controller()]


def standby_controller(stage: Stage) -> list[str]:
    active = stage.cluster.active_controller()
    return [controller for controller in CONTROLLERS if controller != active]


def both_controllers(stage: Stage) -> list[str]:
    return list(CONTROLLERS)


def etcd_leader(stage: Stage) -> list[str]:
    return [stage.cluster.etcd_leader()]


def etcd_follower(stage: Stage) -> list[str]:
    leading = stage.cluster.etcd_leader()
    return [stage.chance.choice([member for member in ETCD if member != leading])]


def leader_and_controller(stage: Stage) -> list[str]:
    return [stage.leader(), stage.cluster.active_controller()]


def leader_and_etcd_leader(stage: Stage) -> list[str]:
    return [stage.leader(), stage.cluster.etcd_leader()]


def everything(stage: Stage) -> list[str]:
    return list(SERVICES)


def kill(stage: Stage, whom: Choice, down_seconds: float = DOWN_SECONDS) -> None:
    """kill -9 of all of them at the same moment; they are started again together."""
    victims = whom(stage)
    with stage.injected(f"kill -9 {', '.join(victims) if len(victims) < len(SERVICES) else 'everything'}"):
        stage.cluster.kill(*victims)
        stage.hold(down_seconds)
        for victim in victims:
            stage.cluster.spawn(victim)


def kill_again_and_again(stage: Stage) -> None:
    """Killed as soon as it is up again, thrice: it may be elected in between, or be half way through its recovery."""
    victim = stage.leader()
    with stage.injected(f"kill -9 {victim}, thrice"):
        for _ in range(3):
            stage.cluster.kill(victim)
            stage.cluster.spawn(victim)
            stage.hold(stage.chance.uniform(0.3, 2.5))


def kill_processor(stage: Stage) -> None:
    """The gateway lives on, and starts another one."""
    _kill_child(stage, stage.chance.choice(GATEWAYS), _PROCESSOR)


def kill_control_process(stage: Stage) -> None:
    """The process of a logstore that the controller speaks to."""
    _kill_child(stage, stage.leader(), _CONTROL_PROCESS)


def stop_leader(stage: Stage) -> None:
    """SIGTERM: it hands its leadership over before it goes."""
    victim = stage.leader()
    with stage.injected(f"SIGTERM {victim}"):
        stage.cluster.terminate(victim, STOP_SECONDS_MAX)
        stage.hold(1.0)
        stage.cluster.spawn(victim)


def roll(stage: Stage, services: tuple[str, ...]) -> None:
    """Stop and start one after another; the next one's turn is when the cluster has settled."""
    for service in services:
        with stage.injected(f"SIGTERM {service}"):
            stage.cluster.terminate(service, STOP_SECONDS_MAX)
            stage.cluster.spawn(service)


def _kill_child(stage: Stage, service: str, name: str) -> None:
    children = [pid for pid in stage.cluster.processes(service) if _name(pid) == name]
    assert children, f"{service} has a process {name}"
    with stage.injected(f"kill -9 {name} of {service}"):
        os.kill(stage.chance.choice(children), signal.SIGKILL)
        stage.hold(DOWN_SECONDS)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
