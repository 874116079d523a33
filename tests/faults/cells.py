"""The grid's cells: a fault, the clients that work meanwhile, and how soon writes should be acknowledged again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final

from tests.faults.clients.plan import Mix
from tests.faults.injections import control, crashes, cuts, disks, moving, pauses
from tests.faults.machines import CONTROLLERS, GATEWAYS, LEASE_TTL_MS, LOGSTORES, PURGATORIES, REPLICA_LAG_MS_MAX
from tests.faults.moving_leaders.movers import Move
from tests.faults.moving_leaders.producers import Client
from tests.faults.stage import Stage

CRASH_MS: Final = 2000
"""A process that is certainly gone need not be waited for."""
LEASE_MS: Final = LEASE_TTL_MS + 1000
"""One that is silent, as long as its lease."""
LAG_MS: Final = REPLICA_LAG_MS_MAX * 3 // 2 + 1000
"""A follower that its leader alone does not hear: leaders look for such ones every half of the lag."""
STOP_MS: Final = 1000
"""One that says that it goes."""
ALL_MS: Final = 30_000
"""As long as it takes to start everything, once what is dead is started again."""


class Need(Enum):
    """What not every machine has."""

    NETWORK = "network namespaces"
    SMALL_DISK = "a small file system to fill"
    COMPILER = "gcc"
    JAVA = "the Java client"
    GO = "franz-go"


NEEDS_OF: Final = {
    Client.JAVA: frozenset({Need.JAVA}),
    Client.LIBRDKAFKA: frozenset[Need](),
    Client.FRANZ_GO: frozenset({Need.GO}),
}


@dataclass(slots=True, frozen=True)
class Cell:
    name: str
    fault: Callable[[Stage], None]
    goal_ms: int | None
    """From the fault to the next acknowledged write of the partition that waits longest; None: none is promised."""
    partitions: int = 6
    mix: Mix = field(default_factory=Mix)
    configs: Mapping[str, str] = field(default_factory=dict)
    """Of the topic, beside min.insync.replicas."""
    needs: frozenset[Need] = frozenset()


_IDEMPOTENT = Mix(idempotent=4, acks_all=0, acks_1=0, sends_per_second=200)
_LARGE = Mix(record_bytes=20_000)
_BUSY = Mix(sends_per_second=400, readers=2)
_SHORT_LIVES = Mix(life_seconds=3.0)
_ALL: Final = crashes.all_logstores
_FLUSHED: Final = {"flush.messages": "1"}
_SMALL_SEGMENTS: Final = {"segment.bytes": str(1024 * 1024)}


def _cut(
    name: str, fault: Callable[[Stage], None], goal_ms: int | None, partitions: int = 6, mix: Mix | None = None
) -> Cell:
    return Cell(name, fault, goal_ms, partitions, mix or Mix(), needs=frozenset({Need.NETWORK}))


_CRASHES = [
    Cell("kill-leader", partial(crashes.kill, whom=crashes.leader), CRASH_MS),
    Cell("kill-leader-idempotent", partial(crashes.kill, whom=crashes.leader), CRASH_MS, mix=_IDEMPOTENT),
    Cell("kill-leader-large", partial(crashes.kill, whom=crashes.leader), CRASH_MS, 3, _LARGE, _SMALL_SEGMENTS),
    Cell("kill-leader-busy", partial(crashes.kill, whom=crashes.leader), CRASH_MS, mix=_BUSY),
    Cell("kill-leader-past-lease", partial(crashes.kill, whom=crashes.leader, down_seconds=9.0), CRASH_MS),
    Cell("kill-leader-at-once-up", partial(crashes.kill, whom=crashes.leader, down_seconds=0.0), CRASH_MS),
    Cell("kill-leader-thrice", crashes.kill_again_and_again, None),
    Cell("kill-follower", partial(crashes.kill, whom=crashes.follower), CRASH_MS, 1),
    Cell("kill-two-logstores", partial(crashes.kill, whom=crashes.two_logstores), None),
    Cell("kill-all-logstores", partial(crashes.kill, whom=crashes.all_logstores, down_seconds=1.0), ALL_MS),
    Cell("kill-gateway", partial(crashes.kill, whom=crashes.gateway), CRASH_MS, mix=_SHORT_LIVES),
    Cell("kill-processor", crashes.kill_processor, CRASH_MS),
    Cell("kill-control-process", crashes.kill_control_process, CRASH_MS),
    Cell("kill-purgatory", partial(crashes.kill, whom=crashes.purgatory), CRASH_MS),
    Cell("kill-both-purgatories", partial(crashes.kill, whom=crashes.both_purgatories), CRASH_MS),
    Cell("kill-active-controller", partial(crashes.kill, whom=crashes.active_controller), CRASH_MS),
    Cell("kill-standby-controller", partial(crashes.kill, whom=crashes.standby_controller), CRASH_MS),
    Cell("kill-both-controllers", partial(crashes.kill, whom=crashes.both_controllers), CRASH_MS),
    Cell("kill-etcd-member", partial(crashes.kill, whom=crashes.etcd_follower), CRASH_MS),
    Cell("kill-etcd-leader", partial(crashes.kill, whom=crashes.etcd_leader), CRASH_MS),
    Cell("kill-leader-and-controller", partial(crashes.kill, whom=crashes.leader_and_controller), LEASE_MS),
    Cell("kill-leader-and-etcd-leader", partial(crashes.kill, whom=crashes.leader_and_etcd_leader), LEASE_MS),
    Cell("kill-everything", partial(crashes.kill, whom=crashes.everything, down_seconds=1.0), ALL_MS),
    Cell("stop-leader", crashes.stop_leader, STOP_MS),
    Cell("roll-logstores", partial(crashes.roll, services=LOGSTORES), STOP_MS),
    Cell("roll-the-others", partial(crashes.roll, services=(*CONTROLLERS, *PURGATORIES, *GATEWAYS)), CRASH_MS),
]
_PAUSES = [
    Cell("pause-leader-half", partial(pauses.pause, whom=crashes.leader, leases=0.5), LEASE_MS),
    Cell("pause-leader", partial(pauses.pause, whom=crashes.leader, leases=1.5), LEASE_MS, mix=_IDEMPOTENT),
    Cell("pause-leader-long", partial(pauses.pause, whom=crashes.leader, leases=3.0), LEASE_MS),
    Cell("pause-follower", partial(pauses.pause, whom=crashes.follower, leases=1.5), LEASE_MS, 1),
    Cell("pause-controller", partial(pauses.pause, whom=crashes.active_controller, leases=1.5), CRASH_MS),
    Cell("pause-purgatory", partial(pauses.pause, whom=crashes.purgatory, leases=1.5), LEASE_MS),
    Cell("pause-gateway", partial(pauses.pause, whom=crashes.gateway, leases=1.5), None),
    Cell("pause-etcd-leader", partial(pauses.pause, whom=crashes.etcd_leader, leases=1.5), CRASH_MS),
    Cell("stutter-leader", partial(pauses.stutter, whom=crashes.leader), None),
]
_CUTS = [
    _cut("isolate-leader", partial(cuts.isolate, whom=crashes.leader), LEASE_MS),
    _cut("isolate-leader-idempotent", partial(cuts.isolate, whom=crashes.leader), LEASE_MS, mix=_IDEMPOTENT),
    _cut("isolate-follower", partial(cuts.isolate, whom=crashes.follower), LEASE_MS, 1),
    _cut("isolate-controller", partial(cuts.isolate, whom=crashes.active_controller), CRASH_MS),
    _cut("isolate-purgatory", partial(cuts.isolate, whom=crashes.purgatory), LEASE_MS),
    _cut("mute-leader", partial(cuts.mute, whom=crashes.leader), LEASE_MS),
    _cut("deafen-leader", partial(cuts.deafen, whom=crashes.leader), LEASE_MS),
    _cut("bridge", cuts.bridge, LAG_MS),
    _cut("deaf-follower", cuts.deaf_follower, LAG_MS),
    _cut("leader-from-followers", cuts.leader_from_followers, None),
    _cut("leader-from-control", cuts.leader_from_control, LEASE_MS),
    _cut("controller-from-etcd", cuts.controller_from_etcd, CRASH_MS),
    _cut("controller-from-leader", cuts.controller_from_leader, CRASH_MS),
    _cut("gateway-from-leader", cuts.gateway_from_leader, None),
    _cut("gateway-from-control", cuts.gateway_from_control, CRASH_MS),
    _cut("clients-from-gateway", cuts.clients_from_gateway, None, mix=_SHORT_LIVES),
    _cut("purgatory-from-logstores", partial(cuts.purgatory_from_logstores, whom=crashes.purgatory), LEASE_MS),
    _cut("etcd-leader-from-members", cuts.etcd_leader_from_members, CRASH_MS),
    _cut("rack", cuts.rack, None),
    _cut("flap-leader", partial(cuts.flap, whom=crashes.leader), None),
    _cut("thin-line-of-leader", partial(cuts.thin_line, whom=crashes.leader), None, mix=_LARGE),
    _cut("thin-line-of-follower", partial(cuts.thin_line, whom=crashes.follower), None, 1, _LARGE),
]
_DISKS = [
    Cell("full-disk", disks.full_disk, CRASH_MS, needs=frozenset({Need.SMALL_DISK})),
    Cell("full-disk-that-empties", disks.full_disk_that_empties, CRASH_MS, needs=frozenset({Need.SMALL_DISK})),
    Cell(
        "fsync-fails-in-one-directory",
        partial(disks.fsync_fails, directories=1),
        CRASH_MS,
        configs=_FLUSHED,
        needs=frozenset({Need.COMPILER}),
    ),
    Cell(
        "fsync-fails-everywhere",
        partial(disks.fsync_fails, directories=2),
        CRASH_MS,
        configs=_FLUSHED,
        needs=frozenset({Need.COMPILER}),
    ),
    Cell("power-cut-of-leader", partial(disks.power_cut, whom=crashes.leader), CRASH_MS),
    Cell("power-cut-of-follower", partial(disks.power_cut, whom=crashes.follower), CRASH_MS, 1),
    Cell("bit-flip-of-leader", partial(disks.bit_flip, whom=crashes.leader), CRASH_MS),
    Cell("bit-flip-of-follower", partial(disks.bit_flip, whom=crashes.follower), CRASH_MS, 1),
    Cell("power-cut-of-one-kill-of-all", partial(disks.power_cut, whom=crashes.leader, killed_too=_ALL), ALL_MS),
    Cell("bit-flip-of-one-kill-of-all", partial(disks.bit_flip, whom=crashes.leader, killed_too=_ALL), ALL_MS),
    Cell(
        "epoch-flip-of-one-kill-of-all",
        partial(disks.bit_flip, whom=crashes.leader, killed_too=_ALL, in_leader_epochs=True),
        ALL_MS,
    ),
    Cell("lost-directory", disks.lost_directory, CRASH_MS),
]
_CONTROL = [
    Cell("etcd-quorum-loss", partial(control.etcd_quorum_loss, seconds=20.0), CRASH_MS),
    Cell("leader-dies-without-quorum", partial(control.leader_dies_without_quorum, seconds=12.0), ALL_MS),
    _cut("delete-topic-while-leader-is-cut", control.delete_topic_while_leader_is_cut, LEASE_MS),
    Cell("preferred-election", control.preferred_election, CRASH_MS),
    Cell("reassignment", control.reassignment, STOP_MS),
    Cell("move-replicas", control.move_replicas, STOP_MS),
]

_FEW: Final = Mix(idempotent=1, acks_all=0, acks_1=0, readers=1)
"""The processors are the real clients'."""


def _moves(name: str, client: Client, move: Move) -> Cell:
    return Cell(name, partial(moving.move_leaders, client=client, move=move), None, 3, _FEW, needs=NEEDS_OF[client])


_MOVES = [
    _moves("moving-leaders-java", Client.JAVA, Move.REASSIGN),
    _moves("moving-leaders-librdkafka", Client.LIBRDKAFKA, Move.REASSIGN),
    _moves("moving-leaders-franz-go", Client.FRANZ_GO, Move.REASSIGN),
    _moves("stopping-leaders-java", Client.JAVA, Move.SHUTDOWN),
    _moves("killing-leaders-java", Client.JAVA, Move.KILL),
]

CELLS: Final = {cell.name: cell for cell in [*_CRASHES, *_PAUSES, *_CUTS, *_DISKS, *_CONTROL, *_MOVES]}
