"""OffsetCommit, API key 8, versions 2 to 10; flexible from 8.

Commits offsets of a group, and of consumers without one.

- v0 and v1 are gone from Kafka 4. v2 to v4: a retention time of its own, which v5 drops (KIP-211). v3: throttle time;
  from v4 on throttled after the answer (KIP-219). v6: leader epoch of the committed offset (KIP-320). v7: static
  members (KIP-345). v9: members of the consumer protocol commit with their member epoch, and may get STALE_MEMBER_EPOCH
  and GROUP_ID_NOT_FOUND (KIP-848). v10: topic ids instead of names, and UNKNOWN_TOPIC_ID (KIP-848).
- A generation of -1 and an empty member id commit from outside the group, which has to be empty.
- Each partition has an error of its own; an error of the group is told in each of them.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_08_offset_commit.py`.

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
    """-1 from outside the group."""
    member_id: str = wire("string", "1+")
    group_instance_id: str | None = wire("string", "7+", nullable="7+", default=None)
    retention_time_ms: int = wire("int64", "2-4", default=-1)
    """-1 for the broker's own."""
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
