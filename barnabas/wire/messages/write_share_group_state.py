"""WriteShareGroupState, API key 85, versions 0 to 1; flexible.

A partition's leader writes its state for a share group to the share coordinator (KIP-932). Sent by brokers; it needs
CLUSTER_ACTION.

- v1: the number of records past the start offset that are done with, by which lag is counted (KIP-1226).

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's WriteShareGroupStateRequest.json and WriteShareGroupStateResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class StateBatch:
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_state: int = wire("int8")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int = wire("int16")


@dataclass(slots=True)
class PartitionData:
    partition: int = wire("int32")
    state_epoch: int = wire("int32")
    leader_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    delivery_complete_count: int = wire("int32", "1+", default=-1)
    state_batches: list[StateBatch] = wire([StateBatch])


@dataclass(slots=True)
class WriteStateData:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionData] = wire([PartitionData])


@dataclass(slots=True)
class WriteShareGroupStateRequest(Request):
    group_id: str = wire("string")
    topics: list[WriteStateData] = wire([WriteStateData])


@dataclass(slots=True)
class PartitionResult:
    partition: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class WriteStateResult:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionResult] = wire([PartitionResult])


@dataclass(slots=True)
class WriteShareGroupStateResponse(Response):
    results: list[WriteStateResult] = wire([WriteStateResult])
