"""OffsetCommit, API key 8, versions 2 to 10; flexible from 8.

Source: Kafka's OffsetCommitRequest.json and OffsetCommitResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class OffsetCommitRequestPartition:
    partition_index: int = wire("int32")
    committed_offset: int = wire("int64")
    committed_leader_epoch: int = wire("int32", "6+", default=-1)
    committed_metadata: str | None = wire("string", nullable="0+")


@dataclass(slots=True)
class OffsetCommitRequestTopic:
    name: str = wire("string", "0-9")
    topic_id: bytes = wire("uuid", "10+")
    partitions: list[OffsetCommitRequestPartition] = wire([OffsetCommitRequestPartition])


@dataclass(slots=True)
class OffsetCommitRequest(Request):
    group_id: str = wire("string")
    generation_id_or_member_epoch: int = wire("int32", "1+", default=-1)
    member_id: str = wire("string", "1+")
    group_instance_id: str | None = wire("string", "7+", nullable="7+", default=None)
    retention_time_ms: int = wire("int64", "2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = wire([OffsetCommitRequestTopic])


@dataclass(slots=True)
class OffsetCommitResponsePartition:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")


@dataclass(slots=True)
class OffsetCommitResponseTopic:
    name: str = wire("string", "0-9")
    topic_id: bytes = wire("uuid", "10+")
    partitions: list[OffsetCommitResponsePartition] = wire([OffsetCommitResponsePartition])


@dataclass(slots=True)
class OffsetCommitResponse(Response):
    throttle_time_ms: int = wire("int32", "3+")
    topics: list[OffsetCommitResponseTopic] = wire([OffsetCommitResponseTopic])
