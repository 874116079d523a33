"""DeleteRecords, API key 21, versions 0 to 2; flexible from 2.

Deletes the records of a partition before an offset: its log start offset moves, and segments wholly before it go
(KIP-107).

- v1 differs from v0 only in throttling: the answer comes first, then the connection is muted (KIP-219).
- An offset of -1 stands for the high watermark; an offset past it is OFFSET_OUT_OF_RANGE.
- The answer comes when all live replicas have the new log start offset, or after `timeout_ms` as REQUEST_TIMED_OUT.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_21_delete_records.py`.

Source: Kafka's DeleteRecordsRequest.json and DeleteRecordsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DeleteRecordsPartition:
    partition_index: int = wire("int32")
    offset: int = wire("int64")
    """The first offset to keep; -1 for the high watermark."""


@dataclass(slots=True)
class DeleteRecordsTopic:
    name: str = wire("string")
    partitions: list[DeleteRecordsPartition] = wire([DeleteRecordsPartition])


@dataclass(slots=True)
class DeleteRecordsRequest(Request):
    topics: list[DeleteRecordsTopic] = wire([DeleteRecordsTopic])
    timeout_ms: int = wire("int32")


@dataclass(slots=True)
class DeleteRecordsPartitionResult:
    partition_index: int = wire("int32")
    low_watermark: int = wire("int64")
    """The smallest log start offset of all live replicas; -1 with an error."""
    error_code: int = wire("int16")


@dataclass(slots=True)
class DeleteRecordsTopicResult:
    name: str = wire("string")
    partitions: list[DeleteRecordsPartitionResult] = wire([DeleteRecordsPartitionResult])


@dataclass(slots=True)
class DeleteRecordsResponse(Response):
    throttle_time_ms: int = wire("int32")
    topics: list[DeleteRecordsTopicResult] = wire([DeleteRecordsTopicResult])
