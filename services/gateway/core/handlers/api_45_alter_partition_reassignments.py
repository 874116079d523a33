"""AlterPartitionReassignments, API key 45, versions 0 to 1 (KIP-455).

- Moves partitions to other replicas, or with null replicas takes the move under way back; NO_REASSIGNMENT_IN_PROGRESS
  where there is none. The answer comes when the move has begun; ListPartitionReassignments tells how it goes on.
- v1: without `allow_replication_factor_change` another number of replicas is INVALID_REPLICATION_FACTOR (KIP-860).
- A partition that is asked for twice is INVALID_REQUEST.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; the move may begin all the same.

Deviations: what a move under way was adding and a new move is not goes at once, as it did in Kafka with ZooKeeper.
"""

from __future__ import annotations

from collections import Counter

from barnabas.cluster.messages import AlterReassignmentsRequest, AlterReassignmentsResponse, Reassignment
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from services.gateway.core.authorization import CLUSTER, Operation, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.effects import ControllerAnswer
from services.gateway.core.error_messages import told_message
from services.gateway.core.slots import Slot

_EMPTY = "The manual partition assignment includes an empty replica list."


class PendingAlterReassignments(Slot):
    __slots__ = ("asked", "response")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.response = AlterPartitionReassignmentsResponse()
        self.asked: list[ReassignablePartitionResponse] = []
        """What the controller decides about, in the order of its results."""

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        if not isinstance(answer, AlterReassignmentsResponse):
            self.revision_applied()
            return
        for result, told in zip(self.asked, answer.results, strict=False):
            _set(result, told.error_code, told.error_message)
        self.connection.processor.controller.await_revision(self, answer.revision)

    def revision_applied(self) -> None:
        self.connection.processor.requests.respond(self, self.response)

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.revision_applied()

    def cancel(self) -> None:
        self.connection.processor.controller.forget(self)


def start(slot: PendingAlterReassignments, request: AlterPartitionReassignmentsRequest) -> None:
    processor, response = slot.connection.processor, slot.response
    may_change_factor = response.allow_replication_factor_change = request.allow_replication_factor_change
    is_allowed = authorize(slot.connection.context, Operation.ALTER, CLUSTER)
    if not is_allowed:
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        response.error_code, response.error_message = error, error.message
    named = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    asked = []
    for topic in request.topics:
        told = ReassignableTopicResponse(topic.name)
        response.responses.append(told)
        for partition in topic.partitions:
            result = ReassignablePartitionResponse(partition.partition_index)
            told.partitions.append(result)
            if not is_allowed:
                _set(result, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            elif named[topic.name, partition.partition_index] > 1:
                _set(result, ErrorCode.INVALID_REQUEST)
            elif partition.replicas is not None and not partition.replicas:
                _set(result, ErrorCode.INVALID_REPLICA_ASSIGNMENT, _EMPTY)
            else:
                _set(result, ErrorCode.REQUEST_TIMED_OUT)
                slot.asked.append(result)
                asked.append(Reassignment(topic.name, partition.partition_index, partition.replicas or []))
    if not asked:
        slot.revision_applied()
        return
    timeout_ms = max(0, request.timeout_ms)
    processor.deadlines.add(slot, processor.now_ms + timeout_ms + processor.config.deadline_grace_ms)
    processor.controller.call(slot, AlterReassignmentsRequest(asked, timeout_ms, may_change_factor))


def _set(result: ReassignablePartitionResponse, error_code: int, message: str = "") -> None:
    result.error_code, result.error_message = error_code, told_message(error_code, message)
