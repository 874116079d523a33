"""DeleteTopics, API key 20, versions 1 to 6.

- By name, or by id (v6); the controller decides, and the answer waits until this processor has applied the deletion.
- Of names and ids that this gateway does not know, the controller is asked about the first 100 of a request; the
  others are UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID by the gateway's own image.
- A topic that is asked for twice, or by both name and id, or by neither, is INVALID_REQUEST.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; the topics may still be deleted.

Deviations: none known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from barnabas.cluster.acls import CLUSTER, Operation, ResourceType
from barnabas.cluster.messages import DeleteTopicsRequest as ControllerDeleteTopics
from barnabas.cluster.messages import DeleteTopicsResponse, TopicReference
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import delete_topics as wire
from barnabas.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.primitives import ZERO_UUID, Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.controller_request import (
    UNKNOWN_NAMES_MAX,
    ControllerHandler,
    PendingControllerRequest,
)

_VERSION_WITH_STATES: Final = 6
_VERSION_WITH_QUOTA_ERROR: Final = 5


_Asked: TypeAlias = tuple[TopicReference, DeletableTopicResult]


class PendingDeleteTopics(PendingControllerRequest[_Asked]):
    __slots__ = ("results",)

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: list[DeletableTopicResult] = []

    def request_of(self, queries: Sequence[_Asked], timeout_ms: int) -> ControllerDeleteTopics:
        return ControllerDeleteTopics([reference for reference, _ in queries], timeout_ms)

    def fill_results(self, queries: Sequence[_Asked], answer: ControllerAnswer) -> int:
        assert isinstance(answer, DeleteTopicsResponse)
        for (_, result), reported in zip(queries, answer.results, strict=False):
            _set(result, reported.error_code, reported.error_message)
            if not reported.error_code:
                result.topic_id = reported.topic_id
                result.name = reported.topic
        return answer.revision

    def complete(self) -> None:
        response = wire.DeleteTopicsResponse(throttle_time_ms=self.throttle_ms, responses=self.results)
        self.handler.responder.respond(self, response)


class DeleteTopicsHandler(ControllerHandler):
    api_key = ApiKey.DELETE_TOPICS
    request_class = PendingDeleteTopics

    def start(self, pending: PendingDeleteTopics, request: DeleteTopicsRequest) -> Steps[None]:
        states = request.topics
        if pending.header.api_version < _VERSION_WITH_STATES:
            states = [DeleteTopicState(name) for name in request.topic_names]
        named: dict[tuple[str | None, bytes], int] = {}
        for state in states:
            key = (state.name, state.topic_id)
            named[key] = named.get(key, 0) + 1
            yield 1
        unknown_left = UNKNOWN_NAMES_MAX
        for state in states:
            error = _error(pending, state, named[state.name, state.topic_id])
            result = DeletableTopicResult(state.name, state.topic_id, error, error.message if error else None)
            pending.results.append(result)
            if not error:
                is_known = _is_known(pending, state)
                if is_known and not pending.may_mutate(_partitions_of(pending, state), _VERSION_WITH_QUOTA_ERROR):
                    _set(result, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
                elif is_known or unknown_left:
                    _set(result, ErrorCode.REQUEST_TIMED_OUT)
                    pending.add_query((TopicReference(state.name or "", state.topic_id), result))
                    unknown_left -= not is_known
                else:
                    _set(result, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if state.name else ErrorCode.UNKNOWN_TOPIC_ID)
            yield 1
        pending.send_calls(request.timeout_ms)


def _error(pending: PendingDeleteTopics, state: DeleteTopicState, times_named: int) -> ErrorCode:
    has_name, has_id = state.name is not None, state.topic_id != ZERO_UUID
    if times_named > 1 or has_name == has_id:
        return ErrorCode.INVALID_REQUEST
    authorizer, image = pending.handler.authorizer, pending.handler.image
    if authorizer.authorize(pending, Operation.DELETE, CLUSTER, log_denied=False):
        return ErrorCode.NONE
    if state.name is not None:
        resource = (ResourceType.TOPIC, state.name)
        if not authorizer.authorize(pending, Operation.DESCRIBE, resource):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if authorizer.authorize(pending, Operation.DELETE, resource):
            return ErrorCode.NONE
        is_known = state.name in image.topics_by_name
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = image.topics_by_id.get(state.topic_id)
    if topic is None:
        # Without its name it can't be known who may delete it.
        return ErrorCode.UNKNOWN_TOPIC_ID
    resource = (ResourceType.TOPIC, topic.topic)
    if authorizer.authorize(pending, Operation.DELETE, resource):
        return ErrorCode.NONE
    if authorizer.authorize(pending, Operation.DESCRIBE, resource, log_denied=False):
        state.name = topic.topic
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _is_known(pending: PendingDeleteTopics, state: DeleteTopicState) -> bool:
    image = pending.handler.image
    return state.topic_id in image.topics_by_id if state.name is None else state.name in image.topics_by_name


def _partitions_of(pending: PendingDeleteTopics, state: DeleteTopicState) -> int:
    image = pending.handler.image
    topic_id = state.topic_id if state.name is None else image.topics_by_name[state.name].topic_id
    return len(image.partitions_by_topic_id[topic_id])


def _set(result: DeletableTopicResult, error_code: int, message: str = "") -> None:
    result.error_code, result.error_message = error_code, client_message(error_code, message)
