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
        handler = pending.handler
        if pending.connection.quotas is not None:
            handler.responder.charge_request_bytes(pending)
        pending.acks = request.acks
        pending.transactional_id = request.transactional_id
        pending.deadline_ms = handler.clock.now_ms + request.timeout_ms
        appends = _Appends(pending, request)
        if pending.is_long:
            return _start_in_steps(appends, request)
        for topic in request.topic_data:
            appends.add_topic(topic)
            for partition in topic.partition_data:
                appends.add_partition(partition)
        for key, by_index in appends.responses.items():
            appends.add_response(key, by_index)
        appends.send()
        return None


def _start_in_steps(appends: _Appends, request: ProduceRequest) -> Steps[None]:
    """What `start` does at once with a request that is not long."""
    for topic in request.topic_data:
        appends.add_topic(topic)
        yield 1
        for partition in topic.partition_data:
            appends.add_partition(partition)
            yield 1
    for key, by_index in appends.responses.items():
        appends.add_response(key, by_index)
        yield 1
    appends.send()


class _Appends:
    """The appends of one request, and its response with a place for the result of each.

    A partition named twice, perhaps with its topic, has the place of the first and the content of the last.
    """

    __slots__ = (
        "_appends",
        "_by_index",
        "_denial",
        "_pending",
        "_refusal",
        "_request_refusal",
        "_topic_id",
        "responses",
    )

    def __init__(self, pending: PendingProduce, request: ProduceRequest) -> None:
        self._pending = pending
        self._denial = _denial(pending, request)
        self._request_refusal = _refusal(request)
        self._appends: dict[PartitionKey, PendingAppend] = {}
        self.responses: dict[tuple[str, bytes], dict[int, PartitionProduceResponse]] = {}
        """By name and id of the topic, by index of the partition."""
        # Of the topic that was added last:
        self._topic_id = b""
        self._refusal: ErrorCode | None = None
        self._by_index: dict[int, PartitionProduceResponse] = {}

    def add_topic(self, topic: TopicProduceData) -> None:
        """Find out what the partitions that are added next may do."""
        pending = self._pending
        handler = pending.handler
        self._refusal = self._request_refusal
        if self._denial is not None:
            self._refusal = self._denial
        else:
            image = handler.image
            is_by_id = pending.header.api_version >= _VERSION_WITH_TOPIC_IDS
            metadata = image.topics_by_id.get(topic.topic_id) if is_by_id else image.topics_by_name.get(topic.name)
            name = topic.name if metadata is None else metadata.topic
            if metadata is None and is_by_id:
                # It belongs to no name that could be protected.
                self._refusal = ErrorCode.UNKNOWN_TOPIC_ID
            elif not handler.authorizer.authorize(pending, Operation.WRITE, (ResourceType.TOPIC, name)):
                self._refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif metadata is None:
                self._refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self._topic_id = metadata.topic_id
                if name in INTERNAL_TOPICS and pending.header.client_id != _ADMIN_CLIENT_ID:
                    self._refusal = self._refusal or ErrorCode.INVALID_TOPIC_EXCEPTION
        self._by_index = self.responses.setdefault((topic.name, topic.topic_id), {})

    def add_partition(self, partition: PartitionProduceData) -> None:
        """Add one of the topic that was added last."""
        refusal = self._refusal
        response = self._append(partition) if refusal is None else _failed(partition.index, refusal)
        if response.error_code:
            self._pending.has_failed = True
        self._by_index[partition.index] = response

    def _append(self, partition: PartitionProduceData) -> PartitionProduceResponse:
        pending = self._pending
        topic_id, index, records = self._topic_id, partition.index, partition.records
        if pending.handler.image.partition(topic_id, index) is None:
            return _failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not records:
            return _failed(index, ErrorCode.INVALID_RECORD, "A produce request must have a record batch per partition.")
        fault = _fault(pending.header.api_version, records, is_transactional=pending.transactional_id is not None)
        if fault is not None:
            return _failed(index, *fault)
        response = PartitionProduceResponse(index, 0, -1)
        append = self._appends[topic_id, index] = PendingAppend(pending, (topic_id, index), records, response)
        if pending.transactional_id is not None:
            append.supports_epoch_bump = pending.header.api_version >= _VERSION_THAT_ADDS_PARTITIONS
        return response

    def add_response(self, key: tuple[str, bytes], by_index: dict[int, PartitionProduceResponse]) -> None:
        name, topic_id = key
        self._pending.response.responses.append(TopicProduceResponse(name, topic_id, list(by_index.values())))

    def send(self) -> None:
        pending, appends = self._pending, list(self._appends.values())
        is_refused = self._denial is not None or self._request_refusal is not None
        if pending.header.api_version < _VERSION_WITH_BATCHES and not is_refused:
            pending.convert(appends)
        else:
            pending.send_appends(appends)


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
