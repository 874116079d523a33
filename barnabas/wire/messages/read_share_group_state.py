"""ReadShareGroupState, API key 84, version 0; flexible.

A partition's leader reads its state for a share group from the share coordinator (KIP-932). Sent by brokers; it needs
CLUSTER_ACTION.

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's ReadShareGroupStateRequest.json and ReadShareGroupStateResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class PartitionData:
    partition: int = wire("int32")
    leader_epoch: int = wire("int32")


@dataclass(slots=True)
class ReadStateData:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionData] = wire([PartitionData])


@dataclass(slots=True)
class ReadShareGroupStateRequest(Request):
    group_id: str = wire("string")
    topics: list[ReadStateData] = wire([ReadStateData])


@dataclass(slots=True)
class StateBatch:
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_state: int = wire("int8")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int = wire("int16")


@dataclass(slots=True)
class PartitionResult:
    partition: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    state_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    state_batches: list[StateBatch] = wire([StateBatch])


@dataclass(slots=True)
class ReadStateResult:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionResult] = wire([PartitionResult])


@dataclass(slots=True)
class ReadShareGroupStateResponse(Response):
    results: list[ReadStateResult] = wire([ReadStateResult])
