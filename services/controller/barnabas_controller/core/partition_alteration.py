"""AlterPartition: a leader's word on who is in sync (KIP-497), checked against what the controller knows.

Errors per partition, in the order of the checks: UNKNOWN_TOPIC_ID; NOT_CONTROLLER (the leader knows a later epoch: this
controller is behind); FENCED_LEADER_EPOCH; NOT_LEADER_OR_FOLLOWER; success where the state asked for is there already,
before INVALID_UPDATE_VERSION, so that a request repeated after a lost answer succeeds; INVALID_REQUEST (an ISR without
its leader, or of strangers, or one that an unclean leader shares before it has looked at its log); INELIGIBLE_REPLICA
(a member that is gone, stopping, or registered again since, KIP-903; one that would join and whose disk is full);
OPERATION_NOT_ATTEMPTED (a member would leave that is `awaited`: the leader has yet to acknowledge
`min.insync.replicas`, and asks again).
"""

from __future__ import annotations

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import IsrChange, IsrChangeResult
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.partition_changes import Liveness, TopicRules, awaited, with_isr


def alter_partition(
    partition: PartitionRecord, change: IsrChange, broker_id: int, live: Liveness, rules: TopicRules
) -> PartitionRecord | ErrorCode:
    """The state as the leader asks for it, the same object where it is so already; why not."""
    if change.leader_epoch > partition.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if change.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if change.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    members = [member.broker_id for member in change.in_sync_replicas]
    if set(members) == set(partition.in_sync_replicas) and not (change.recovered and partition.leader_recovering):
        return partition
    if change.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if broker_id not in members or len(set(members)) < len(members) or not set(members) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader_recovering and not change.recovered and len(members) > 1:
        return ErrorCode.INVALID_REQUEST
    for member in change.in_sync_replicas:
        is_same_life = member.broker_epoch in (-1, live.epoch_of(member.broker_id))
        is_full = member.broker_id in live.full and member.broker_id not in partition.in_sync_replicas
        if not live.is_live(member.broker_id) or not is_same_life or is_full:
            return ErrorCode.INELIGIBLE_REPLICA
    if awaited(partition, members, live, rules):
        return ErrorCode.OPERATION_NOT_ATTEMPTED
    return with_isr(partition, members, live, rules, recovered=change.recovered)


def told(partition: PartitionRecord) -> IsrChangeResult:
    """The state that holds now, for the leader."""
    return IsrChangeResult(
        ErrorCode.NONE,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        list(partition.in_sync_replicas),
    )
