"""ConsumerGroupDescribe, API key 69, versions 0 to 1; flexible.

Groups of the consumer protocol with what members have and shall have (KIP-848).

- v1: whether a member speaks the classic or the consumer protocol (KIP-1099).

State: not served yet; it needs the new consumer group protocol (KIP-848).

Source: Kafka's ConsumerGroupDescribeRequest.json and ConsumerGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.messages.metadata import AUTHORIZED_OPERATIONS_UNKNOWN
from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ConsumerGroupDescribeRequest(Request):
    group_ids: list[str] = wire(["string"])
    include_authorized_operations: bool = wire("bool")


@dataclass(slots=True)
class TopicPartitions:
    topic_id: bytes = wire("uuid")
    topic_name: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class Assignment:
    topic_partitions: list[TopicPartitions] = wire([TopicPartitions])


@dataclass(slots=True)
class Member:
    member_id: str = wire("string")
    instance_id: str | None = wire("string", nullable="0+", default=None)
    rack_id: str | None = wire("string", nullable="0+", default=None)
    member_epoch: int = wire("int32")
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: list[str] = wire(["string"])
    subscribed_topic_regex: str | None = wire("string", nullable="0+", default=None)
    assignment: Assignment = wire(Assignment)
    target_assignment: Assignment = wire(Assignment)
    member_type: int = wire("int8", "1+", default=-1)
    """0 classic, 1 consumer, -1 not known."""


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    group_id: str = wire("string")
    group_state: str = wire("string")
    group_epoch: int = wire("int32")
    assignment_epoch: int = wire("int32")
    assignor_name: str = wire("string")
    members: list[Member] = wire([Member])
    authorized_operations: int = wire("int32", default=AUTHORIZED_OPERATIONS_UNKNOWN)


@dataclass(slots=True)
class ConsumerGroupDescribeResponse(Response):
    throttle_time_ms: int = wire("int32")
    groups: list[DescribedGroup] = wire([DescribedGroup])
