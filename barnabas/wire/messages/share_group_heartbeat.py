"""ShareGroupHeartbeat, API key 76, version 1; flexible.

Membership of a share group (KIP-932): as ConsumerGroupHeartbeat, without anything to give back.

- v0 was the early access of Kafka 4.0, and is gone.

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's ShareGroupHeartbeatRequest.json and ShareGroupHeartbeatResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ShareGroupHeartbeatRequest(Request):
    group_id: str = wire("string")
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    """0 joins, -1 leaves."""
    rack_id: str | None = wire("string", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = wire(["string"], nullable="0+", default=None)


@dataclass(slots=True)
class TopicPartitions:
    topic_id: bytes = wire("uuid")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitions] = wire([TopicPartitions])


@dataclass(slots=True)
class ShareGroupHeartbeatResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    member_id: str | None = wire("string", nullable="0+", default=None)
    member_epoch: int = wire("int32")
    heartbeat_interval_ms: int = wire("int32")
    assignment: Assignment | None = wire(Assignment, nullable="0+")
    """None where unchanged."""
