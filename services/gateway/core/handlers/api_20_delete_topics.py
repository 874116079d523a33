"""DeleteTopics, API key 20, versions 1 to 6.

- By name, or by id (v6); the controller decides, and the answer waits until this processor has applied the deletion.
- A topic that is asked for twice, or by both name and id, or by neither, is INVALID_REQUEST.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; the topics may be gone all the same.

Deviations: none known.
"""

from __future__ import annotations

from collections import Counter

from barnabas.cluster.messages import DeleteTopicsRequest as ControllerDeleteTopics
from barnabas.cluster.messages import DeleteTopicsResponse, TopicReference
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import delete_topics as wire
from barnabas.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.primitives import ZERO_UUID
from services.gateway.core.authorization import Operation, ResourceType, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.effects import ControllerAnswer
from services.gateway.core.error_messages import told_message
from services.gateway.core.slots import Slot

_VERSION_WITH_STATES = 6


class PendingDeleteTopics(Slot):
    __slots__ = ("asked", "results")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.results: list[DeletableTopicResult] = []
        self.asked: list[DeletableTopicResult] = []
        """Those among them that the controller answers, in the order of its answer."""

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        if not isinstance(answer, DeleteTopicsResponse):
            self.revision_applied()
            return
        for result, told in zip(self.asked, answer.results, strict=False):
            error = told.error_code
            result.error_code = error
            result.error_message = told_message(error, told.error_message)
            if not error:
                result.topic_id = told.topic_id
                result.name = told.topic
        self.connection.processor.controller.await_revision(self, answer.revision)

    def revision_applied(self) -> None:
        self.connection.processor.requests.respond(self, wire.DeleteTopicsResponse(responses=self.results))

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.revision_applied()

    def cancel(self) -> None:
        self.connection.processor.controller.forget(self)


def start(slot: PendingDeleteTopics, request: DeleteTopicsRequest) -> None:
    processor = slot.connection.processor
    states = request.topics
    if slot.header.api_version < _VERSION_WITH_STATES:
        states = [DeleteTopicState(name) for name in request.topic_names]
    named = Counter((state.name, state.topic_id) for state in states)
    references = []
    for state in states:
        error = _error(slot, state, named[state.name, state.topic_id])
        result = DeletableTopicResult(state.name, state.topic_id, error, error.message if error else None)
        slot.results.append(result)
        if not error:
            pending = ErrorCode.REQUEST_TIMED_OUT
            result.error_code, result.error_message = pending, pending.message
            slot.asked.append(result)
            references.append(TopicReference(state.name or "", state.topic_id))
    if not references:
        slot.revision_applied()
        return
    processor.deadlines.add(slot, processor.now_ms + request.timeout_ms + processor.config.deadline_grace_ms)
    processor.controller.call(slot, ControllerDeleteTopics(references, request.timeout_ms))


def _error(slot: PendingDeleteTopics, state: DeleteTopicState, times_named: int) -> ErrorCode:
    has_name, has_id = state.name is not None, state.topic_id != ZERO_UUID
    if times_named > 1 or has_name == has_id:
        return ErrorCode.INVALID_REQUEST
    topic = None if has_name else slot.connection.processor.image.topics_by_id.get(state.topic_id)
    name = state.name if topic is None else topic.topic
    if not authorize(slot.connection.context, Operation.DELETE, (ResourceType.TOPIC, name or "")):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE
