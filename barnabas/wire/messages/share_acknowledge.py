"""ShareAcknowledge, API key 79, versions 1 to 2; flexible.

Acknowledges records of a share group without fetching more (KIP-932).

- v0 was the early access of Kafka 4.0, and is gone. v2: renewal of locks (KIP-1222).

State: not served yet; it needs share groups and their coordinator (KIP-932).

Source: Kafka's ShareAcknowledgeRequest.json and ShareAcknowledgeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AcknowledgementBatch:
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    acknowledge_types: list[int] = wire(["int8"])
    """0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all of the batch, or one per offset."""


@dataclass(slots=True)
class AcknowledgePartition:
    partition_index: int = wire("int32")
    acknowledgement_batches: list[AcknowledgementBatch] = wire([AcknowledgementBatch])


@dataclass(slots=True)
class AcknowledgeTopic:
    topic_id: bytes = wire("uuid")
    partitions: list[AcknowledgePartition] = wire([AcknowledgePartition])


@dataclass(slots=True)
class ShareAcknowledgeRequest(Request):
    group_id: str | None = wire("string", nullable="0+", default=None)
    member_id: str | None = wire("string", nullable="0+")
    share_session_epoch: int = wire("int32")
    is_renew_ack: bool = wire("bool", "2+")
    topics: list[AcknowledgeTopic] = wire([AcknowledgeTopic])


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = wire("int32")
    leader_epoch: int = wire("int32")


@dataclass(slots=True)
class PartitionData:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)


@dataclass(slots=True)
class ShareAcknowledgeTopicResponse:
    topic_id: bytes = wire("uuid")
    partitions: list[PartitionData] = wire([PartitionData])


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = wire("int32")
    host: str = wire("string")
    port: int = wire("int32")
    rack: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class ShareAcknowledgeResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = wire("int32", "2+")
    responses: list[ShareAcknowledgeTopicResponse] = wire([ShareAcknowledgeTopicResponse])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint])
