"""TxnOffsetCommit, with the metadata of a group's member (KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.sim.clients.committed_offsets import by_topic
from tests.sim.groups.assignments import TopicPartition


@dataclass(slots=True)
class OffsetsToCommit:
    """`positions` by partition; the commit is known by its id, which it has as metadata."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    positions: dict[TopicPartition, int]
    commit_id: str


def txn_offset_commit_request(
    transactional_id: str, producer: tuple[int, int], offsets: OffsetsToCommit
) -> TxnOffsetCommitRequest:
    topics = [
        TxnOffsetCommitRequestTopic(
            topic,
            [
                TxnOffsetCommitRequestPartition(each, offsets.positions[topic, each], -1, offsets.commit_id)
                for each in partitions
            ],
        )
        for topic, partitions in by_topic(list(offsets.positions)).items()
    ]
    return TxnOffsetCommitRequest(
        transactional_id,
        offsets.group_id,
        *producer,
        offsets.generation_id,
        offsets.member_id,
        offsets.group_instance_id,
        topics,
    )
