"""OffsetFetch: the older form, for one group that the answer does not name, and that of v8, for several groups."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from barnabas_logstore.core.coordinator.groups.group import TopicOffsets
from barnabas_logstore.core.coordinator.groups.records import OffsetCommitValue
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.groups.store import PendingOffsets, TopicPartition

SEVERAL_GROUPS_FROM: Final = 8
_NONE_COMMITTED: Final = OffsetCommitValue(-1, -1, "", -1)


def fetch_offsets(
    request: OffsetFetchRequest, version: int, groups: Groups, pending: PendingOffsets
) -> OffsetFetchResponse:
    """Return what is committed; nothing for a group that does not exist. UNSTABLE_OFFSET_COMMIT for what an open
    transaction may change, if stable offsets are asked for (KIP-447).
    """
    unstable = pending if request.require_stable and not pending.is_empty else None
    if version >= SEVERAL_GROUPS_FROM:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    each.group_id,
                    _topics(
                        None
                        if each.topics is None
                        else [(topic.name, topic.partition_indexes) for topic in each.topics],
                        _offsets_of(groups, each.group_id),
                        _places_of(unstable, each.group_id),
                    ),
                )
                for each in request.groups
            ]
        )
    asked = None if request.topics is None else [(each.name, each.partition_indexes) for each in request.topics]
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in _topics(asked, _offsets_of(groups, request.group_id), _places_of(unstable, request.group_id))
        ]
    )


def _offsets_of(groups: Groups, group_id: str) -> dict[str, TopicOffsets]:
    group = groups.get(group_id)
    return {} if group is None else group.offsets


def _places_of(unstable: PendingOffsets | None, group_id: str) -> Collection[TopicPartition]:
    return () if unstable is None else unstable.places_of(group_id)


def _topics(
    asked: list[tuple[str, list[int]]] | None,
    committed: dict[str, TopicOffsets],
    unstable: Collection[TopicPartition],
) -> list[OffsetFetchResponseTopics]:
    """None asks for all topics."""
    wanted = [(topic, list(each.partitions)) for topic, each in committed.items()] if asked is None else asked
    return [
        OffsetFetchResponseTopics(
            name=topic,
            partitions=[
                OffsetFetchResponsePartitions(index, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if (topic, index) in unstable
                else _answer(
                    index,
                    committed[topic].partitions.get(index, _NONE_COMMITTED) if topic in committed else _NONE_COMMITTED,
                )
                for index in partitions
            ],
        )
        for topic, partitions in wanted
    ]


def _answer(partition: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, value.offset, value.leader_epoch, value.metadata)
