"""Fetch, API key 1, versions 0 to 18 (Kafka 4.3: 4 to 18); flexible from 12.

Reads records of partitions from an offset on, and waits for more where there are too few.

- v0 to v3, which Kafka 4 has dropped, return message sets of the old formats. v1: throttle time. v2: messages of magic
  1 (KIP-32). v3: `max_bytes` of the whole answer (KIP-74). v4: record batch v2, isolation level, last stable offset and
  aborted transactions (KIP-98).
- v5: log start offset. v7: incremental fetch sessions (KIP-227). v9: the consumer's current leader epoch (KIP-320).
  v10: zstd allowed. v11: rack id and preferred read replica (KIP-392). v12: last fetched epoch and the tagged fields
  diverging epoch, current leader, snapshot id (KIP-595). v13: topic ids instead of names (KIP-516). v15: the follower
  names itself in the tagged replica state instead of `replica_id` (KIP-903). v16: node endpoints (KIP-951). v17: the
  follower's directory id (KIP-853). v18: the follower's high watermark (KIP-1166).
- Partitions are served in the order of the request, `max_bytes` is spent in that order, and the first batch is returned
  even when it is larger (KIP-74).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_01_fetch.py`.

Source: Kafka's FetchRequest.json and FetchResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas.wire.primitives import Buffer
from barnabas.wire.schema import Request, Response, wire

HIGH_WATERMARK_UNSUPPORTED: Final = 0x7FFFFFFFFFFFFFFF
"""`FetchPartition.high_watermark` of a fetcher that does not know the field."""


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = wire("int32", "15+", default=-1)
    replica_epoch: int = wire("int64", "15+", default=-1)


@dataclass(slots=True)
class FetchPartition:
    partition: int = wire("int32")
    current_leader_epoch: int = wire("int32", "9+", default=-1)
    fetch_offset: int = wire("int64")
    last_fetched_epoch: int = wire("int32", "12+", default=-1)
    log_start_offset: int = wire("int64", "5+", default=-1)
    """The follower's; -1 from consumers."""
    partition_max_bytes: int = wire("int32")
    replica_directory_id: bytes = wire("uuid", "17+", tag=0)
    high_watermark: int = wire("int64", "18+", tag=1, default=HIGH_WATERMARK_UNSUPPORTED)
    """As the follower knows it, -1 when it does not."""


@dataclass(slots=True)
class FetchTopic:
    topic: str = wire("string", "0-12")
    topic_id: bytes = wire("uuid", "13+")
    partitions: list[FetchPartition] = wire([FetchPartition])


@dataclass(slots=True)
class ForgottenTopic:
    topic: str = wire("string", "7-12")
    topic_id: bytes = wire("uuid", "13+")
    partitions: list[int] = wire(["int32"], "7+")


@dataclass(slots=True)
class FetchRequest(Request):
    cluster_id: str | None = wire("string", "12+", nullable="12+", tag=0, default=None)
    replica_id: int = wire("int32", "0-14", default=-1)
    """-1 from consumers, and from v15 on always: see `replica_state`."""
    replica_state: ReplicaState | None = wire(ReplicaState, "15+", tag=1)
    max_wait_ms: int = wire("int32")
    min_bytes: int = wire("int32")
    max_bytes: int = wire("int32", "3+", default=0x7FFFFFFF)
    isolation_level: int = wire("int8", "4+")
    """0 reads uncommitted, 1 reads committed."""
    session_id: int = wire("int32", "7+")
    session_epoch: int = wire("int32", "7+", default=-1)
    topics: list[FetchTopic] = wire([FetchTopic])
    forgotten_topics_data: list[ForgottenTopic] = wire([ForgottenTopic], "7+")
    rack_id: str = wire("string", "11+")


@dataclass(slots=True)
class EpochEndOffset:
    epoch: int = wire("int32", "12+", default=-1)
    end_offset: int = wire("int64", "12+", default=-1)


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """-1 for what is not known."""

    leader_id: int = wire("int32", "12+", default=-1)
    leader_epoch: int = wire("int32", "12+", default=-1)


@dataclass(slots=True)
class SnapshotId:
    end_offset: int = wire("int64", default=-1)
    epoch: int = wire("int32", default=-1)


@dataclass(slots=True)
class AbortedTransaction:
    producer_id: int = wire("int64", "4+")
    first_offset: int = wire("int64", "4+")


@dataclass(slots=True)
class PartitionData:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")
    high_watermark: int = wire("int64")
    last_stable_offset: int = wire("int64", "4+", default=-1)
    log_start_offset: int = wire("int64", "5+", default=-1)
    diverging_epoch: EpochEndOffset | None = wire(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = wire(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = wire(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = wire([AbortedTransaction], "4+", nullable="4+")
    """None when the fetch reads uncommitted."""
    preferred_read_replica: int = wire("int32", "11+", default=-1)
    records: Buffer | None = wire("records", nullable="0+")
    """Encoded: handed on as it is, without a copy."""


@dataclass(slots=True)
class FetchableTopicResponse:
    topic: str = wire("string", "0-12")
    topic_id: bytes = wire("uuid", "13+")
    partitions: list[PartitionData] = wire([PartitionData])


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = wire("int32", "16+")
    host: str = wire("string", "16+")
    port: int = wire("int32", "16+")
    rack: str | None = wire("string", "16+", nullable="16+", default=None)


@dataclass(slots=True)
class FetchResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    error_code: int = wire("int16", "7+")
    session_id: int = wire("int32", "7+")
    responses: list[FetchableTopicResponse] = wire([FetchableTopicResponse])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint], "16+", tag=0)
    """The endpoints of all current leaders that the partitions above name."""
