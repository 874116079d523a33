"""ShareGroupDescribe, API key 77, version 1; flexible.

Share groups with their members (KIP-932).

- v0 was the early access of Kafka 4.0, and is gone.

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's ShareGroupDescribeRequest.json and ShareGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.messages.metadata import AUTHORIZED_OPERATIONS_UNKNOWN
from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ShareGroupDescribeRequest(Request):
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
    rack_id: str | None = wire("string", nullable="0+", default=None)
    member_epoch: int = wire("int32")
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: list[str] = wire(["string"])
    assignment: Assignment = wire(Assignment)


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
class ShareGroupDescribeResponse(Response):
    throttle_time_ms: int = wire("int32")
    groups: list[DescribedGroup] = wire([DescribedGroup])
