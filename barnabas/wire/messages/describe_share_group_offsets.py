"""DescribeShareGroupOffsets, API key 90, versions 0 to 1; flexible.

Start offsets of share groups (KIP-932).

- v1: the lag (KIP-1226).
- Null topics ask for all of the group.

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's DescribeShareGroupOffsetsRequest.json and DescribeShareGroupOffsetsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = wire("string")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = wire(
        [DescribeShareGroupOffsetsRequestTopic], nullable="0+"
    )
    """None asks for all."""


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequest(Request):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = wire([DescribeShareGroupOffsetsRequestGroup])


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = wire("int32")
    start_offset: int = wire("int64")
    leader_epoch: int = wire("int32")
    lag: int = wire("int64", "1+", default=-1)
    """-1 when not known."""
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = wire("string")
    topic_id: bytes = wire("uuid")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = wire([DescribeShareGroupOffsetsResponsePartition])


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = wire("string")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = wire([DescribeShareGroupOffsetsResponseTopic])
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponse(Response):
    throttle_time_ms: int = wire("int32")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = wire([DescribeShareGroupOffsetsResponseGroup])
