"""ElectLeaders, API key 43, versions 0 to 2 (KIP-183, KIP-460).

- Preferred leaders (v0 knows no others), or any leader for partitions without one. Named partitions are all in the
  answer, with ELECTION_NOT_NEEDED if the leader is the right one already; null requests all, and the answer has those
  elected.
- Of partitions that this gateway does not know, the controller is asked about the first 100 of a request; the others
  are UNKNOWN_TOPIC_OR_PARTITION. "All" are those that need an election as far as this gateway knows. A partition named
  twice is answered once.
- The controller decides, and the answer waits until the new leaders lead and this processor knows them.
- An election type that Kafka does not have is INVALID_REQUEST.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; leaders may still change.

Deviations: none known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.messages import NO_LEADER, ElectLeadersResponse, TopicPartition
from barnabas.cluster.messages import ElectLeadersRequest as ControllerElectLeaders
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import elect_leaders as wire
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, PartitionResult, ReplicaElectionResult
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.model.topic_names import partitions_of
from barnabas_gateway.core.requests.controller_request import (
    UNKNOWN_NAMES_MAX,
    ControllerHandler,
    PendingControllerRequest,
)

_PREFERRED: Final = 0
_ELECTION_TYPES: Final = (_PREFERRED, 1)


class PendingElectLeaders(PendingControllerRequest[TopicPartition]):
    __slots__ = ("asks_for_all", "election_type", "error_code", "results")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.election_type = 0
        self.asks_for_all = False
        self.error_code: int = ErrorCode.NONE
        self.results: dict[tuple[str, int], PartitionResult] = {}
        """By topic and partition; until the controller answers, for those that are named."""

    def set(self, topic: str, partition: int, error_code: int, message: str = "") -> None:
        client_text = client_message(error_code, message)
        self.results[topic, partition] = PartitionResult(partition, error_code, client_text)

    def request_of(self, queries: Sequence[TopicPartition], timeout_ms: int) -> ControllerElectLeaders:
        return ControllerElectLeaders(self.election_type, False, list(queries), timeout_ms)

    def fill_results(self, queries: Sequence[TopicPartition], answer: ControllerAnswer) -> int:
        assert isinstance(answer, ElectLeadersResponse)
        self.error_code = answer.error_code
        for result in answer.results:
            if not self.asks_for_all or result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                self.set(result.topic, result.partition, result.error_code, result.error_message)
        return answer.revision

    def complete(self) -> None:
        self.handler.responder.begin_steps(self, self._respond())

    def _respond(self) -> Steps[None]:
        by_topic: dict[str, list[PartitionResult]] = {}
        for (topic, _), result in self.results.items():
            by_topic.setdefault(topic, []).append(result)
            yield 1
        results = [ReplicaElectionResult(topic, partitions) for topic, partitions in by_topic.items()]
        response = wire.ElectLeadersResponse(error_code=self.error_code, replica_election_results=results)
        self.handler.responder.respond(self, response)


class ElectLeadersHandler(ControllerHandler):
    api_key = ApiKey.ELECT_LEADERS
    request_class = PendingElectLeaders

    def start(self, pending: PendingElectLeaders, request: ElectLeadersRequest) -> Steps[None]:
        pending.asks_for_all = request.topic_partitions is None
        pending.election_type = request.election_type
        error = ErrorCode.NONE
        if not self.authorizer.authorize(pending, Operation.ALTER, CLUSTER):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        elif request.election_type not in _ELECTION_TYPES:
            error = ErrorCode.INVALID_REQUEST
        pending.error_code = error
        unknown_left = UNKNOWN_NAMES_MAX
        for topic in request.topic_partitions or []:
            partitions = partitions_of(self.image, topic.topic)
            for partition in topic.partitions:
                if (topic.topic, partition) not in pending.results:
                    is_known = partition in partitions
                    if error:
                        pending.set(topic.topic, partition, error)
                    elif is_known or unknown_left:
                        pending.set(topic.topic, partition, ErrorCode.REQUEST_TIMED_OUT)
                        pending.add_query(TopicPartition(topic.topic, partition))
                        unknown_left -= not is_known
                    else:
                        pending.set(topic.topic, partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                yield 1
            yield 1
        if pending.asks_for_all and not error:
            pending.error_code = ErrorCode.REQUEST_TIMED_OUT
            yield from _add_all(pending)
            if not pending.has_calls:
                pending.error_code = ErrorCode.NONE
        pending.send_calls(max(0, request.timeout_ms))


def _add_all(pending: PendingElectLeaders) -> Steps[None]:
    """Add all partitions that need an election as far as this gateway knows; the others are not in the answer."""
    image = pending.handler.image
    for topic in list(image.topics_by_name.values()):
        for each in list(image.partitions_by_topic_id.get(topic.topic_id, {}).values()):
            wanted = each.replicas[0] if pending.election_type == _PREFERRED else NO_LEADER
            if (each.leader == wanted) != (pending.election_type == _PREFERRED):
                pending.add_query(TopicPartition(topic.topic, each.partition))
            yield 1
        yield 1
