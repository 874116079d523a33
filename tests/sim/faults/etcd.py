"""What goes wrong with etcd. What it has answered it keeps: it is three members, and a majority of them has a disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.etcd_model import Fate
from tests.sim.faults.kinds import Fault
from tests.sim.faults.processes import kill, provoke_changes
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.faults.swarm import Faults


def kill_etcd(faults: Faults) -> None:
    kill(faults, Fault.KILL_ETCD, [faults.cluster.etcd])


def reset_etcd(faults: Faults) -> None:
    if faults.cluster.network.break_connections("etcd", faults.random.random()):
        faults.hit(Fault.RESET_ETCD)


def _lose_leader(faults: Faults, fault: Fault, duration_us: int) -> None:
    etcd = faults.cluster.etcd
    if etcd.alive and not etcd.is_leaderless:
        etcd.lose_leader(faults.first_hit(fault))
        faults.after(duration_us, "etcd has a leader again", etcd.elect_leader)


def leader_loss(faults: Faults) -> None:
    _lose_leader(faults, Fault.ETCD_LEADER_LOSS, faults.random.randrange(500 * MS, 5 * SECOND))


def quorum_loss(faults: Faults) -> None:
    """Up to a minute; the run may end first."""
    _lose_leader(faults, Fault.ETCD_QUORUM_LOSS, faults.random.randrange(8 * SECOND, 60 * SECOND))


def txn_lost(faults: Faults) -> None:
    faults.cluster.etcd.fates.append((Fate.LOST, faults.first_hit(Fault.TXN_LOST)))
    provoke_changes(faults)


def txn_answer_lost(faults: Faults) -> None:
    faults.cluster.etcd.fates.append((Fate.APPLIED_UNANSWERED, faults.first_hit(Fault.TXN_ANSWER_LOST)))
    provoke_changes(faults)


def watch_lag(faults: Faults) -> None:
    etcd = faults.cluster.etcd
    lag_us, hit = faults.random.choice((20, 300, 3_000)) * MS, faults.first_hit(Fault.WATCH_LAG)

    def watch_lag_us() -> int:
        hit()
        return faults.scheduler.below(lag_us)

    def catch_up() -> None:
        if etcd.watch_lag_us is watch_lag_us:
            etcd.watch_lag_us = None

    etcd.watch_lag_us = watch_lag_us
    faults.later(6 * SECOND, "watches of etcd are in time again", catch_up)


def compaction(faults: Faults) -> None:
    if faults.cluster.etcd.compact():
        faults.hit(Fault.COMPACTION)


def lease_ends_early(faults: Faults) -> None:
    if faults.cluster.etcd.end_a_lease():
        faults.hit(Fault.LEASE_ENDS_EARLY)


STRIKES: dict[Fault, Callable[[Faults], None]] = {
    Fault.KILL_ETCD: kill_etcd,
    Fault.RESET_ETCD: reset_etcd,
    Fault.ETCD_LEADER_LOSS: leader_loss,
    Fault.ETCD_QUORUM_LOSS: quorum_loss,
    Fault.TXN_LOST: txn_lost,
    Fault.TXN_ANSWER_LOST: txn_answer_lost,
    Fault.WATCH_LAG: watch_lag,
    Fault.COMPACTION: compaction,
    Fault.LEASE_ENDS_EARLY: lease_ends_early,
}


def heal(cluster: Cluster) -> None:
    cluster.etcd.heal()
