"""Produce, API key 0, versions 0 to 13 (Kafka 4.3: 3 to 13).

- v0 to v2 carry message sets of magic 0 and 1, which become one batch before they go to the leader, as in Kafka 3.
  If `produce.message.upconversion.enable` is off, each of their partitions is answered UNSUPPORTED_VERSION, as in
  Kafka 4, which advertises them too (KAFKA-18659).
- acks 0, 1 and −1 (all); any other value is INVALID_REQUIRED_ACKS for each partition. acks=0 has no answer; when any of
  its partitions fails the connection is closed.
- A partition named twice is appended once, with the records named last, and answered once: Kafka keeps a map of them.
- A partition without records is INVALID_RECORD; zstd before v7 is UNSUPPORTED_COMPRESSION_TYPE. The leader's logstore
  checks everything else about the records (size, CRC, magic, `message.max.bytes`, sequence numbers).
- Unknown topic or partition: UNKNOWN_TOPIC_OR_PARTITION, by id (v13) UNKNOWN_TOPIC_ID.
- Kafka's own topics accept records only from a client with the id `__admin_client`: INVALID_TOPIC_EXCEPTION.
- NOT_LEADER_OR_FOLLOWER carries the current leader and its endpoint (v10, KIP-951).

- Transactional records need WRITE of the transactional id, or are TRANSACTIONAL_ID_AUTHORIZATION_FAILED. The first
  batch of a transaction in a partition is appended when the coordinator has confirmed the partition, or from v12 on
  (`transaction.version` 2) has added it (KIP-890); what the coordinator refuses is INVALID_TXN_STATE, from v11 on
  TRANSACTION_ABORTABLE, and NOT_ENOUGH_REPLICAS what may succeed later.

Deviations: of a request in which only some partitions have transactional records without a transactional id, the others
are appended. If a leader's stream is down, the gateway waits for it up to `route_wait_ms_max`.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.internal_topics import INTERNAL_TOPICS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.wire.primitives import Buffer, Steps
from barnabas_gateway.core.backends.partition_appends import PartitionKey, PendingAppend
from barnabas_gateway.core.requests.produce import BaseProduceHandler, PendingProduce

_VERSION_WITH_BATCHES = 3
_VERSION_WITH_ZSTD = 7
_VERSION_THAT_ADDS_PARTITIONS = 12
_VERSION_WITH_TOPIC_IDS = 13

_MAGIC_POSITION = 16
_MAGIC = 2
_ATTRIBUTES_POSITION = 22
"""The low byte of a record batch's attributes (magic 2)."""
_COMPRESSION_BITS = 0x07
_ZSTD = 4
_TRANSACTIONAL_BIT = 0x10
_ADMIN_CLIENT_ID = "__admin_client"


class ProduceHandler(BaseProduceHandler):
    api_key = ApiKey.PRODUCE
    request_class = PendingProduce

    def start(self, pending: PendingProduce, request: ProduceRequest) -> Steps[None] | None:
        steps = _start_in_steps(pending, request)
        if pending.is_long:
            return steps
        for _ in steps:
            pass
        return None


def _start_in_steps(pending: PendingProduce, request: ProduceRequest) -> Steps[None]:
    handler = pending.handler
    if pending.connection.quotas is not None:
        handler.responder.charge_request_bytes(pending)
    pending.acks = request.acks
    pending.transactional_id = request.transactional_id
    pending.deadline_ms = handler.clock.now_ms + request.timeout_ms
    denial, refusal = _denial(pending, request), _refusal(request)
    appends: dict[PartitionKey, PendingAppend] = {}
    responses: dict[tuple[str, bytes], dict[int, PartitionProduceResponse]] = {}
    for topic in request.topic_data:
        yield from _add_topic(pending, topic, denial, refusal, appends, responses)
    for (name, topic_id), by_index in responses.items():
        pending.response.responses.append(TopicProduceResponse(name, topic_id, list(by_index.values())))
        yield 1
    if denial is None and refusal is None and pending.header.api_version < _VERSION_WITH_BATCHES:
        pending.convert(list(appends.values()))
    else:
        pending.send_appends(list(appends.values()))


def _denial(pending: PendingProduce, request: ProduceRequest) -> ErrorCode | None:
    """Return why nothing of the request is looked at, if there is a reason."""
    config = pending.handler.config
    if pending.header.api_version < _VERSION_WITH_BATCHES and not config.produce_up_conversion:
        return ErrorCode.UNSUPPORTED_VERSION
    if request.transactional_id is not None:
        resource = (ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        if not pending.handler.authorizer.authorize(pending, Operation.WRITE, resource):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None


def _refusal(request: ProduceRequest) -> ErrorCode | None:
    """Return the error of all partitions that exist and may be written, if there is one."""
    return None if request.acks in (-1, 0, 1) else ErrorCode.INVALID_REQUIRED_ACKS


def _failed(index: int, error: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, error, -1, error_message=message)


def _add_topic(
    pending: PendingProduce,
    topic: TopicProduceData,
    denial: ErrorCode | None,
    refusal: ErrorCode | None,
    appends: dict[PartitionKey, PendingAppend],
    responses: dict[tuple[str, bytes], dict[int, PartitionProduceResponse]],
) -> Steps[None]:
    """Add one topic's appends, and its response with a place for the result of each.

    A partition named twice, perhaps with its topic, has the place of the first and the content of the last.
    """
    handler = pending.handler
    image = handler.image
    absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = None
    if denial is not None:
        refusal = denial
    else:
        is_by_id = pending.header.api_version >= _VERSION_WITH_TOPIC_IDS
        metadata = image.topics_by_id.get(topic.topic_id) if is_by_id else image.topics_by_name.get(topic.name)
        name = topic.name if metadata is None else metadata.topic
        if metadata is None and is_by_id:
            # It belongs to no name that could be protected.
            refusal = ErrorCode.UNKNOWN_TOPIC_ID
        elif not handler.authorizer.authorize(pending, Operation.WRITE, (ResourceType.TOPIC, name)):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif metadata is None:
            refusal = absent
        elif name in INTERNAL_TOPICS and pending.header.client_id != _ADMIN_CLIENT_ID:
            refusal = refusal or ErrorCode.INVALID_TOPIC_EXCEPTION
    by_index = responses.setdefault((topic.name, topic.topic_id), {})
    yield 1
    for partition in topic.partition_data:
        if refusal is not None or metadata is None:
            response = _failed(partition.index, refusal or absent)
        else:
            response = _add_partition(pending, metadata.topic_id, partition, appends)
        if response.error_code:
            pending.has_failed = True
        by_index[partition.index] = response
        yield 1


def _add_partition(
    pending: PendingProduce,
    topic_id: bytes,
    partition: PartitionProduceData,
    appends: dict[PartitionKey, PendingAppend],
) -> PartitionProduceResponse:
    index, records = partition.index, partition.records
    if pending.handler.image.partition(topic_id, index) is None:
        return _failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not records:
        return _failed(index, ErrorCode.INVALID_RECORD, "A produce request must have a record batch per partition.")
    fault = _fault(pending.header.api_version, records, is_transactional=pending.transactional_id is not None)
    if fault is not None:
        return _failed(index, *fault)
    response = PartitionProduceResponse(index, 0, -1)
    append = appends[topic_id, index] = PendingAppend(pending, (topic_id, index), records, response)
    if pending.transactional_id is not None:
        append.supports_epoch_bump = pending.header.api_version >= _VERSION_THAT_ADDS_PARTITIONS
    return response


def _fault(version: int, records: Buffer, *, is_transactional: bool) -> tuple[ErrorCode, str] | None:
    """Check what the version of the request requires of the records' format; only the header of the batch is read."""
    if len(records) <= _ATTRIBUTES_POSITION or records[_MAGIC_POSITION] != _MAGIC:
        return None
    attributes = records[_ATTRIBUTES_POSITION]
    if attributes & _TRANSACTIONAL_BIT and not is_transactional:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional records without a transactional id"
    if version < _VERSION_WITH_ZSTD and attributes & _COMPRESSION_BITS == _ZSTD:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    return None
