"""ConsumerGroupHeartbeat, API key 68, versions 0 to 1; flexible.

The whole of the consumer protocol: joining, staying, telling what is owned, learning what is assigned, leaving
(KIP-848).

- v1: subscription by a regular expression that the broker resolves, and member ids that clients make themselves
  (KIP-1082).
- Member epoch 0 joins, -1 leaves, -2 leaves for a while as a static member. Null says that a field has not changed
  since the last heartbeat.
- FENCED_MEMBER_EPOCH sends the member back to epoch 0; UNRELEASED_INSTANCE_ID where the static member is still there.

State: not served yet; it needs the new consumer group protocol (KIP-848).

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
    """0 joins, -1 leaves, -2 leaves as a static member that will be back."""
    instance_id: str | None = wire("string", nullable="0+", default=None)
    rack_id: str | None = wire("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    subscribed_topic_names: list[str] | None = wire(["string"], nullable="0+", default=None)
    subscribed_topic_regex: str | None = wire("string", "1+", nullable="1+", default=None)
    server_assignor: str | None = wire("string", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = wire([TopicPartitions], nullable="0+", default=None)
    """What the member owns; None where unchanged."""


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
    """None where unchanged."""
