"""AlterPartitionReassignments, API key 45, versions 0 to 1; flexible.

Moves partitions to other replicas, or takes back a move under way (KIP-455).

- v1: `allow_replication_factor_change`, which says whether the number of replicas may change by it (KIP-860).
- Null replicas cancel; NO_REASSIGNMENT_IN_PROGRESS where nothing was to be cancelled.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_45_alter_partition_reassignments.py`.

Source: Kafka's AlterPartitionReassignmentsRequest.json and AlterPartitionReassignmentsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ReassignablePartition:
    partition_index: int = wire("int32")
    replicas: list[int] | None = wire(["int32"], nullable="0+", default=None)
    """None cancels."""


@dataclass(slots=True)
class ReassignableTopic:
    name: str = wire("string")
    partitions: list[ReassignablePartition] = wire([ReassignablePartition])


@dataclass(slots=True)
class AlterPartitionReassignmentsRequest(Request):
    timeout_ms: int = wire("int32", default=60000)
    allow_replication_factor_change: bool = wire("bool", "1+", default=True)
    topics: list[ReassignableTopic] = wire([ReassignableTopic])


@dataclass(slots=True)
class ReassignablePartitionResponse:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class ReassignableTopicResponse:
    name: str = wire("string")
    partitions: list[ReassignablePartitionResponse] = wire([ReassignablePartitionResponse])


@dataclass(slots=True)
class AlterPartitionReassignmentsResponse(Response):
    throttle_time_ms: int = wire("int32")
    allow_replication_factor_change: bool = wire("bool", "1+", default=True)
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    responses: list[ReassignableTopicResponse] = wire([ReassignableTopicResponse])
