"""Found by the simulation: a replica was moved away and back while it was paused, and an empty log was elected.

The leader took it into the ISR for what it had fetched before the first move. Then it woke, carried out the commands
received in the meantime (StopReplica, then LeaderAndIsr), and had nothing; the leader died, and it led: everything
acknowledged was gone. Since a replica that goes ends the leader epoch, as in KRaft, what it has fetched before is
fenced.
"""

from __future__ import annotations

from barnabas.cluster.keys import PartitionRecord
from barnabas_controller.core.state.partition_changes import Liveness, TopicRules, reassigned, with_isr

LIVE = Liveness({1: 10, 2: 20, 3: 30})
RULES = TopicRules()


def partition(*replicas: int) -> PartitionRecord:
    return PartitionRecord(
        leader=2,
        leader_epoch=5,
        partition_epoch=7,
        replicas=replicas,
        in_sync_replicas=replicas,
        leader_broker_epoch=20,
    )


def test_a_replica_that_is_taken_away_at_once_ends_the_leader_epoch() -> None:
    away = reassigned(partition(2, 3), (2,), LIVE, RULES)
    assert away is not None
    assert (away.leader, away.leader_epoch, away.replicas) == (2, 6, (2,))
    back = reassigned(away, (2, 3), LIVE, RULES)
    assert back is not None
    assert (back.leader, back.leader_epoch, back.adding_replicas) == (2, 6, (3,)), "no replica is removed"


def test_a_replica_that_goes_when_its_successor_is_in_sync_ends_the_leader_epoch() -> None:
    begun = reassigned(partition(2, 3), (2, 1), LIVE, RULES)
    assert begun is not None
    assert begun.leader_epoch == 5, "all are there still"
    done = with_isr(begun, [1, 2, 3], LIVE, RULES, recovered=False)
    assert (done.replicas, done.leader, done.leader_epoch) == ((2, 1), 2, 6)
