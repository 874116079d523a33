"""OffsetFetch: the older form, one group without a name of its own in the answer, and that of v8, several groups."""

from __future__ import annotations

from typing import Final

from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from services.logstore.core.coordinator.groups.offsets import TopicOffsets
from services.logstore.core.coordinator.groups.records import OffsetCommitValue

SEVERAL_GROUPS_FROM: Final = 8
_NONE_COMMITTED: Final = OffsetCommitValue(-1, -1, "", -1)


def fetch_offsets(
    request: OffsetFetchRequest, version: int, offsets_of: dict[str, TopicOffsets]
) -> OffsetFetchResponse:
    """What `offsets_of`, by group, has for a request; of a group that is not there nothing is committed."""
    if version >= SEVERAL_GROUPS_FROM:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group.group_id,
                    _topics(
                        None
                        if group.topics is None
                        else [(each.name, each.partition_indexes) for each in group.topics],
                        offsets_of.get(group.group_id, {}),
                    ),
                )
                for group in request.groups
            ]
        )
    asked = None if request.topics is None else [(each.name, each.partition_indexes) for each in request.topics]
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata
                    )
                    for each in topic.partitions
                ],
            )
            for topic in _topics(asked, offsets_of.get(request.group_id, {}))
        ]
    )


def _topics(asked: list[tuple[str, list[int]]] | None, committed: TopicOffsets) -> list[OffsetFetchResponseTopics]:
    """None asks for all that there are."""
    wanted = [(topic, list(partitions)) for topic, partitions in committed.items()] if asked is None else asked
    return [
        OffsetFetchResponseTopics(
            name=topic,
            partitions=[_answer(index, committed.get(topic, {}).get(index, _NONE_COMMITTED)) for index in partitions],
        )
        for topic, partitions in wanted
    ]


def _answer(partition: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, value.offset, value.leader_epoch, value.metadata)
