"""CreatePartitions, API key 37, versions 0 to 3 (KIP-195).

- The controller decides, and the answer waits until the new partitions have leaders and this processor knows them, so
  that a client that goes on to produce finds them. What is there already keeps its partitions and its leaders.
- A topic that is asked for twice is INVALID_REQUEST. `count` is the new total, assignments are those of the new ones.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; the partitions may come to exist all the same.

Deviations: none known.
"""

from __future__ import annotations

from collections import Counter

from barnabas.cluster.messages import Assignment, CreatePartitionsResponse, NewPartitions
from barnabas.cluster.messages import CreatePartitionsRequest as ControllerCreatePartitions
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import create_partitions as wire
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from services.gateway.core.authorization import Operation, ResourceType, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.effects import ControllerAnswer
from services.gateway.core.error_messages import told_message
from services.gateway.core.slots import Slot


class PendingCreatePartitions(Slot):
    __slots__ = ("asked", "results")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.results: dict[str, CreatePartitionsTopicResult] = {}
        self.asked: list[CreatePartitionsTopicResult] = []
        """What the controller decides about, in the order of its results."""

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        if not isinstance(answer, CreatePartitionsResponse):
            self.revision_applied()
            return
        for result, told in zip(self.asked, answer.results, strict=False):
            _set(result, told.error_code, told.error_message)
        self.connection.processor.controller.await_revision(self, answer.revision)

    def revision_applied(self) -> None:
        response = wire.CreatePartitionsResponse(results=list(self.results.values()))
        self.connection.processor.requests.respond(self, response)

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.revision_applied()

    def cancel(self) -> None:
        self.connection.processor.controller.forget(self)


def start(slot: PendingCreatePartitions, request: CreatePartitionsRequest) -> None:
    processor, context = slot.connection.processor, slot.connection.context
    named = Counter(topic.name for topic in request.topics)
    asked = []
    for topic in request.topics:
        result = slot.results[topic.name] = CreatePartitionsTopicResult(topic.name)
        if not authorize(context, Operation.ALTER, (ResourceType.TOPIC, topic.name)):
            _set(result, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
        elif named[topic.name] > 1:
            _set(result, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            _set(result, ErrorCode.REQUEST_TIMED_OUT, "")
            slot.asked.append(result)
            asked.append(_new_partitions(topic))
    if not asked:
        slot.revision_applied()
        return
    timeout_ms = max(0, request.timeout_ms)
    processor.deadlines.add(slot, processor.now_ms + timeout_ms + processor.config.deadline_grace_ms)
    processor.controller.call(slot, ControllerCreatePartitions(asked, timeout_ms, request.validate_only))


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = [Assignment(number, each.broker_ids) for number, each in enumerate(topic.assignments or [])]
    return NewPartitions(topic.name, topic.count, assignments)


def _set(result: CreatePartitionsTopicResult, error_code: int, message: str) -> None:
    result.error_code = error_code
    result.error_message = told_message(error_code, message)
