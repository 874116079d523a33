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

- Topics that the client may not describe are left out of all topics, and otherwise TOPIC_AUTHORIZATION_FAILED, as are
  those that would be created and that it may not create.
- Authorized operations of the topics (v8) and the cluster (v8 to v10) are returned if they are asked for (KIP-430).
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import CLUSTER, Operation, ResourceType
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.internal_topics import INTERNAL_TOPICS
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
from barnabas.wire.topic_names import is_legal_topic_name
from barnabas_gateway.core.connections.connection import BaseRequest, Connection
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.controller_request import ControllerHandler

_CREATION_IS_UNDER_WAY = (
    int(ErrorCode.NONE),
    int(ErrorCode.TOPIC_ALREADY_EXISTS),
    int(ErrorCode.REQUEST_TIMED_OUT),
    int(ErrorCode.NOT_CONTROLLER),
)


CREATED_MAX: Final = 100
"""Topics that one request may create. For the others clients retry, since they don't exist."""


class PendingMetadata(BaseRequest["MetadataHandler"]):
    __slots__ = ("creation_errors", "request")

    def __init__(
        self, handler: MetadataHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.request: MetadataRequest = MetadataRequest()
        self.creation_errors: dict[str, int] = {}
        """The names that this request tries to create."""

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


class MetadataHandler(ControllerHandler):
    api_key = ApiKey.METADATA
    request_class = PendingMetadata

    def start(self, pending: PendingMetadata, request: MetadataRequest) -> Steps[None]:
        pending.request = request
        missing: dict[str, None] = {}
        yield from _find_to_create(pending, missing)
        if not missing:
            yield from _respond(pending)
            return
        pending.creation_errors.update(dict.fromkeys(missing, int(ErrorCode.LEADER_NOT_AVAILABLE)))
        config = self.config
        wait_ms = config.topic_creation_wait_ms_max
        new_topics = [NewTopic(name, config.num_partitions, config.default_replication_factor) for name in missing]
        self.deadlines.schedule(pending, self.clock.now_ms + wait_ms)
        self.controller.call_controller(pending, CreateTopicsRequest(new_topics, wait_ms))


def _find_to_create(pending: PendingMetadata, missing: dict[str, None]) -> Steps[None]:
    """Return the unknown names that may be created, each once, and at most `CREATED_MAX`."""
    request, handler = pending.request, pending.handler
    if not (request.allow_auto_topic_creation and handler.config.auto_create_topics):
        return
    known = handler.image.topics_by_name
    authorizer = handler.authorizer
    for topic in request.topics or []:
        name = topic.name
        if (
            name
            and name not in known
            and is_legal_topic_name(name)
            and name not in INTERNAL_TOPICS
            and authorizer.authorize(pending, Operation.DESCRIBE, (ResourceType.TOPIC, name), log_denied=False)
        ):
            if not (
                authorizer.authorize(pending, Operation.CREATE, CLUSTER, log_denied=False)
                or authorizer.authorize(pending, Operation.CREATE, (ResourceType.TOPIC, name))
            ):
                pending.creation_errors[name] = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif len(missing) < CREATED_MAX:
                missing[name] = None
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
    request, authorizer = pending.request, handler.authorizer
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorizer.describable_operations(pending, CLUSTER)
    yield from _add_topics(pending, image, response.topics)
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                resource = (ResourceType.TOPIC, topic.name)
                topic.topic_authorized_operations = authorizer.authorized_operations(pending, resource)
            yield 4
    handler.responder.respond(pending, response)


def _add_topics(pending: PendingMetadata, image: ClusterImage, topics: list[MetadataResponseTopic]) -> Steps[None]:
    authorizer = pending.handler.authorizer
    asked = pending.request.topics
    if asked is None or (not asked and pending.header.api_version == 0):
        for name in list(image.topics_by_name):
            # It may have been deleted since the list was made.
            if name in image.topics_by_name and authorizer.authorize(
                pending, Operation.DESCRIBE, (ResourceType.TOPIC, name), log_denied=False
            ):
                topics.append((yield from _known_topic(image, name)))
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
        topics.append((yield from _asked_topic(pending, image, topic)))
        yield 1


def _asked_topic(
    pending: PendingMetadata, image: ClusterImage, asked: MetadataRequestTopic
) -> Steps[MetadataResponseTopic]:
    name, authorizer = asked.name, pending.handler.authorizer
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name is None:
        # In v10 and v11 the name can't be null.
        hidden_name = None if pending.header.api_version >= 12 else ""
        by_id = image.topics_by_id.get(asked.topic_id)
        if by_id is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, hidden_name, asked.topic_id)
        if not authorizer.authorize(pending, Operation.DESCRIBE, (ResourceType.TOPIC, by_id.topic)):
            return MetadataResponseTopic(denied, hidden_name, asked.topic_id)
        return (yield from _known_topic(image, by_id.topic))
    if not authorizer.authorize(pending, Operation.DESCRIBE, (ResourceType.TOPIC, name)):
        return MetadataResponseTopic(denied, name, ZERO_UUID)
    if name in image.topics_by_name:
        return (yield from _known_topic(image, name))
    if not is_legal_topic_name(name):
        return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name, ZERO_UUID)
    error = pending.creation_errors.get(name, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return MetadataResponseTopic(error, name, ZERO_UUID, name in INTERNAL_TOPICS)


def _known_topic(image: ClusterImage, name: str) -> Steps[MetadataResponseTopic]:
    topic = image.topics_by_name[name]
    response = MetadataResponseTopic(ErrorCode.NONE, name, topic.topic_id, name in INTERNAL_TOPICS, [])
    for partition in list(image.partitions_by_topic_id[topic.topic_id].values()):
        response.partitions.append(_partition(image, partition))
        yield 1
    return response


def _partition(image: ClusterImage, partition: PartitionMetadata) -> MetadataResponsePartition:
    has_leader = partition.leader in image.brokers
    return MetadataResponsePartition(
        ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition.partition,
        partition.leader if has_leader else -1,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.in_sync_replicas),
        [replica for replica in partition.replicas if replica not in image.brokers],
    )
