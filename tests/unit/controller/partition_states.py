"""States of one partition, and of the logstores around it, in few words."""

from __future__ import annotations

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER
from barnabas_controller.core.partition_changes import (
    Liveness,
    TopicRules,
)

RULES = TopicRules()
MIN_2 = TopicRules(min_insync_replicas=2)
UNCLEAN = TopicRules(unclean_election=True)


def live(
    *node_ids: int,
    stopping: tuple[int, ...] = (),
    suspect: tuple[int, ...] = (),
    full: tuple[int, ...] = (),
    unaware: tuple[int, ...] = (),
    life: int = 0,
) -> Liveness:
    """Node n is registered at 100 × n + life."""
    epochs = {each: 100 * each + life for each in node_ids}
    return Liveness(epochs, frozenset(stopping), frozenset(suspect), unaware=frozenset(unaware), full=frozenset(full))


def partition(
    *in_sync: int,
    replicas: tuple[int, ...] = (1, 2, 3),
    leader: int | None = None,
    eligible: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    recovering: bool = False,
) -> PartitionRecord:
    """In epochs 7 and 9, led by the first of the ISR."""
    leads = in_sync[0] if leader is None else leader
    return PartitionRecord(
        leader=leads,
        leader_epoch=7,
        partition_epoch=9,
        replicas=replicas,
        in_sync_replicas=in_sync,
        leader_broker_epoch=NO_EPOCH if leads == NO_LEADER else 100 * leads,
        adding_replicas=adding,
        removing_replicas=removing,
        eligible_leader_replicas=eligible,
        leader_recovering=recovering,
    )


def seen(record: PartitionRecord | None) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """Leader, leader epoch, ISR, eligible leader replicas."""
    assert record is not None
    return record.leader, record.leader_epoch, record.in_sync_replicas, record.eligible_leader_replicas
