"""Metadata, API key 3, versions 0 to 13.

- All topics (v0 an empty array, later null), none (later an empty array), by name, or by id (v12; by id there is no
  creation, and an unknown one is UNKNOWN_TOPIC_ID). A topic asked for by both name and id closes the connection in v10
  and v11 in Kafka; here the name is used.
- An unknown name is created when `allow_auto_topic_creation` and `auto.create.topics.enable` say so: the answer waits
  for the creation, `topic_creation_wait_ms_max` at most, and is LEADER_NOT_AVAILABLE when that was not enough.
  Otherwise it is UNKNOWN_TOPIC_OR_PARTITION; an illegal name is INVALID_TOPIC_EXCEPTION.
- A partition without leader, or with one that is not alive, is LEADER_NOT_AVAILABLE with leader −1.
- Broker ids are logstore ids; their addresses follow the policy of the listener. `controller_id` is the lowest live
  broker id, as any of them takes admin requests.

Deviations: authorized operations are never told (−2147483648, "not asked for") until ACLs exist.
"""

from __future__ import annotations

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import CreateTopicsRequest, CreateTopicsResponse, NewTopic, PartitionMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.primitives import ZERO_UUID
from services.gateway.core.authorization import CLUSTER, Operation, RequestContext, ResourceType, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.effects import ControllerAnswer
from services.gateway.core.slots import Slot
from services.gateway.core.topic_names import INTERNAL_TOPICS, is_legal_topic_name

_CREATION_IS_UNDER_WAY = (
    int(ErrorCode.NONE),
    int(ErrorCode.TOPIC_ALREADY_EXISTS),
    int(ErrorCode.REQUEST_TIMED_OUT),
    int(ErrorCode.NOT_CONTROLLER),
)


class PendingMetadata(Slot):
    __slots__ = ("creation_errors", "request")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.request: MetadataRequest = MetadataRequest()
        self.creation_errors: dict[str, int] = {}
        """Of the names that this request tries to create."""

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        if not isinstance(answer, CreateTopicsResponse):
            self.revision_applied()
            return
        for result in answer.results:
            if result.error_code not in _CREATION_IS_UNDER_WAY:
                self.creation_errors[result.topic] = result.error_code
        self.connection.processor.controller.await_revision(self, answer.revision)

    def revision_applied(self) -> None:
        self.connection.processor.requests.respond(self, _response(self))

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.revision_applied()

    def cancel(self) -> None:
        self.connection.processor.controller.forget(self)


def start(slot: PendingMetadata, request: MetadataRequest) -> None:
    slot.request = request
    processor = slot.connection.processor
    missing = _to_create(slot)
    if not missing:
        processor.requests.respond(slot, _response(slot))
        return
    slot.creation_errors = dict.fromkeys(missing, int(ErrorCode.LEADER_NOT_AVAILABLE))
    config = processor.config
    wait_ms = config.topic_creation_wait_ms_max
    new_topics = [NewTopic(name, config.num_partitions, config.default_replication_factor) for name in missing]
    processor.deadlines.add(slot, processor.now_ms + wait_ms)
    processor.controller.call(slot, CreateTopicsRequest(new_topics, wait_ms))


def _to_create(slot: PendingMetadata) -> list[str]:
    """The unknown names that may be created, each once."""
    request, processor = slot.request, slot.connection.processor
    if not (request.allow_auto_topic_creation and processor.config.auto_create_topics) or request.topics is None:
        return []
    known = processor.image.topics_by_name
    context = slot.connection.context
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name)
    return [
        name
        for name in names
        if name not in known
        and is_legal_topic_name(name)
        and name not in INTERNAL_TOPICS
        and (
            authorize(context, Operation.CREATE, CLUSTER)
            or authorize(context, Operation.CREATE, (ResourceType.TOPIC, name))
        )
    ]


def _response(slot: PendingMetadata) -> MetadataResponse:
    processor = slot.connection.processor
    image, context = processor.image, slot.connection.context
    addresses = [processor.address_of(node_id, context) for node_id in image.brokers]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*address) for address in addresses if address is not None],
        cluster_id=image.cluster_id,
        controller_id=min(image.brokers, default=-1),
        topics=_topics(slot, image, context),
    )


def _topics(slot: PendingMetadata, image: ClusterImage, context: RequestContext) -> list[MetadataResponseTopic]:
    asked = slot.request.topics
    if asked is None or (not asked and slot.header.api_version == 0):
        return [
            _known_topic(image, name)
            for name in image.topics_by_name
            if authorize(context, Operation.DESCRIBE, (ResourceType.TOPIC, name))
        ]
    by_name = {topic.name: topic for topic in asked if topic.name is not None}
    by_id = {topic.topic_id: topic for topic in asked if topic.name is None}
    return [_asked_topic(slot, image, context, topic) for topic in (*by_name.values(), *by_id.values())]


def _asked_topic(
    slot: PendingMetadata, image: ClusterImage, context: RequestContext, asked: MetadataRequestTopic
) -> MetadataResponseTopic:
    name = asked.name
    if name is None:
        by_id = image.topics_by_id.get(asked.topic_id)
        if by_id is None or not authorize(context, Operation.DESCRIBE, (ResourceType.TOPIC, by_id.topic)):
            # In v10 and v11 the name can't be null.
            absent_name = None if slot.header.api_version >= 12 else ""
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, absent_name, asked.topic_id)
        return _known_topic(image, by_id.topic)
    if not authorize(context, Operation.DESCRIBE, (ResourceType.TOPIC, name)):
        return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, ZERO_UUID)
    if name in image.topics_by_name:
        return _known_topic(image, name)
    if not is_legal_topic_name(name):
        return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name, ZERO_UUID)
    error = slot.creation_errors.get(name, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return MetadataResponseTopic(error, name, ZERO_UUID, name in INTERNAL_TOPICS)


def _known_topic(image: ClusterImage, name: str) -> MetadataResponseTopic:
    topic = image.topics_by_name[name]
    partitions = image.partitions_by_topic_id[topic.topic_id]
    return MetadataResponseTopic(
        ErrorCode.NONE,
        name,
        topic.topic_id,
        name in INTERNAL_TOPICS,
        [_partition(image, partition) for partition in partitions.values()],
    )


def _partition(image: ClusterImage, partition: PartitionMetadata) -> MetadataResponsePartition:
    has_leader = partition.leader in image.brokers
    return MetadataResponsePartition(
        ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition.partition,
        partition.leader if has_leader else -1,
        partition.leader_epoch,
        partition.replicas,
        partition.in_sync_replicas,
        [replica for replica in partition.replicas if replica not in image.brokers],
    )
