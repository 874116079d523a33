"""ReadShareGroupStateSummary, API key 87, versions 0 to 1; flexible.

As ReadShareGroupState, without the batches: enough to tell the start offset and the lag (KIP-932). Sent by brokers; it
needs CLUSTER_ACTION.

- v1: the number of records past the start offset that are done with (KIP-1226).

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's ReadShareGroupStateSummaryRequest.json and ReadShareGroupStateSummaryResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class PartitionData:
    partition: int = wire("int32")
    leader_epoch: int = wire("int32")


@dataclass(slots=True)
class ReadStateSummaryData:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionData] = wire([PartitionData])


@dataclass(slots=True)
class ReadShareGroupStateSummaryRequest(Request):
    group_id: str = wire("string")
    topics: list[ReadStateSummaryData] = wire([ReadStateSummaryData])


@dataclass(slots=True)
class PartitionResult:
    partition: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    state_epoch: int = wire("int32")
    leader_epoch: int = wire("int32")
    start_offset: int = wire("int64")
    delivery_complete_count: int = wire("int32", "1+", default=-1)


@dataclass(slots=True)
class ReadStateSummaryResult:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionResult] = wire([PartitionResult])


@dataclass(slots=True)
class ReadShareGroupStateSummaryResponse(Response):
    results: list[ReadStateSummaryResult] = wire([ReadStateSummaryResult])
