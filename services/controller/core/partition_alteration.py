"""AlterPartition: a leader's word on who is in sync (KIP-497), checked against what the controller knows.

Errors per partition, in the order of the checks: UNKNOWN_TOPIC_ID; NOT_CONTROLLER (the leader knows a later epoch: this
controller is behind); FENCED_LEADER_EPOCH; NOT_LEADER_OR_FOLLOWER; success where the state asked for is there already,
before INVALID_UPDATE_VERSION, so that a request repeated after a lost answer succeeds; INVALID_REQUEST (an ISR without
its leader, or of strangers); INELIGIBLE_REPLICA (a member that is gone, stopping, or registered anew since, KIP-903).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.cluster.keys import PARTITIONS_PER_CHUNK, PartitionChunk, PartitionRecord
from barnabas.cluster.messages import AlterPartitionRequest, AlterPartitionResponse, IsrChange, IsrChangeResult
from barnabas.wire.errors import ErrorCode
from services.controller.core.image import ControllerImage
from services.controller.core.partition_changes import Liveness, TopicRules, reassignment_completed, with_isr
from services.controller.core.writes import Write, put

RulesOf = Callable[[bytes], TopicRules]


@dataclass(slots=True)
class PartitionAlteration:
    """The answer, true once `writes` are committed; each write is a whole chunk."""

    response: AlterPartitionResponse
    writes: list[Write] = field(default_factory=list)


def alter_partitions(
    image: ControllerImage, request: AlterPartitionRequest, live: Liveness, rules_of: RulesOf
) -> PartitionAlteration:
    if live.epoch_of(request.broker_id) != request.broker_epoch:
        return PartitionAlteration(AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH))
    # By topic id and chunk: the partitions as they will be.
    changed: dict[tuple[bytes, int], list[PartitionRecord]] = {}
    results = []
    for change in request.partitions:
        chunk, index = divmod(change.partition, PARTITIONS_PER_CHUNK)
        found = image.chunks.get(change.topic_id, {}).get(chunk)
        if change.topic_id not in image.topics_by_id or found is None or not 0 <= index < len(found.partitions):
            results.append(IsrChangeResult(ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        partitions = changed.get((change.topic_id, chunk)) or list(found.partitions)
        partition = partitions[index]
        error = _problem(partition, change, request.broker_id, live)
        if error is ErrorCode.NONE:
            rules = rules_of(change.topic_id)
            members = [member.broker_id for member in change.in_sync_replicas]
            partition = with_isr(partition, members, rules, recovered=change.recovered)
            partition = reassignment_completed(partition, live)
            partitions[index] = partition
            changed[change.topic_id, chunk] = partitions
        results.append(_result(partition, error))
    writes = [
        put(image.keys.chunk(topic_id, chunk), PartitionChunk(topic_id, chunk, tuple(partitions)))
        for (topic_id, chunk), partitions in changed.items()
        if tuple(partitions) != image.chunks[topic_id][chunk].partitions
    ]
    return PartitionAlteration(AlterPartitionResponse(ErrorCode.NONE, results), writes)


def _problem(partition: PartitionRecord, change: IsrChange, broker_id: int, live: Liveness) -> ErrorCode:
    if change.leader_epoch > partition.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if change.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    members = [member.broker_id for member in change.in_sync_replicas]
    if set(members) == set(partition.in_sync_replicas) and not (change.recovered and partition.leader_recovering):
        return ErrorCode.NONE
    if change.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if change.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if broker_id not in members or len(set(members)) < len(members) or not set(members) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader_recovering and not change.recovered and len(members) > 1:
        return ErrorCode.INVALID_REQUEST
    for member in change.in_sync_replicas:
        is_same_life = member.broker_epoch in (-1, live.epoch_of(member.broker_id))
        if not live.is_live(member.broker_id) or not is_same_life:
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _result(partition: PartitionRecord, error: ErrorCode) -> IsrChangeResult:
    if error:
        return IsrChangeResult(error)
    return IsrChangeResult(
        ErrorCode.NONE,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        list(partition.in_sync_replicas),
    )
