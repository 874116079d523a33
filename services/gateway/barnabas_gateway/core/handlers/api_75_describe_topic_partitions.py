"""DescribeTopicPartitions, API key 75, version 0 (KIP-966).

- Topics in the order of their names, all or those asked for, each from its first partition; the first of the page from
  the cursor's. At most `response_partition_limit` partitions, and `max.request.partition.size.limit` (2,000), at least
  one; where that ends the page, `next_cursor` is the first partition that is missing.
- The cursor's topic has to be among those asked for, and its partition 0 or more: INVALID_REQUEST for all otherwise.
  Topics before the cursor are left out.
- An unknown topic is UNKNOWN_TOPIC_OR_PARTITION, an illegal name INVALID_TOPIC_EXCEPTION; both don't count as
  partitions.
- From the gateway's own image: the leader is −1 if there is none alive; replicas that are not alive are offline.

Deviations: last known eligible leader replicas are always empty, as the last member of an ISR never leaves it here;
authorized operations are never returned (−2147483648, "not asked for") until ACLs exist.
"""

from __future__ import annotations

from heapq import heappop, heappush

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.internal_topics import INTERNAL_TOPICS
from barnabas.cluster.messages import NO_LEADER, PartitionMetadata
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from barnabas.wire.primitives import ZERO_UUID, Steps
from barnabas.wire.topic_names import is_legal_topic_name
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler


class DescribeTopicPartitionsHandler(Handler):
    api_key = ApiKey.DESCRIBE_TOPIC_PARTITIONS

    def start(self, pending: PendingRequest, request: DescribeTopicPartitionsRequest) -> Steps[None]:
        asked: dict[str, None] = {}
        for topic in request.topics:
            asked[topic.name] = None
            yield 1
        cursor = request.cursor
        response = DescribeTopicPartitionsResponse()
        if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
            for topic in request.topics:
                response.topics.append(_without_partitions(topic.name, ErrorCode.INVALID_REQUEST))
                yield 1
            self.responder.respond(pending, response)
            return
        first_topic = "" if cursor is None else cursor.topic_name
        wanted = list(asked or self.image.topics_by_name)
        heap: list[str] = []
        denied: list[str] = []
        for name in wanted:
            if name >= first_topic:
                resource = (ResourceType.TOPIC, name)
                is_allowed = self.authorizer.authorize(pending, Operation.DESCRIBE, resource, log_denied=bool(asked))
                heappush(heap if is_allowed else denied, name)
            yield 1
        limit = max(1, min(request.response_partition_limit, self.config.request_partitions_max))
        yield from _fill_page(self.image, heap, cursor, limit, response)
        for described in response.topics:
            resource = (ResourceType.TOPIC, described.name or "")
            described.topic_authorized_operations = self.authorizer.authorized_operations(pending, resource)
            yield 4
        while asked and denied:
            response.topics.append(_without_partitions(heappop(denied), ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            yield 1
        self.responder.respond(pending, response)


def _fill_page(
    image: ClusterImage,
    names: list[str],
    cursor: Cursor | None,
    limit: int,
    response: DescribeTopicPartitionsResponse,
) -> Steps[None]:
    """`names` is a heap."""
    partitions_left = limit
    while names:
        name = heappop(names)
        yield 1
        if partitions_left == 0:
            response.next_cursor = Cursor(name, 0)
            break
        topic = image.topics_by_name.get(name)
        if topic is None:
            is_legal = is_legal_topic_name(name)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
            response.topics.append(_without_partitions(name, error))
            continue
        known = list(image.partitions_by_topic_id[topic.topic_id].values())
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(known), first + partitions_left)
        partitions: list[DescribeTopicPartitionsResponsePartition] = []
        for partition in known[first:end]:
            partitions.append(_partition(image, partition))
            yield 1
        is_internal = name in INTERNAL_TOPICS
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(ErrorCode.NONE, name, topic.topic_id, is_internal, partitions)
        )
        if end < len(known):
            response.next_cursor = Cursor(name, end)
            break
        partitions_left -= len(partitions)


def _partition(image: ClusterImage, partition: PartitionMetadata) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        ErrorCode.NONE,
        partition.partition,
        partition.leader if partition.leader in image.brokers else NO_LEADER,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.in_sync_replicas),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=[],
        offline_replicas=[replica for replica in partition.replicas if replica not in image.brokers],
    )


def _without_partitions(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error, name, ZERO_UUID, name in INTERNAL_TOPICS)
