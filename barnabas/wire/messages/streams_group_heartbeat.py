"""StreamsGroupHeartbeat, API key 88, version 0; flexible.

The whole of the streams protocol: membership, the application's topology, and its tasks (KIP-1071).

- Null says that a field has not changed since the last heartbeat. The topology comes with the first one; `status` tells
  what is wrong with it.

State: not served yet; it needs streams groups (KIP-1071).

Source: Kafka's StreamsGroupHeartbeatRequest.json and StreamsGroupHeartbeatResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


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
class CopartitionGroup:
    """Indexes into the topics of the subtopology."""

    source_topics: list[int] = wire(["int16"])
    source_topic_regex: list[int] = wire(["int16"])
    repartition_source_topics: list[int] = wire(["int16"])


@dataclass(slots=True)
class Subtopology:
    subtopology_id: str = wire("string")
    source_topics: list[str] = wire(["string"])
    source_topic_regex: list[str] = wire(["string"])
    state_changelog_topics: list[TopicInfo] = wire([TopicInfo])
    repartition_sink_topics: list[str] = wire(["string"])
    repartition_source_topics: list[TopicInfo] = wire([TopicInfo])
    copartition_groups: list[CopartitionGroup] = wire([CopartitionGroup])


@dataclass(slots=True)
class Topology:
    epoch: int = wire("int32")
    subtopologies: list[Subtopology] = wire([Subtopology])


@dataclass(slots=True)
class TaskIds:
    subtopology_id: str = wire("string")
    partitions: list[int] = wire(["int32"])


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
class StreamsGroupHeartbeatRequest(Request):
    group_id: str = wire("string")
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    endpoint_information_epoch: int = wire("int32")
    instance_id: str | None = wire("string", nullable="0+", default=None)
    rack_id: str | None = wire("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    topology: Topology | None = wire(Topology, nullable="0+")
    active_tasks: list[TaskIds] | None = wire([TaskIds], nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = wire([TaskIds], nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = wire([TaskIds], nullable="0+", default=None)
    process_id: str | None = wire("string", nullable="0+", default=None)
    user_endpoint: Endpoint | None = wire(Endpoint, nullable="0+")
    """Where interactive queries reach this process."""
    client_tags: list[KeyValue] | None = wire([KeyValue], nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = wire([TaskOffset], nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = wire([TaskOffset], nullable="0+", default=None)
    shutdown_application: bool = wire("bool")


@dataclass(slots=True)
class Status:
    status_code: int = wire("int8")
    """0 stale topology, 1 missing source topics, 2 incorrectly partitioned topics, 3 missing internal topics, 4
    shutdown of the application, 5 assignment delayed."""
    status_detail: str = wire("string")


@dataclass(slots=True)
class TopicPartition:
    topic: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class EndpointToPartitions:
    user_endpoint: Endpoint = wire(Endpoint)
    active_partitions: list[TopicPartition] = wire([TopicPartition])
    standby_partitions: list[TopicPartition] = wire([TopicPartition])


@dataclass(slots=True)
class StreamsGroupHeartbeatResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    heartbeat_interval_ms: int = wire("int32")
    acceptable_recovery_lag: int = wire("int32")
    task_offset_interval_ms: int = wire("int32")
    status: list[Status] | None = wire([Status], nullable="0+")
    active_tasks: list[TaskIds] | None = wire([TaskIds], nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = wire([TaskIds], nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = wire([TaskIds], nullable="0+", default=None)
    endpoint_information_epoch: int = wire("int32")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = wire(
        [EndpointToPartitions], nullable="0+", default=None
    )
