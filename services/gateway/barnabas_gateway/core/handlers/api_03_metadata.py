"""Metadata, API key 3, versions 0 to 13.

- All topics (v0 an empty array, later null), none (later an empty array), by name, or by id (v12; by id there is no
  creation, and an unknown one is UNKNOWN_TOPIC_ID). A topic asked for by both name and id closes the connection in v10
  and v11 in Kafka; here the name is used.
- An unknown name is created when `allow_auto_topic_creation` and `auto.create.topics.enable` say so: the answer waits
  for the creation, `topic_creation_wait_ms_max` at most, and is LEADER_NOT_AVAILABLE when that was not enough.
  A request has the first 100 of its unknown names created. Otherwise it is UNKNOWN_TOPIC_OR_PARTITION; an illegal name
  is INVALID_TOPIC_EXCEPTION.
- A partition without leader, or with one that is not alive, is LEADER_NOT_AVAILABLE with leader −1.
- Broker ids are logstore ids; their addresses follow the policy of the listener. `controller_id` is the lowest live
  broker id, as any of them takes admin requests.

Deviations: authorized operations are never told (−2147483648, "not asked for") until ACLs exist.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import CreateTopicsRequest, CreateTopicsResponse, NewTopic, PartitionMetadata
from barnabas.wire.api_keys import ApiKey
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
from barnabas.wire.primitives import ZERO_UUID, Steps
from barnabas_gateway.core.connections.connection import Connection, PendingRequest
from barnabas_gateway.core.model.authorization import CLUSTER, Operation, RequestContext, ResourceType, authorize
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.model.topic_names import INTERNAL_TOPICS, is_legal_topic_name
from barnabas_gateway.core.requests.controller_request import ControllerHandler

_CREATION_IS_UNDER_WAY = (
    int(ErrorCode.NONE),
    int(ErrorCode.TOPIC_ALREADY_EXISTS),
    int(ErrorCode.REQUEST_TIMED_OUT),
    int(ErrorCode.NOT_CONTROLLER),
)


CREATED_MAX: Final = 100
"""Topics that one request has created. Of the others clients ask again, since they are not there."""


class PendingMetadata(PendingRequest):
    __slots__ = ("creation_errors", "request")

    handler: MetadataHandler

    def __init__(
        self, handler: MetadataHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
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
        self.handler.controller.await_revision(self, answer.revision)

    def revision_applied(self) -> None:
        self.handler.responder.begin_steps(self, _respond(self))

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.revision_applied()

    def cancel(self) -> None:
        self.handler.controller.forget_asker(self)


class MetadataHandler(ControllerHandler, api_key=ApiKey.METADATA):
    request_class = PendingMetadata

    def start(self, pending: PendingMetadata, request: MetadataRequest) -> Steps[None]:
        pending.request = request
        missing: dict[str, None] = {}
        yield from _find_to_create(pending, missing)
        if not missing:
            yield from _respond(pending)
            return
        pending.creation_errors = dict.fromkeys(missing, int(ErrorCode.LEADER_NOT_AVAILABLE))
        config = self.config
        wait_ms = config.topic_creation_wait_ms_max
        new_topics = [NewTopic(name, config.num_partitions, config.default_replication_factor) for name in missing]
        self.deadlines.add(pending, self.clock.now_ms + wait_ms)
        self.controller.call(pending, CreateTopicsRequest(new_topics, wait_ms))


def _find_to_create(pending: PendingMetadata, missing: dict[str, None]) -> Steps[None]:
    """The unknown names that may be created, each once, and no more than `CREATED_MAX`."""
    request, handler = pending.request, pending.handler
    if not (request.allow_auto_topic_creation and handler.config.auto_create_topics):
        return
    known = handler.image.topics_by_name
    context = pending.connection.context
    for topic in request.topics or []:
        name = topic.name
        if (
            name
            and name not in known
            and is_legal_topic_name(name)
            and name not in INTERNAL_TOPICS
            and (
                authorize(context, Operation.CREATE, CLUSTER)
                or authorize(context, Operation.CREATE, (ResourceType.TOPIC, name))
            )
        ):
            missing[name] = None
            if len(missing) == CREATED_MAX:
                return
        yield 1


def _respond(pending: PendingMetadata) -> Steps[None]:
    handler = pending.handler
    image, context = handler.image, pending.connection.context
    addresses = [handler.cluster.address_of(node_id, context) for node_id in image.brokers]
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(*address) for address in addresses if address is not None],
        cluster_id=image.cluster_id,
        controller_id=min(image.brokers, default=-1),
    )
    yield from _add_topics(pending, image, context, response.topics)
    handler.responder.respond(pending, response)


def _add_topics(
    pending: PendingMetadata, image: ClusterImage, context: RequestContext, told: list[MetadataResponseTopic]
) -> Steps[None]:
    asked = pending.request.topics
    if asked is None or (not asked and pending.header.api_version == 0):
        for name in list(image.topics_by_name):
            # It may have gone since the list was made.
            if name in image.topics_by_name and authorize(context, Operation.DESCRIBE, (ResourceType.TOPIC, name)):
                told.append((yield from _known_topic(image, name)))
        return
    by_name: dict[str, MetadataRequestTopic] = {}
    by_id: dict[bytes, MetadataRequestTopic] = {}
    for topic in asked:
        if topic.name is not None:
            by_name[topic.name] = topic
        else:
            by_id[topic.topic_id] = topic
        yield 1
    for topic in (*by_name.values(), *by_id.values()):
        told.append((yield from _asked_topic(pending, image, context, topic)))
        yield 1


def _asked_topic(
    pending: PendingMetadata, image: ClusterImage, context: RequestContext, asked: MetadataRequestTopic
) -> Steps[MetadataResponseTopic]:
    name = asked.name
    if name is None:
        by_id = image.topics_by_id.get(asked.topic_id)
        if by_id is None or not authorize(context, Operation.DESCRIBE, (ResourceType.TOPIC, by_id.topic)):
            # In v10 and v11 the name can't be null.
            absent_name = None if pending.header.api_version >= 12 else ""
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, absent_name, asked.topic_id)
        return (yield from _known_topic(image, by_id.topic))
    if not authorize(context, Operation.DESCRIBE, (ResourceType.TOPIC, name)):
        return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, ZERO_UUID)
    if name in image.topics_by_name:
        return (yield from _known_topic(image, name))
    if not is_legal_topic_name(name):
        return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name, ZERO_UUID)
    error = pending.creation_errors.get(name, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return MetadataResponseTopic(error, name, ZERO_UUID, name in INTERNAL_TOPICS)


def _known_topic(image: ClusterImage, name: str) -> Steps[MetadataResponseTopic]:
    topic = image.topics_by_name[name]
    told = MetadataResponseTopic(ErrorCode.NONE, name, topic.topic_id, name in INTERNAL_TOPICS, [])
    for partition in list(image.partitions_by_topic_id[topic.topic_id].values()):
        told.partitions.append(_partition(image, partition))
        yield 1
    return told


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
