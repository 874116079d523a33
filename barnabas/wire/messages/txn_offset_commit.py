"""TxnOffsetCommit, API key 28, versions 0 to 5; flexible from 3.

Commits a group's offsets as part of a transaction: they count when it commits.

- v1: throttled after the answer (KIP-219). v2: leader epoch (KIP-320). v3: generation, member and static member,
  checked as in OffsetCommit (KIP-447). v4: TRANSACTION_ABORTABLE (KIP-890). v5: under transaction.version 2 it does
  what AddOffsetsToTxn did before (KIP-890 part 2).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_28_txn_offset_commit.py`.

Source: Kafka's TxnOffsetCommitRequest.json and TxnOffsetCommitResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class TxnOffsetCommitRequestPartition:
    partition_index: int = wire("int32")
    committed_offset: int = wire("int64")
    committed_leader_epoch: int = wire("int32", "2+", default=-1)
    committed_metadata: str | None = wire("string", nullable="0+")


@dataclass(slots=True)
class TxnOffsetCommitRequestTopic:
    name: str = wire("string")
    partitions: list[TxnOffsetCommitRequestPartition] = wire([TxnOffsetCommitRequestPartition])


@dataclass(slots=True)
class TxnOffsetCommitRequest(Request):
    transactional_id: str = wire("string")
    group_id: str = wire("string")
    producer_id: int = wire("int64")
    producer_epoch: int = wire("int16")
    generation_id: int = wire("int32", "3+", default=-1)
    member_id: str = wire("string", "3+")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = wire([TxnOffsetCommitRequestTopic])


@dataclass(slots=True)
class TxnOffsetCommitResponsePartition:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")


@dataclass(slots=True)
class TxnOffsetCommitResponseTopic:
    name: str = wire("string")
    partitions: list[TxnOffsetCommitResponsePartition] = wire([TxnOffsetCommitResponsePartition])


@dataclass(slots=True)
class TxnOffsetCommitResponse(Response):
    throttle_time_ms: int = wire("int32")
    topics: list[TxnOffsetCommitResponseTopic] = wire([TxnOffsetCommitResponseTopic])
