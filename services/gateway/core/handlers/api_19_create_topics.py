"""CreateTopics, API key 19, versions 2 to 7.

- The controller decides and the answer waits until this processor has applied the revision that has the topics, so a
  client that goes on to produce finds them.
- A name that is asked for twice is INVALID_REQUEST. Numbers that contradict an assignment are INVALID_REQUEST, a
  partition or replica in it twice is the controller's to judge.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; the topics may exist all the same.

- The answer (v5) has all configs of each topic, as a topic with these overrides and the configs that all brokers were
  given while they run has them.

Deviations: what single logstores were started with is not in these configs; DescribeConfigs has it.
"""

from __future__ import annotations

from collections import Counter

from barnabas.cluster.config_description import BrokerValues, Wanted, describe_topic
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import ALL_BROKERS, Assignment, CreateTopicResult, CreateTopicsResponse, NewTopic
from barnabas.cluster.messages import CreateTopicsRequest as ControllerCreateTopics
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import create_topics as wire
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from services.gateway.core.authorization import CLUSTER, Operation, ResourceType, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.effects import ControllerAnswer
from services.gateway.core.error_messages import told_message
from services.gateway.core.slots import Slot


class PendingCreateTopics(Slot):
    __slots__ = ("results",)

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.results: dict[str, CreatableTopicResult] = {}

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        if not isinstance(answer, CreateTopicsResponse):
            self.revision_applied()
            return
        for result in answer.results:
            self.results[result.topic] = _result(result, self.connection.processor.image)
        self.connection.processor.controller.await_revision(self, answer.revision)

    def revision_applied(self) -> None:
        response = wire.CreateTopicsResponse(topics=list(self.results.values()))
        self.connection.processor.requests.respond(self, response)

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.revision_applied()

    def cancel(self) -> None:
        self.connection.processor.controller.forget(self)


def start(slot: PendingCreateTopics, request: CreateTopicsRequest) -> None:
    processor, context = slot.connection.processor, slot.connection.context
    named = Counter(topic.name for topic in request.topics)
    new_topics = []
    for topic in request.topics:
        error, message = ErrorCode.NONE, ""
        if not (
            authorize(context, Operation.CREATE, CLUSTER)
            or authorize(context, Operation.CREATE, (ResourceType.TOPIC, topic.name))
        ):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif named[topic.name] > 1:
            error, message = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
        elif topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
            error = ErrorCode.INVALID_REQUEST
            message = "Both numPartitions or replicationFactor and replicasAssignments were set."
        elif any(config.value is None for config in topic.configs):
            error, message = ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs."
        else:
            new_topics.append(_new_topic(topic))
        slot.results[topic.name] = CreatableTopicResult(
            topic.name, error_code=error, error_message=(message or error.message) if error else None, configs=None
        )
    if not new_topics:
        slot.revision_applied()
        return
    for new in new_topics:
        pending = ErrorCode.REQUEST_TIMED_OUT
        slot.results[new.topic] = CreatableTopicResult(
            new.topic, error_code=pending, error_message=pending.message, configs=None
        )
    processor.deadlines.add(slot, processor.now_ms + request.timeout_ms + processor.config.deadline_grace_ms)
    processor.controller.call(slot, ControllerCreateTopics(new_topics, request.timeout_ms, request.validate_only))


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [Assignment(each.partition_index, each.broker_ids) for each in topic.assignments],
        {config.name: config.value or "" for config in topic.configs},
    )


def _result(result: CreateTopicResult, image: ClusterImage) -> CreatableTopicResult:
    if result.error_code:
        message = told_message(result.error_code, result.error_message)
        return CreatableTopicResult(result.topic, error_code=result.error_code, error_message=message, configs=None)
    broker = BrokerValues(dynamic_default=image.broker_configs.get(ALL_BROKERS, {}))
    return CreatableTopicResult(
        result.topic,
        result.topic_id,
        num_partitions=result.partitions,
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(
                each.name,
                None if each.is_null else each.value,
                read_only=each.read_only,
                config_source=each.source,
                is_sensitive=each.is_sensitive,
            )
            for each in describe_topic(result.configs, broker, Wanted())
        ],
    )
