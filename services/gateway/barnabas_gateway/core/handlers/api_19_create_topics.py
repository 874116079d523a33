"""CreateTopics, API key 19, versions 2 to 7.

- The controller decides and the answer waits until this processor has applied the revision that has the topics, so a
  client that produces next finds them.
- A name that is asked for twice is INVALID_REQUEST. Numbers that contradict an assignment are INVALID_REQUEST, the
  controller checks for a partition or replica in it twice.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; the topics may still exist.

- The answer (v5) has all configs of each topic: those of a topic with these overrides and the dynamic default broker
configs.

Deviations: the static configs of single logstores are not in these configs; DescribeConfigs has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.cluster.acls import CLUSTER, Operation, ResourceType
from barnabas.cluster.config_description import BrokerValues, Wanted, describe_topic
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import (
    ALL_BROKERS,
    EXCESSIVE_PARTITIONS,
    PARTITIONS_PER_REQUEST_MAX,
    Assignment,
    CreateTopicResult,
    CreateTopicsResponse,
    NewTopic,
)
from barnabas.cluster.messages import CreateTopicsRequest as ControllerCreateTopics
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import create_topics as wire
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from barnabas.wire.primitives import SHORT_ELEMENTS_MAX, Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.controller_request import ControllerHandler, PendingControllerRequest

_VERSION_WITH_QUOTA_ERROR: Final = 6


class PendingCreateTopics(PendingControllerRequest[NewTopic]):
    __slots__ = ("results", "validate_only")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: dict[str, CreatableTopicResult] = {}
        self.validate_only = False

    def request_of(self, queries: Sequence[NewTopic], timeout_ms: int) -> ControllerCreateTopics:
        return ControllerCreateTopics(list(queries), timeout_ms, self.validate_only)

    def fill_results(self, queries: Sequence[NewTopic], answer: ControllerAnswer) -> int:
        assert isinstance(answer, CreateTopicsResponse)
        for result in answer.results:
            may_describe = self.handler.authorizer.authorize(
                self, Operation.DESCRIBE_CONFIGS, (ResourceType.TOPIC, result.topic), log_denied=False
            )
            self.results[result.topic] = _result(result, self.handler.image, may_describe=may_describe)
        return answer.revision

    def refuse(self, topic: str, error: ErrorCode, message: str = "") -> None:
        self.results[topic] = CreatableTopicResult(
            topic, error_code=error, error_message=message or error.message, configs=None
        )

    def complete(self) -> None:
        response = wire.CreateTopicsResponse(throttle_time_ms=self.throttle_ms, topics=list(self.results.values()))
        self.handler.responder.respond(self, response)


class CreateTopicsHandler(ControllerHandler):
    api_key = ApiKey.CREATE_TOPICS
    request_class = PendingCreateTopics

    def start(self, pending: PendingCreateTopics, request: CreateTopicsRequest) -> Steps[None]:
        pending.validate_only = request.validate_only
        wanted: dict[str, CreatableTopic | None] = {}
        partitions = 0
        for topic in request.topics:
            # None: it is named twice.
            wanted[topic.name] = topic if topic.name not in wanted else None
            partitions += max(1, topic.num_partitions, len(topic.assignments))
            yield 1
        is_excessive = partitions > PARTITIONS_PER_REQUEST_MAX
        for name, topic_or_none in wanted.items():
            error, message = _refusal(pending, name, topic_or_none)
            if not error and is_excessive:
                error, message = ErrorCode.POLICY_VIOLATION, EXCESSIVE_PARTITIONS
            if error or topic_or_none is None:
                pending.refuse(name, error, message)
            elif not pending.may_mutate(self._partitions_of(topic_or_none), _VERSION_WITH_QUOTA_ERROR):
                pending.refuse(name, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            else:
                pending.refuse(name, ErrorCode.REQUEST_TIMED_OUT)
                new = _new_topic(topic_or_none)
                cost = 1 + (max(1, new.partitions) + len(new.configs)) // 10 + len(new.assignments)
                pending.add_query(new, cost)
                yield cost
            yield 1
        pending.send_calls(request.timeout_ms)

    def _partitions_of(self, topic: CreatableTopic) -> int:
        """Return how many partitions it is to have; of the controller's default one, which is not known here."""
        return len(topic.assignments) or max(
            1, self.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        )


def _refusal(pending: PendingCreateTopics, name: str, topic: CreatableTopic | None) -> tuple[ErrorCode, str]:
    if topic is None:
        return ErrorCode.INVALID_REQUEST, "Duplicate topic name."
    authorizer = pending.handler.authorizer
    if not (
        authorizer.authorize(pending, Operation.CREATE, CLUSTER, log_denied=False)
        or authorizer.authorize(pending, Operation.CREATE, (ResourceType.TOPIC, name))
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        return (
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set.",
        )
    if len(topic.configs) > SHORT_ELEMENTS_MAX:
        return ErrorCode.INVALID_CONFIG, f"A topic has no {len(topic.configs)} configs."
    if any(config.value is None for config in topic.configs):
        return ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs."
    if any(len(each.broker_ids) > SHORT_ELEMENTS_MAX for each in topic.assignments[:PARTITIONS_PER_REQUEST_MAX]):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"A partition has no more than {SHORT_ELEMENTS_MAX} replicas."
    return ErrorCode.NONE, ""


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [Assignment(each.partition_index, each.broker_ids) for each in topic.assignments],
        {config.name: config.value or "" for config in topic.configs},
    )


def _result(result: CreateTopicResult, image: ClusterImage, *, may_describe: bool) -> CreatableTopicResult:
    """`may_describe`: whether the client may see the configs of the topic."""
    if result.error_code:
        message = client_message(result.error_code, result.error_message)
        return CreatableTopicResult(result.topic, error_code=result.error_code, error_message=message, configs=None)
    if not may_describe:
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return CreatableTopicResult(result.topic, result.topic_id, topic_config_error_code=denied)
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
