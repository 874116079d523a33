"""OffsetFetch, API key 9, versions 1 to 10; flexible from 6.

Committed offsets of groups.

- v0, which read from ZooKeeper, is gone from Kafka 4. v2: null topics ask for all, and a top-level error code. v3:
  throttle time; from v4 on throttled after the answer (KIP-219). v5: leader epoch (KIP-320). v7: `require_stable`
  answers UNSTABLE_OFFSET_COMMIT for partitions with offsets of an open transaction (KIP-447). v8: several groups in one
  request (KIP-709): `groups` stands for all the fields before it. v9: member id and epoch, checked under the consumer
  protocol (KIP-848). v10: topic ids instead of names (KIP-848).
- A partition without a committed offset is answered with offset -1 and no error.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_09_offset_fetch.py`.

Source: Kafka's OffsetFetchRequest.json and OffsetFetchResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class OffsetFetchRequestTopic:
    name: str = wire("string", "0-7")
    partition_indexes: list[int] = wire(["int32"], "0-7")


@dataclass(slots=True)
class OffsetFetchRequestTopics:
    name: str = wire("string", "8-9")
    topic_id: bytes = wire("uuid", "10+")
    partition_indexes: list[int] = wire(["int32"], "8+")


@dataclass(slots=True)
class OffsetFetchRequestGroup:
    group_id: str = wire("string", "8+")
    member_id: str | None = wire("string", "9+", nullable="9+", default=None)
    member_epoch: int = wire("int32", "9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = wire([OffsetFetchRequestTopics], "8+", nullable="8+")
    """None asks for all."""


@dataclass(slots=True)
class OffsetFetchRequest(Request):
    group_id: str = wire("string", "0-7")
    topics: list[OffsetFetchRequestTopic] | None = wire([OffsetFetchRequestTopic], "0-7", nullable="2-7")
    """None asks for all."""
    groups: list[OffsetFetchRequestGroup] = wire([OffsetFetchRequestGroup], "8+")
    require_stable: bool = wire("bool", "7+")


@dataclass(slots=True)
class OffsetFetchResponsePartition:
    partition_index: int = wire("int32", "0-7")
    committed_offset: int = wire("int64", "0-7")
    """-1 where none is committed."""
    committed_leader_epoch: int = wire("int32", "5-7", default=-1)
    metadata: str | None = wire("string", "0-7", nullable="0-7")
    error_code: int = wire("int16", "0-7")


@dataclass(slots=True)
class OffsetFetchResponseTopic:
    name: str = wire("string", "0-7")
    partitions: list[OffsetFetchResponsePartition] = wire([OffsetFetchResponsePartition], "0-7")


@dataclass(slots=True)
class OffsetFetchResponsePartitions:
    partition_index: int = wire("int32", "8+")
    committed_offset: int = wire("int64", "8+")
    """-1 where none is committed."""
    committed_leader_epoch: int = wire("int32", "8+", default=-1)
    metadata: str | None = wire("string", "8+", nullable="8+")
    error_code: int = wire("int16", "8+")


@dataclass(slots=True)
class OffsetFetchResponseTopics:
    name: str = wire("string", "8-9")
    topic_id: bytes = wire("uuid", "10+")
    partitions: list[OffsetFetchResponsePartitions] = wire([OffsetFetchResponsePartitions], "8+")


@dataclass(slots=True)
class OffsetFetchResponseGroup:
    group_id: str = wire("string", "8+")
    topics: list[OffsetFetchResponseTopics] = wire([OffsetFetchResponseTopics], "8+")
    error_code: int = wire("int16", "8+")


@dataclass(slots=True)
class OffsetFetchResponse(Response):
    throttle_time_ms: int = wire("int32", "3+")
    topics: list[OffsetFetchResponseTopic] = wire([OffsetFetchResponseTopic], "0-7")
    error_code: int = wire("int16", "2-7")
    groups: list[OffsetFetchResponseGroup] = wire([OffsetFetchResponseGroup], "8+")
