"""OffsetForLeaderEpoch, API key 23, versions 2 to 4; flexible from 4.

Where an epoch ends in the leader's log: how followers find where they diverged (KIP-101), and how consumers notice that
the log was truncated (KIP-320).

- v0 and v1 are gone from Kafka 4. v2: the asker's current leader epoch, for fencing. v3: `replica_id`.
- The answer is the largest epoch of the log that is not above the asked one, and the offset after its last record; -1
  for both when there is none.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_23_offset_for_leader_epoch.py`.

Source: Kafka's OffsetForLeaderEpochRequest.json and OffsetForLeaderEpochResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class OffsetForLeaderPartition:
    partition: int = wire("int32")
    current_leader_epoch: int = wire("int32", "2+", default=-1)
    leader_epoch: int = wire("int32")
    """The epoch whose end is asked."""


@dataclass(slots=True)
class OffsetForLeaderTopic:
    topic: str = wire("string")
    partitions: list[OffsetForLeaderPartition] = wire([OffsetForLeaderPartition])


@dataclass(slots=True)
class OffsetForLeaderEpochRequest(Request):
    replica_id: int = wire("int32", "3+", default=-2)
    """-1 from consumers. v2 does not tell it; -2 stands for a debugging consumer, which may see past the high
    watermark."""
    topics: list[OffsetForLeaderTopic] = wire([OffsetForLeaderTopic])


@dataclass(slots=True)
class EpochEndOffset:
    error_code: int = wire("int16")
    partition: int = wire("int32")
    leader_epoch: int = wire("int32", "1+", default=-1)
    end_offset: int = wire("int64", default=-1)


@dataclass(slots=True)
class OffsetForLeaderTopicResult:
    topic: str = wire("string")
    partitions: list[EpochEndOffset] = wire([EpochEndOffset])


@dataclass(slots=True)
class OffsetForLeaderEpochResponse(Response):
    throttle_time_ms: int = wire("int32", "2+")
    topics: list[OffsetForLeaderTopicResult] = wire([OffsetForLeaderTopicResult])
