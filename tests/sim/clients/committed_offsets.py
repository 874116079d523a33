"""OffsetCommit and OffsetFetch in the forms of their versions. A commit is known by what it says as metadata."""

from __future__ import annotations

from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from tests.sim.groups.assignments import TopicPartition

SEVERAL_GROUPS_FROM = 8
NO_TOPIC_ID = bytes(16)

Committed = tuple[int, int, str]
"""Error code, committed offset, the commit's id."""


def by_topic(partitions: list[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def commit_request(
    group_id: str,
    generation_id: int,
    member_id: str,
    group_instance_id: str | None,
    positions: dict[TopicPartition, int],
    commit_id: str,
) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            topic,
            NO_TOPIC_ID,
            [OffsetCommitRequestPartition(each, positions[topic, each], -1, commit_id) for each in partitions],
        )
        for topic, partitions in by_topic(list(positions)).items()
    ]
    return OffsetCommitRequest(group_id, generation_id, member_id, group_instance_id, -1, topics)


def committed(response: OffsetCommitResponse) -> list[tuple[TopicPartition, int]]:
    """Each partition with its error code."""
    return [
        ((topic.name, each.partition_index), each.error_code) for topic in response.topics for each in topic.partitions
    ]


def fetch_request(
    group_id: str, partitions: list[TopicPartition], version: int, *, require_stable: bool
) -> OffsetFetchRequest:
    topics = by_topic(partitions)
    if version < SEVERAL_GROUPS_FROM:
        return OffsetFetchRequest(group_id, [OffsetFetchRequestTopic(*each) for each in topics.items()], [], False)
    wanted = [OffsetFetchRequestTopics(topic, NO_TOPIC_ID, numbers) for topic, numbers in topics.items()]
    return OffsetFetchRequest("", [], [OffsetFetchRequestGroup(group_id, None, -1, wanted)], require_stable)


def fetched(
    response: OffsetFetchResponse, version: int, asked: list[TopicPartition]
) -> dict[TopicPartition, Committed]:
    """Return the answer for each requested partition; an error of the whole request applies to all."""
    one = response.groups[0] if version >= SEVERAL_GROUPS_FROM else response
    if one.error_code:
        return dict.fromkeys(asked, (one.error_code, -1, ""))
    return {(topic.name, each.partition_index): _committed(each) for topic in one.topics for each in topic.partitions}


def _committed(each: OffsetFetchResponsePartition | OffsetFetchResponsePartitions) -> Committed:
    return each.error_code, each.committed_offset, each.metadata or ""
