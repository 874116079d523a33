"""DescribeTopicPartitions, API key 75, version 0; flexible.

Topics with their partitions in pages, for topics that are too large for Metadata (KIP-966).

- Topics are answered in the order of their names, whatever the order of the request; no topics asks for all.
- At most `response_partition_limit` partitions, and no more than the broker's own limit; `next_cursor` is where the
  next page starts, null on the last.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_75_describe_topic_partitions.py`.

Source: Kafka's DescribeTopicPartitionsRequest.json and DescribeTopicPartitionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.messages.metadata import AUTHORIZED_OPERATIONS_UNKNOWN
from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class TopicRequest:
    name: str = wire("string")


@dataclass(slots=True)
class Cursor:
    """The first partition of the page that follows."""

    topic_name: str = wire("string")
    partition_index: int = wire("int32")


@dataclass(slots=True)
class DescribeTopicPartitionsRequest(Request):
    topics: list[TopicRequest] = wire([TopicRequest])
    response_partition_limit: int = wire("int32", default=2000)
    cursor: Cursor | None = wire(Cursor, nullable="0+")


@dataclass(slots=True)
class DescribeTopicPartitionsResponsePartition:
    error_code: int = wire("int16")
    partition_index: int = wire("int32")
    leader_id: int = wire("int32")
    leader_epoch: int = wire("int32", default=-1)
    replica_nodes: list[int] = wire(["int32"])
    isr_nodes: list[int] = wire(["int32"])
    eligible_leader_replicas: list[int] | None = wire(["int32"], nullable="0+", default=None)
    last_known_elr: list[int] | None = wire(["int32"], nullable="0+", default=None)
    offline_replicas: list[int] = wire(["int32"])


@dataclass(slots=True)
class DescribeTopicPartitionsResponseTopic:
    error_code: int = wire("int16")
    name: str | None = wire("string", nullable="0+")
    topic_id: bytes = wire("uuid")
    is_internal: bool = wire("bool")
    partitions: list[DescribeTopicPartitionsResponsePartition] = wire([DescribeTopicPartitionsResponsePartition])
    topic_authorized_operations: int = wire("int32", default=AUTHORIZED_OPERATIONS_UNKNOWN)


@dataclass(slots=True)
class DescribeTopicPartitionsResponse(Response):
    throttle_time_ms: int = wire("int32")
    topics: list[DescribeTopicPartitionsResponseTopic] = wire([DescribeTopicPartitionsResponseTopic])
    next_cursor: Cursor | None = wire(Cursor, nullable="0+")
