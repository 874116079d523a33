"""Produce, API key 0, versions 0 to 13 (Kafka 4.3: 3 to 13); flexible from 9.

Appends records to partitions, each answered for itself.

- v0 to v2, which Kafka 4 has dropped, carry message sets of the old formats. v1: throttle time. v2: messages of magic
  1, and the time of the append (KIP-32).
- v3: transactional id, record batch v2. v5: log start offset. v7: zstd allowed. v8: record errors and an error message
  (KIP-467). v10: current leader and node endpoints (KIP-951). v12: may implicitly add partitions to a transaction
  (KIP-890). v13: topic ids instead of names (KIP-516).
- `acks` 0 has no response; -1 waits for the in-sync replicas.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_00_produce.py`.

Source: Kafka's ProduceRequest.json and ProduceResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.primitives import Buffer
from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class PartitionProduceData:
    index: int = wire("int32")
    records: Buffer | None = wire("records", nullable="0+")
    """Decoded: a slice of the frame, not a copy."""


@dataclass(slots=True)
class TopicProduceData:
    name: str = wire("string", "0-12")
    topic_id: bytes = wire("uuid", "13+")
    partition_data: list[PartitionProduceData] = wire([PartitionProduceData])


@dataclass(slots=True)
class ProduceRequest(Request):
    transactional_id: str | None = wire("string", "3+", nullable="3+", default=None)
    acks: int = wire("int16")
    timeout_ms: int = wire("int32")
    topic_data: list[TopicProduceData] = wire([TopicProduceData])


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    batch_index: int = wire("int32", "8+")
    batch_index_error_message: str | None = wire("string", "8+", nullable="8+", default=None)


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """-1 for what is not known."""

    leader_id: int = wire("int32", "10+", default=-1)
    leader_epoch: int = wire("int32", "10+", default=-1)


@dataclass(slots=True)
class PartitionProduceResponse:
    index: int = wire("int32")
    error_code: int = wire("int16")
    base_offset: int = wire("int64")
    log_append_time_ms: int = wire("int64", "2+", default=-1)
    """-1 unless the topic's timestamp type is LogAppendTime."""
    log_start_offset: int = wire("int64", "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = wire([BatchIndexAndErrorMessage], "8+")
    error_message: str | None = wire("string", "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch | None = wire(LeaderIdAndEpoch, "10+", tag=0)


@dataclass(slots=True)
class TopicProduceResponse:
    name: str = wire("string", "0-12")
    topic_id: bytes = wire("uuid", "13+")
    partition_responses: list[PartitionProduceResponse] = wire([PartitionProduceResponse])


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = wire("int32", "10+")
    host: str = wire("string", "10+")
    port: int = wire("int32", "10+")
    rack: str | None = wire("string", "10+", nullable="10+", default=None)


@dataclass(slots=True)
class ProduceResponse(Response):
    responses: list[TopicProduceResponse] = wire([TopicProduceResponse])
    throttle_time_ms: int = wire("int32", "1+")
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint], "10+", tag=0)
    """The endpoints of all current leaders that the partitions above name."""
