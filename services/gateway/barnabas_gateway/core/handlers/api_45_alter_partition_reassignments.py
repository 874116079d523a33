"""AlterPartitionReassignments, API key 45, versions 0 to 1 (KIP-455).

- Moves partitions to other replicas, or with null replicas cancels the move in progress; NO_REASSIGNMENT_IN_PROGRESS
  if there is none. The answer comes when the move has begun; ListPartitionReassignments shows its progress.
- v1: without `allow_replication_factor_change` another number of replicas is INVALID_REPLICATION_FACTOR (KIP-860).
- A partition that is asked for twice is INVALID_REQUEST.
- No controller, or none that answers by `timeout_ms`: REQUEST_TIMED_OUT; the move may still begin.

Deviations: what a move in progress was adding and a new move is not is removed at once, as it was in Kafka with
ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.messages import AlterReassignmentsRequest, AlterReassignmentsResponse, Reassignment
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
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

_EMPTY = "The manual partition assignment includes an empty replica list."


_Asked: TypeAlias = tuple[Reassignment, ReassignablePartitionResponse]


class PendingAlterReassignments(PendingControllerRequest[_Asked]):
    __slots__ = ("may_change_factor", "response")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response = AlterPartitionReassignmentsResponse()
        self.may_change_factor = False

    def request_of(self, queries: Sequence[_Asked], timeout_ms: int) -> AlterReassignmentsRequest:
        return AlterReassignmentsRequest([asked for asked, _ in queries], timeout_ms, self.may_change_factor)

    def fill_results(self, queries: Sequence[_Asked], answer: ControllerAnswer) -> int:
        assert isinstance(answer, AlterReassignmentsResponse)
        for (_, result), reported in zip(queries, answer.results, strict=False):
            _set(result, reported.error_code, reported.error_message)
        return answer.revision

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class AlterPartitionReassignmentsHandler(ControllerHandler):
    api_key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    request_class = PendingAlterReassignments

    def start(self, pending: PendingAlterReassignments, request: AlterPartitionReassignmentsRequest) -> Steps[None]:
        response = pending.response
        pending.may_change_factor = response.allow_replication_factor_change = request.allow_replication_factor_change
        is_allowed = self.authorizer.authorize(pending, Operation.ALTER, CLUSTER)
        if not is_allowed:
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            response.error_code, response.error_message = error, error.message
        named: dict[tuple[str, int], int] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                named[key] = named.get(key, 0) + 1
                yield 1
            yield 1
        unknown_left = UNKNOWN_NAMES_MAX
        for topic in request.topics:
            topic_response = ReassignableTopicResponse(topic.name)
            response.responses.append(topic_response)
            known = partitions_of(self.image, topic.name)
            for partition in topic.partitions:
                result = ReassignablePartitionResponse(partition.partition_index)
                topic_response.partitions.append(result)
                is_known = partition.partition_index in known
                replicas = partition.replicas or []
                if not is_allowed:
                    _set(result, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                elif named[topic.name, partition.partition_index] > 1:
                    _set(result, ErrorCode.INVALID_REQUEST)
                elif partition.replicas is not None and not replicas:
                    _set(result, ErrorCode.INVALID_REPLICA_ASSIGNMENT, _EMPTY)
                elif len(replicas) > SHORT_ELEMENTS_MAX:
                    _set(result, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
                elif not is_known and not unknown_left:
                    _set(result, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    _set(result, ErrorCode.REQUEST_TIMED_OUT)
                    asked = Reassignment(topic.name, partition.partition_index, replicas)
                    pending.add_query((asked, result), 1 + len(replicas) // 10)
                    unknown_left -= not is_known
                yield 1
            yield 1
        pending.send_calls(request.timeout_ms)


def _set(result: ReassignablePartitionResponse, error_code: int, message: str = "") -> None:
    result.error_code, result.error_message = error_code, client_message(error_code, message)
