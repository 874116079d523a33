"""ConsumerGroupHeartbeat, API key 68, versions 0 to 1; flexible.

Source: Kafka's ConsumerGroupHeartbeatRequest.json and ConsumerGroupHeartbeatResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class TopicPartitions:
    topic_id: bytes = wire("uuid")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class ConsumerGroupHeartbeatRequest(Request):
    group_id: str = wire("string")
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    instance_id: str | None = wire("string", nullable="0+", default=None)
    rack_id: str | None = wire("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    subscribed_topic_names: list[str] | None = wire(["string"], nullable="0+", default=None)
    subscribed_topic_regex: str | None = wire("string", "1+", nullable="1+", default=None)
    server_assignor: str | None = wire("string", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = wire([TopicPartitions], nullable="0+", default=None)


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitions] = wire([TopicPartitions])


@dataclass(slots=True)
class ConsumerGroupHeartbeatResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    member_id: str | None = wire("string", nullable="0+", default=None)
    member_epoch: int = wire("int32")
    heartbeat_interval_ms: int = wire("int32")
    assignment: Assignment | None = wire(Assignment, nullable="0+")
