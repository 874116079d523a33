"""CreatePartitions, API key 37, versions 0 to 3 (KIP-195).

- The controller decides, and the answer waits until the new partitions have leaders and this processor knows them, so
  that a client that produces next finds them. Existing partitions keep their replicas and leaders.
- A topic that is asked for twice is INVALID_REQUEST. `count` is the new total, assignments are those of the new ones.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; the partitions may still be created.

Deviations: none known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.messages import (
    EXCESSIVE_PARTITIONS,
    PARTITIONS_PER_REQUEST_MAX,
    Assignment,
    CreatePartitionsResponse,
    NewPartitions,
)
from barnabas.cluster.messages import CreatePartitionsRequest as ControllerCreatePartitions
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import create_partitions as wire
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.wire.primitives import SHORT_ELEMENTS_MAX, Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.model.topic_names import partitions_of
from barnabas_gateway.core.requests.controller_request import (
    UNKNOWN_NAMES_MAX,
    ControllerHandler,
    PendingControllerRequest,
)

_VERSION_WITH_QUOTA_ERROR: Final = 3
_Asked: TypeAlias = tuple[NewPartitions, CreatePartitionsTopicResult]


class PendingCreatePartitions(PendingControllerRequest[_Asked]):
    __slots__ = ("results", "validate_only")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: dict[str, CreatePartitionsTopicResult] = {}
        self.validate_only = False

    def request_of(self, queries: Sequence[_Asked], timeout_ms: int) -> ControllerCreatePartitions:
        return ControllerCreatePartitions([asked for asked, _ in queries], timeout_ms, self.validate_only)

    def fill_results(self, queries: Sequence[_Asked], answer: ControllerAnswer) -> int:
        assert isinstance(answer, CreatePartitionsResponse)
        for (_, result), reported in zip(queries, answer.results, strict=False):
            _set(result, reported.error_code, reported.error_message)
        return answer.revision

    def complete(self) -> None:
        response = wire.CreatePartitionsResponse(throttle_time_ms=self.throttle_ms, results=list(self.results.values()))
        self.handler.responder.respond(self, response)


class CreatePartitionsHandler(ControllerHandler):
    api_key = ApiKey.CREATE_PARTITIONS
    request_class = PendingCreatePartitions

    def start(self, pending: PendingCreatePartitions, request: CreatePartitionsRequest) -> Steps[None]:
        pending.validate_only = request.validate_only
        wanted: dict[str, CreatePartitionsTopic | None] = {}
        for topic in request.topics:
            # None: it is named twice.
            wanted[topic.name] = topic if topic.name not in wanted else None
            yield 1
        image = self.image
        added = 0
        for name, topic_or_none in wanted.items():
            if topic_or_none is not None:
                added += max(
                    0, topic_or_none.count - len(partitions_of(image, name)), len(topic_or_none.assignments or ())
                )
            yield 1
        unknown_left = UNKNOWN_NAMES_MAX
        for name, topic_or_none in wanted.items():
            result = pending.results[name] = CreatePartitionsTopicResult(name)
            is_known = name in image.topics_by_name
            if topic_or_none is None:
                _set(result, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            elif not self.authorizer.authorize(pending, Operation.ALTER, (ResourceType.TOPIC, name)):
                _set(result, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
            elif not is_known and not unknown_left:
                _set(result, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            elif is_known and added > PARTITIONS_PER_REQUEST_MAX:
                _set(result, ErrorCode.POLICY_VIOLATION, EXCESSIVE_PARTITIONS)
            elif _has_too_many_replicas(topic_or_none):
                _set(result, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "")
            elif not pending.may_mutate(
                max(0, topic_or_none.count - len(partitions_of(image, name))), _VERSION_WITH_QUOTA_ERROR
            ):
                _set(result, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "")
            else:
                _set(result, ErrorCode.REQUEST_TIMED_OUT, "")
                cost = 1 + len(topic_or_none.assignments or ()) + max(0, topic_or_none.count) // 10
                pending.add_query((_new_partitions(topic_or_none), result), cost)
                unknown_left -= not is_known
                yield len(topic_or_none.assignments or ())
            yield 1
        pending.send_calls(request.timeout_ms)


def _has_too_many_replicas(topic: CreatePartitionsTopic) -> bool:
    assignments = topic.assignments or []
    is_excessive = len(assignments) > PARTITIONS_PER_REQUEST_MAX
    return is_excessive or any(len(each.broker_ids) > SHORT_ELEMENTS_MAX for each in assignments)


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = [Assignment(number, each.broker_ids) for number, each in enumerate(topic.assignments or [])]
    return NewPartitions(topic.name, topic.count, assignments)


def _set(result: CreatePartitionsTopicResult, error_code: int, message: str) -> None:
    result.error_code = error_code
    result.error_message = client_message(error_code, message)
