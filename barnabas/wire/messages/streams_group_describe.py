"""StreamsGroupDescribe, API key 89, version 0; flexible.

Streams groups with topology, members and their tasks (KIP-1071).

State: not served yet; it needs streams groups (KIP-1071).

Source: Kafka's StreamsGroupDescribeRequest.json and StreamsGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.messages.metadata import AUTHORIZED_OPERATIONS_UNKNOWN
from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class StreamsGroupDescribeRequest(Request):
    group_ids: list[str] = wire(["string"])
    include_authorized_operations: bool = wire("bool")


@dataclass(slots=True)
class KeyValue:
    key: str = wire("string")
    value: str = wire("string")


@dataclass(slots=True)
class TopicInfo:
    name: str = wire("string")
    partitions: int = wire("int32")
    replication_factor: int = wire("int16")
    topic_configs: list[KeyValue] = wire([KeyValue])


@dataclass(slots=True)
class Subtopology:
    subtopology_id: str = wire("string")
    source_topics: list[str] = wire(["string"])
    repartition_sink_topics: list[str] = wire(["string"])
    state_changelog_topics: list[TopicInfo] = wire([TopicInfo])
    repartition_source_topics: list[TopicInfo] = wire([TopicInfo])


@dataclass(slots=True)
class Topology:
    epoch: int = wire("int32")
    subtopologies: list[Subtopology] | None = wire([Subtopology], nullable="0+", default=None)


@dataclass(slots=True)
class Endpoint:
    host: str = wire("string")
    port: int = wire("uint16")


@dataclass(slots=True)
class TaskOffset:
    subtopology_id: str = wire("string")
    partition: int = wire("int32")
    offset: int = wire("int64")


@dataclass(slots=True)
class TaskIds:
    subtopology_id: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class Assignment:
    active_tasks: list[TaskIds] = wire([TaskIds])
    standby_tasks: list[TaskIds] = wire([TaskIds])
    warmup_tasks: list[TaskIds] = wire([TaskIds])


@dataclass(slots=True)
class Member:
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    instance_id: str | None = wire("string", nullable="0+", default=None)
    rack_id: str | None = wire("string", nullable="0+", default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    topology_epoch: int = wire("int32")
    process_id: str = wire("string")
    user_endpoint: Endpoint | None = wire(Endpoint, nullable="0+")
    client_tags: list[KeyValue] = wire([KeyValue])
    task_offsets: list[TaskOffset] = wire([TaskOffset])
    task_end_offsets: list[TaskOffset] = wire([TaskOffset])
    assignment: Assignment = wire(Assignment)
    target_assignment: Assignment = wire(Assignment)
    is_classic: bool = wire("bool")


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    group_id: str = wire("string")
    group_state: str = wire("string")
    group_epoch: int = wire("int32")
    assignment_epoch: int = wire("int32")
    topology: Topology | None = wire(Topology, nullable="0+")
    members: list[Member] = wire([Member])
    authorized_operations: int = wire("int32", default=AUTHORIZED_OPERATIONS_UNKNOWN)


@dataclass(slots=True)
class StreamsGroupDescribeResponse(Response):
    throttle_time_ms: int = wire("int32")
    groups: list[DescribedGroup] = wire([DescribedGroup])
