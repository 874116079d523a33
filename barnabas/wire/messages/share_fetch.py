"""ShareFetch, API key 78, versions 1 to 2; flexible.

Acquires records for a member of a share group, and acknowledges those it had (KIP-932).

- v0 was the early access of Kafka 4.0, and is gone. v2: `max_records` may be kept to exactly rather than by whole
  batches (KIP-1206), and locks may be renewed (KIP-1222).
- Runs in share sessions, which are like fetch sessions; a member has one per broker. Epoch 0 opens, -1 closes.

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's ShareFetchRequest.json and ShareFetchResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.primitives import Buffer
from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AcknowledgementBatch:
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    acknowledge_types: list[int] = wire(["int8"])
    """0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all of the batch, or one per offset."""


@dataclass(slots=True)
class FetchPartition:
    partition_index: int = wire("int32")
    partition_max_bytes: int = wire("int32", "0")
    acknowledgement_batches: list[AcknowledgementBatch] = wire([AcknowledgementBatch])


@dataclass(slots=True)
class FetchTopic:
    topic_id: bytes = wire("uuid")
    partitions: list[FetchPartition] = wire([FetchPartition])


@dataclass(slots=True)
class ForgottenTopic:
    topic_id: bytes = wire("uuid")
    partitions: list[int] = wire(["int32"])


@dataclass(slots=True)
class ShareFetchRequest(Request):
    group_id: str | None = wire("string", nullable="0+", default=None)
    member_id: str | None = wire("string", nullable="0+")
    share_session_epoch: int = wire("int32")
    max_wait_ms: int = wire("int32")
    min_bytes: int = wire("int32")
    max_bytes: int = wire("int32", default=0x7FFFFFFF)
    max_records: int = wire("int32", "1+")
    batch_size: int = wire("int32", "1+")
    share_acquire_mode: int = wire("int8", "2+")
    """0 whole batches, 1 no more than `max_records`."""
    is_renew_ack: bool = wire("bool", "2+")
    topics: list[FetchTopic] = wire([FetchTopic])
    forgotten_topics_data: list[ForgottenTopic] = wire([ForgottenTopic])


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = wire("int32")
    leader_epoch: int = wire("int32")


@dataclass(slots=True)
class AcquiredRecords:
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    delivery_count: int = wire("int16")


@dataclass(slots=True)
class PartitionData:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    acknowledge_error_code: int = wire("int16")
    acknowledge_error_message: str | None = wire("string", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)
    records: Buffer | None = wire("records", nullable="0")
    """Encoded: handed on as it is, without a copy."""
    acquired_records: list[AcquiredRecords] = wire([AcquiredRecords])


@dataclass(slots=True)
class ShareFetchableTopicResponse:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionData] = wire([PartitionData])


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = wire("int32")
    host: str = wire("string")
    port: int = wire("int32")
    rack: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class ShareFetchResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = wire("int32", "1+")
    responses: list[ShareFetchableTopicResponse] = wire([ShareFetchableTopicResponse])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint])
