"""ListPartitionReassignments, API key 46, version 0; flexible.

The moves of partitions that are under way (KIP-455).

- Null topics ask for all.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_46_list_partition_reassignments.py`.

Source: Kafka's ListPartitionReassignmentsRequest.json and ListPartitionReassignmentsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ListPartitionReassignmentsTopics:
    name: str = wire("string")
    partition_indexes: list[int] = wire(["int32"])


@dataclass(slots=True)
class ListPartitionReassignmentsRequest(Request):
    timeout_ms: int = wire("int32", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = wire(
        [ListPartitionReassignmentsTopics], nullable="0+", default=None
    )
    """None asks for all."""


@dataclass(slots=True)
class OngoingPartitionReassignment:
    partition_index: int = wire("int32")
    replicas: list[int] = wire(["int32"])
    adding_replicas: list[int] = wire(["int32"])
    removing_replicas: list[int] = wire(["int32"])


@dataclass(slots=True)
class OngoingTopicReassignment:
    name: str = wire("string")
    partitions: list[OngoingPartitionReassignment] = wire([OngoingPartitionReassignment])


@dataclass(slots=True)
class ListPartitionReassignmentsResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    topics: list[OngoingTopicReassignment] = wire([OngoingTopicReassignment])
