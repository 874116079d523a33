"""Progress as a consumer group without members: `kafka-consumer-groups` and other lag tools see it."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas_pipeline.core.positions import Positions, TopicPartition
from barnabas_pipeline.kafka.cluster_client import ClusterClient

_COMMIT_VERSION_WITH_NAMES = 9
_FETCH_VERSION_WITH_NAMES = 9
_TOPIC_IS_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def commit_progress(client: ClusterClient, group_id: str, positions: Positions) -> None:
    """Commit offsets, skipping deleted topics. Raises RequestRefused, for example if a real consumer is in the group,
    and ClusterUnreachable: the caller decides what to do then."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            partitions=[
                OffsetCommitRequestPartition(partition, offset, committed_metadata="")
                for partition, offset in sorted(here.offsets.items())
            ],
        )
        for topic, here in sorted(positions.items())
    ]
    request = OffsetCommitRequest(group_id, topics=topics)

    def attempt() -> None:
        connection = client.coordinator(group_id)
        response = connection.call(request, OffsetCommitResponse, _COMMIT_VERSION_WITH_NAMES)
        for topic in response.topics:
            for part in topic.partitions:
                if part.error_code not in _TOPIC_IS_GONE:
                    client.check(part.error_code, f"progress of group {group_id} in {topic.name}")

    client.retrying(f"OffsetCommit of group {group_id}", attempt)


def committed_progress(
    client: ClusterClient, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the committed offsets of those that have one; needs brokers since Kafka 3.0."""
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    named = [OffsetFetchRequestTopics(topic, partition_indexes=indexes) for topic, indexes in by_topic.items()]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=named)])

    def attempt() -> dict[TopicPartition, int]:
        response = client.coordinator(group_id).call(request, OffsetFetchResponse, _FETCH_VERSION_WITH_NAMES)
        found = {}
        for group in response.groups:
            client.check(group.error_code, f"progress of group {group_id}")
            for topic in group.topics:
                for part in topic.partitions:
                    client.check(part.error_code, f"progress of group {group_id} in {topic.name}")
                    if part.committed_offset >= 0:
                        found[TopicPartition(topic.name, part.partition_index)] = part.committed_offset
        return found

    return client.retrying(f"OffsetFetch of group {group_id}", attempt)
