"""The cells: what is done to the cluster while transactions are under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, partition_of_group
from tests.faults.cells import Need
from tests.faults.cluster import UnhealthyError
from tests.faults.injections import control, crashes, cuts, disks, pauses
from tests.faults.machines import CONTROLLERS, GATEWAYS, LOGSTORES, PURGATORIES, logstore_of
from tests.faults.stage import Stage
from tests.faults.topics import RefusedError, elect_preferred_leaders, leaders_of, reassign, replicas_of


@dataclass(slots=True, frozen=True)
class Cell:
    name: str
    fault: Callable[[Stage], None]
    needs: frozenset[Need] = frozenset()
    by_java: bool = False
    """Whether the clients are Kafka's own, which use transaction version 2; librdkafka's use version 1."""


def coordinator(stage: Stage) -> list[str]:
    """The logstore that coordinates the transactions of some client of the cell."""
    client = stage.chance.choice(("copier-0", "copier-1", "writer-0", "writer-1"))
    return [_led_by(stage, TRANSACTION_STATE_TOPIC, f"{_run_of(stage)}-{client}")]


def group_coordinator(stage: Stage) -> list[str]:
    """The logstore that keeps the offsets that the copiers commit within their transactions."""
    return [_led_by(stage, OFFSETS_TOPIC, f"{_run_of(stage)}-copiers")]


def both_coordinators(stage: Stage) -> list[str]:
    return sorted({*coordinator(stage), *group_coordinator(stage)})


def coordinator_and_controller(stage: Stage) -> list[str]:
    return [*coordinator(stage), stage.cluster.active_controller()]


def move_coordinators(stage: Stage) -> None:
    """Every partition of the transactions' states gets another preferred leader, which is elected: all coordinators
    change while they run."""
    layout = stage.cluster.layout
    replicas = replicas_of(layout, TRANSACTION_STATE_TOPIC)
    with stage.injected("another coordinator for every transactional id"):
        reassign(layout, TRANSACTION_STATE_TOPIC, {each: [*ids[1:], ids[0]] for each, ids in replicas.items()})
        stage.hold(1.0)
        elect_preferred_leaders(layout, TRANSACTION_STATE_TOPIC, replicas)
        stage.hold(1.0)


def _run_of(stage: Stage) -> str:
    """Return the name that the topics and the transactional ids of a cell begin with."""
    return stage.topic.rpartition("-")[0]


def _led_by(stage: Stage, topic: str, key: str) -> str:
    """Return the logstore that leads the partition of an internal topic that this id belongs to."""
    try:
        leaders = leaders_of(stage.cluster.layout, topic)
    except RefusedError as reason:
        raise UnhealthyError(str(reason)) from None
    leader, _ = leaders[partition_of_group(key, len(leaders))]
    if leader < 0:
        raise UnhealthyError(f"the partition of {key} in {topic} has no leader")
    return logstore_of(leader)


def _cut(name: str, fault: Callable[[Stage], None]) -> Cell:
    return Cell(name, fault, frozenset({Need.NETWORK}))


_CELLS: Final = [
    Cell("kill-coordinator", partial(crashes.kill, whom=coordinator)),
    Cell("kill-coordinator-at-once-up", partial(crashes.kill, whom=coordinator, down_seconds=0.0)),
    Cell("kill-coordinator-past-lease", partial(crashes.kill, whom=coordinator, down_seconds=9.0)),
    Cell("kill-group-coordinator", partial(crashes.kill, whom=group_coordinator)),
    Cell("kill-both-coordinators", partial(crashes.kill, whom=both_coordinators)),
    Cell("kill-coordinator-and-controller", partial(crashes.kill, whom=coordinator_and_controller)),
    Cell("kill-leader", partial(crashes.kill, whom=crashes.leader)),
    Cell("kill-leader-thrice", crashes.kill_again_and_again),
    Cell("kill-two-logstores", partial(crashes.kill, whom=crashes.two_logstores)),
    Cell("kill-all-logstores", partial(crashes.kill, whom=crashes.all_logstores, down_seconds=1.0)),
    Cell("kill-gateway", partial(crashes.kill, whom=crashes.gateway)),
    Cell("kill-processor", crashes.kill_processor),
    Cell("kill-purgatory", partial(crashes.kill, whom=crashes.purgatory)),
    Cell("kill-active-controller", partial(crashes.kill, whom=crashes.active_controller)),
    Cell("kill-everything", partial(crashes.kill, whom=crashes.everything, down_seconds=1.0)),
    Cell("stop-leader", crashes.stop_leader),
    Cell("roll-logstores", partial(crashes.roll, services=LOGSTORES)),
    Cell("roll-the-others", partial(crashes.roll, services=(*CONTROLLERS, *PURGATORIES, *GATEWAYS))),
    Cell("move-coordinators", move_coordinators),
    Cell("reassignment", control.reassignment),
    Cell("pause-coordinator", partial(pauses.pause, whom=coordinator, leases=1.5)),
    Cell("pause-leader", partial(pauses.pause, whom=crashes.leader, leases=1.5)),
    Cell("pause-gateway", partial(pauses.pause, whom=crashes.gateway, leases=1.5)),
    Cell("stutter-coordinator", partial(pauses.stutter, whom=coordinator)),
    _cut("isolate-coordinator", partial(cuts.isolate, whom=coordinator)),
    _cut("isolate-leader", partial(cuts.isolate, whom=crashes.leader)),
    _cut("deafen-coordinator", partial(cuts.deafen, whom=coordinator)),
    _cut("mute-coordinator", partial(cuts.mute, whom=coordinator)),
    _cut("bridge", cuts.bridge),
    _cut("gateway-from-leader", cuts.gateway_from_leader),
    _cut("leader-from-followers", cuts.leader_from_followers),
    Cell("power-cut-of-leader", partial(disks.power_cut, whom=crashes.leader)),
    Cell("etcd-quorum-loss", partial(control.etcd_quorum_loss, seconds=12.0)),
]

_BY_JAVA: Final = (
    "kill-coordinator",
    "kill-coordinator-past-lease",
    "kill-both-coordinators",
    "kill-leader",
    "kill-all-logstores",
    "kill-gateway",
    "kill-processor",
    "kill-everything",
    "move-coordinators",
    "pause-coordinator",
    "pause-leader",
    "isolate-coordinator",
    "mute-coordinator",
    "power-cut-of-leader",
)
"""The faults that Kafka's own client is under too."""

CELLS: Final = {cell.name: cell for cell in _CELLS} | {
    f"{cell.name}-java": replace(cell, name=f"{cell.name}-java", by_java=True)
    for cell in _CELLS
    if cell.name in _BY_JAVA
}
