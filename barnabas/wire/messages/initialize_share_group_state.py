"""InitializeShareGroupState, API key 83, version 0; flexible.

The group coordinator has the share coordinator begin the state of partitions for a share group (KIP-932). Sent by
brokers; it needs CLUSTER_ACTION.

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's InitializeShareGroupStateRequest.json and InitializeShareGroupStateResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class PartitionData:
    partition: int = wire("int32")
    state_epoch: int = wire("int32")
    start_offset: int = wire("int64")


@dataclass(slots=True)
class InitializeStateData:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionData] = wire([PartitionData])


@dataclass(slots=True)
class InitializeShareGroupStateRequest(Request):
    group_id: str = wire("string")
    topics: list[InitializeStateData] = wire([InitializeStateData])


@dataclass(slots=True)
class PartitionResult:
    partition: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class InitializeStateResult:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionResult] = wire([PartitionResult])


@dataclass(slots=True)
class InitializeShareGroupStateResponse(Response):
    results: list[InitializeStateResult] = wire([InitializeStateResult])
