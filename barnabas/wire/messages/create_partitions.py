"""CreatePartitions, API key 37, versions 0 to 3; flexible from 2.

Adds partitions to topics (KIP-195).

- v1: throttled after the answer (KIP-219). v3: may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
- `count` is the new total, not what is added. `assignments` has one entry per added partition, or is null.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_37_create_partitions.py`.

Source: Kafka's CreatePartitionsRequest.json and CreatePartitionsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class CreatePartitionsAssignment:
    broker_ids: list[int] = wire(["int32"])


@dataclass(slots=True)
class CreatePartitionsTopic:
    name: str = wire("string")
    count: int = wire("int32")
    """The new total."""
    assignments: list[CreatePartitionsAssignment] | None = wire([CreatePartitionsAssignment], nullable="0+")
    """One entry per added partition, or None for the controller's choice."""


@dataclass(slots=True)
class CreatePartitionsRequest(Request):
    topics: list[CreatePartitionsTopic] = wire([CreatePartitionsTopic])
    timeout_ms: int = wire("int32")
    validate_only: bool = wire("bool")


@dataclass(slots=True)
class CreatePartitionsTopicResult:
    name: str = wire("string")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class CreatePartitionsResponse(Response):
    throttle_time_ms: int = wire("int32")
    results: list[CreatePartitionsTopicResult] = wire([CreatePartitionsTopicResult])
