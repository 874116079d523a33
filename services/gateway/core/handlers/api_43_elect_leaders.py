"""ElectLeaders, API key 43, versions 0 to 2 (KIP-183, KIP-460).

- Preferred leaders (v0 knows no others), or any leader for partitions without one. Named partitions are all told of,
  with ELECTION_NOT_NEEDED where the leader is the right one already; null asks for all, and tells of those elected.
- The controller decides, and the answer waits until the new leaders lead and this processor knows them.
- An election type that Kafka does not have is INVALID_REQUEST.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; there may be other leaders all the same.

Deviations: none known.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.messages import ElectLeadersRequest as ControllerElectLeaders
from barnabas.cluster.messages import ElectLeadersResponse, TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import elect_leaders as wire
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, PartitionResult, ReplicaElectionResult
from services.gateway.core.authorization import CLUSTER, Operation, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.effects import ControllerAnswer
from services.gateway.core.error_messages import told_message
from services.gateway.core.slots import Slot

_ELECTION_TYPES: Final = (0, 1)


class PendingElectLeaders(Slot):
    __slots__ = ("error_code", "results")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.error_code: int = ErrorCode.NONE
        self.results: dict[tuple[str, int], PartitionResult] = {}
        """By topic and partition; until the controller answers, of those that are named."""

    def set(self, topic: str, partition: int, error_code: int, message: str = "") -> None:
        told = told_message(error_code, message)
        self.results[topic, partition] = PartitionResult(partition, error_code, told)

    def fail(self, error: ErrorCode) -> None:
        """The whole request."""
        self.error_code = error
        for topic, partition in list(self.results):
            self.set(topic, partition, error)

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        if not isinstance(answer, ElectLeadersResponse):
            self.revision_applied()
            return
        self.error_code = answer.error_code
        for result in answer.results:
            self.set(result.topic, result.partition, result.error_code, result.error_message)
        self.connection.processor.controller.await_revision(self, answer.revision)

    def revision_applied(self) -> None:
        by_topic: dict[str, list[PartitionResult]] = {}
        for (topic, _), result in self.results.items():
            by_topic.setdefault(topic, []).append(result)
        results = [ReplicaElectionResult(topic, partitions) for topic, partitions in by_topic.items()]
        response = wire.ElectLeadersResponse(error_code=self.error_code, replica_election_results=results)
        self.connection.processor.requests.respond(self, response)

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.revision_applied()

    def cancel(self) -> None:
        self.connection.processor.controller.forget(self)


def start(slot: PendingElectLeaders, request: ElectLeadersRequest) -> None:
    processor = slot.connection.processor
    asks_for_all = request.topic_partitions is None
    for topic in request.topic_partitions or []:
        for partition in topic.partitions:
            slot.set(topic.topic, partition, ErrorCode.REQUEST_TIMED_OUT)
    if not authorize(slot.connection.context, Operation.ALTER, CLUSTER):
        slot.fail(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif request.election_type not in _ELECTION_TYPES:
        slot.fail(ErrorCode.INVALID_REQUEST)
    elif slot.results or asks_for_all:
        if asks_for_all:
            slot.error_code = ErrorCode.REQUEST_TIMED_OUT
        timeout_ms = max(0, request.timeout_ms)
        partitions = [TopicPartition(*named) for named in slot.results]
        processor.deadlines.add(slot, processor.now_ms + timeout_ms + processor.config.deadline_grace_ms)
        asked = ControllerElectLeaders(request.election_type, asks_for_all, partitions, timeout_ms)
        processor.controller.call(slot, asked)
        return
    slot.revision_applied()
