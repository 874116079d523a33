"""Fetch, API key 1, versions 0 to 18 (Kafka 4.3: 4 to 18).

- v0 to v3 get what was read as message sets of magic 0 (v0, v1) or 1, as in Kafka 3. Where
  `log.message.downconversion.enable` is off these versions are not told by ApiVersions, and close the connection.
- Long polls: answered at once with `min_bytes`, with an error, with `max_wait_ms` 0 or less; else parked once.
- `max_bytes` (at most `fetch.max.bytes`) is spent in the order of the request, with at least one batch (KIP-74), also
  when the partitions are on several logstores.
- No fetch session is ever created: session id 0 is answered, which KIP-227 allows, and clients then send full fetches.
  A request with epoch 0 or −1 is a full fetch, whatever its session id; any other is FETCH_SESSION_ID_NOT_FOUND.
- A partition named twice is fetched once, as named last, in the place of the first: Kafka collects them in a map.
- Epochs of the client go to the leader, which answers FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH (KIP-320). Where the
  leader is another, its id and endpoint are in the answer (v12, v16, KIP-951).
- Unknown topic or partition: UNKNOWN_TOPIC_OR_PARTITION, by id (v13) UNKNOWN_TOPIC_ID; these do not end a long poll.
- Replicas do not fetch through a gateway: a replica id of 0 or more is TOPIC_AUTHORIZATION_FAILED, as for any principal
  without CLUSTER_ACTION.

Deviations: no preferred read replica, no diverging epoch (consumers find truncation by OffsetForLeaderEpoch), and no
aborted transactions as there are no transactions yet.
"""

from __future__ import annotations

from barnabas.cluster.messages import TopicMetadata
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from services.gateway.core.authorization import Operation, ResourceType, authorize
from services.gateway.core.fetch import FetchTarget, PendingFetch

_VERSION_WITH_TOPIC_IDS = 13
_FULL_FETCH_EPOCHS = (0, -1)
_READ_COMMITTED = 1


def start(slot: PendingFetch, request: FetchRequest) -> None:
    processor = slot.connection.processor
    if slot.header.api_version < ApiKey.FETCH.version_min and not processor.config.fetch_down_conversion:
        processor.requests.refuse(slot.connection, slot.header, "the version is not served")
        return
    slot.min_bytes = request.min_bytes
    slot.max_bytes = max(0, min(request.max_bytes, processor.config.fetch_bytes_max))
    slot.isolation_level = _READ_COMMITTED if request.isolation_level == _READ_COMMITTED else 0
    slot.deadline_ms = processor.now_ms + request.max_wait_ms
    if request.session_epoch not in _FULL_FETCH_EPOCHS:
        processor.requests.respond(slot, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        return
    targets: dict[tuple[bytes, int], FetchTarget] = {}
    responses: dict[tuple[str, bytes], dict[int, PartitionData]] = {}
    for topic in request.topics:
        metadata, error = _resolve(slot, request, topic)
        partitions = responses.setdefault((topic.topic, topic.topic_id), {})
        for partition in topic.partitions:
            response = _response(slot, partition, error)
            partitions[partition.partition] = response
            if error is ErrorCode.NONE:
                assert metadata is not None
                _add_target(slot, metadata, partition, response, targets)
    slot.response.responses = [
        FetchableTopicResponse(name, topic_id, list(partitions.values()))
        for (name, topic_id), partitions in responses.items()
    ]
    slot.submit(list(targets.values()))


def _resolve(slot: PendingFetch, request: FetchRequest, topic: FetchTopic) -> tuple[TopicMetadata | None, ErrorCode]:
    image = slot.connection.processor.image
    has_ids = slot.header.api_version >= _VERSION_WITH_TOPIC_IDS
    metadata = image.topics_by_id.get(topic.topic_id) if has_ids else image.topics_by_name.get(topic.topic)
    name = topic.topic if metadata is None else metadata.topic
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0 or not authorize(slot.connection.context, Operation.READ, (ResourceType.TOPIC, name)):
        return metadata, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if metadata is None:
        return None, ErrorCode.UNKNOWN_TOPIC_ID if has_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return metadata, ErrorCode.NONE


def _response(slot: PendingFetch, partition: FetchPartition, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition.partition,
        error,
        high_watermark=-1,
        aborted_transactions=[] if slot.isolation_level == _READ_COMMITTED else None,
        records=b"",
    )


def _add_target(
    slot: PendingFetch,
    metadata: TopicMetadata,
    partition: FetchPartition,
    response: PartitionData,
    targets: dict[tuple[bytes, int], FetchTarget],
) -> None:
    image = slot.connection.processor.image
    if image.partition(metadata.topic_id, partition.partition) is None:
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return
    targets[metadata.topic_id, partition.partition] = FetchTarget(
        metadata.topic_id,
        partition.partition,
        partition.current_leader_epoch,
        partition.fetch_offset,
        max(0, partition.partition_max_bytes),
        response,
    )
