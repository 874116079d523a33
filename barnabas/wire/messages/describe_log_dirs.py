"""DescribeLogDirs, API key 35, versions 1 to 5; flexible from 2.

The log directories of one broker: the size and lag of each replica in them (KIP-113).

- v0 is gone from Kafka 4. v3: a top-level error code. v4: bytes of the volume, total and usable (KIP-827). v5: whether
  the directory is cordoned (KIP-1066).
- Null topics ask for all; an offline directory is answered with KAFKA_STORAGE_ERROR and no topics.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_35_describe_log_dirs.py`.

Source: Kafka's DescribeLogDirsRequest.json and DescribeLogDirsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DescribableLogDirTopic:
    topic: str = wire("string")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class DescribeLogDirsRequest(Request):
    topics: list[DescribableLogDirTopic] | None = wire([DescribableLogDirTopic], nullable="0+")
    """None asks for all."""


@dataclass(slots=True)
class DescribeLogDirsPartition:
    partition_index: int = wire("int32")
    partition_size: int = wire("int64")
    offset_lag: int = wire("int64")
    """How far the log end offset is behind the high watermark; of a future replica, behind the present replica's
    end."""
    is_future_key: bool = wire("bool")
    """Whether this replica is being moved here by AlterReplicaLogDirs."""


@dataclass(slots=True)
class DescribeLogDirsTopic:
    name: str = wire("string")
    partitions: list[DescribeLogDirsPartition] = wire([DescribeLogDirsPartition])


@dataclass(slots=True)
class DescribeLogDirsResult:
    error_code: int = wire("int16")
    log_dir: str = wire("string")
    topics: list[DescribeLogDirsTopic] = wire([DescribeLogDirsTopic])
    total_bytes: int = wire("int64", "4+", default=-1)
    """Of the volume; -1 when not known."""
    usable_bytes: int = wire("int64", "4+", default=-1)
    is_cordoned: bool = wire("bool", "5+")


@dataclass(slots=True)
class DescribeLogDirsResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16", "3+")
    results: list[DescribeLogDirsResult] = wire([DescribeLogDirsResult])
