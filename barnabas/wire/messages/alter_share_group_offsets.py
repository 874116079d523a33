"""AlterShareGroupOffsets, API key 91, version 0; flexible.

Sets start offsets of a share group that has no members (KIP-932); NON_EMPTY_GROUP otherwise.

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's AlterShareGroupOffsetsRequest.json and AlterShareGroupOffsetsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = wire("int32")
    start_offset: int = wire("int64")


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = wire("string")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = wire([AlterShareGroupOffsetsRequestPartition])


@dataclass(slots=True)
class AlterShareGroupOffsetsRequest(Request):
    group_id: str = wire("string")
    topics: list[AlterShareGroupOffsetsRequestTopic] = wire([AlterShareGroupOffsetsRequestTopic])


@dataclass(slots=True)
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = wire("string")
    topic_id: bytes = wire("uuid")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = wire([AlterShareGroupOffsetsResponsePartition])


@dataclass(slots=True)
class AlterShareGroupOffsetsResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = wire([AlterShareGroupOffsetsResponseTopic])
