"""ListOffsets, API key 2, versions 1 to 11; flexible from 6.

The offset of a timestamp, or of the ends of a partition.

- v2: isolation level. v4: leader epochs (KIP-320). v5: may return OFFSET_NOT_AVAILABLE. v7: the offset of the largest
  timestamp (KIP-734). v8: earliest local offset (KIP-405). v9: last tiered offset (KIP-1005). v10: a timeout for
  reads of remote storage (KIP-1075). v11: earliest pending upload offset (KIP-1023).
- A timestamp that is not negative asks for the first record at or after it; negative ones are the constants below.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_02_list_offsets.py`.

Source: Kafka's ListOffsetsRequest.json, ListOffsetsResponse.json and ListOffsetsRequest.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas.wire.schema import Request, Response, wire

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6


@dataclass(slots=True)
class ListOffsetsPartition:
    partition_index: int = wire("int32")
    current_leader_epoch: int = wire("int32", "4+", default=-1)
    timestamp: int = wire("int64")


@dataclass(slots=True)
class ListOffsetsTopic:
    name: str = wire("string")
    partitions: list[ListOffsetsPartition] = wire([ListOffsetsPartition])


@dataclass(slots=True)
class ListOffsetsRequest(Request):
    replica_id: int = wire("int32")
    """-1 from consumers."""
    isolation_level: int = wire("int8", "2+")
    """0 reads uncommitted, 1 reads committed."""
    topics: list[ListOffsetsTopic] = wire([ListOffsetsTopic])
    timeout_ms: int = wire("int32", "10+")


@dataclass(slots=True)
class ListOffsetsPartitionResponse:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")
    timestamp: int = wire("int64", "1+", default=-1)
    offset: int = wire("int64", "1+", default=-1)
    leader_epoch: int = wire("int32", "4+", default=-1)


@dataclass(slots=True)
class ListOffsetsTopicResponse:
    name: str = wire("string")
    partitions: list[ListOffsetsPartitionResponse] = wire([ListOffsetsPartitionResponse])


@dataclass(slots=True)
class ListOffsetsResponse(Response):
    throttle_time_ms: int = wire("int32", "2+")
    topics: list[ListOffsetsTopicResponse] = wire([ListOffsetsTopicResponse])
