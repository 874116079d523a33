"""OffsetForLeaderEpoch, API key 23, versions 2 to 4.

- The leaders' logstores are asked, whose answer is Kafka's (KIP-101, KIP-320): the largest epoch at or below the one
  asked for and where it ends, or −1 and −1 for an epoch after all that the leader knows, and for −1.
- The client's current leader epoch is compared with the leader's: FENCED_LEADER_EPOCH below it, UNKNOWN_LEADER_EPOCH
  above it; −1 is not compared.
- A leader that can't be asked is NOT_LEADER_OR_FOLLOWER, one that does not answer in 30 s REQUEST_TIMED_OUT.
- Replicas do not ask a gateway: a replica id of 0 or more (v3) is TOPIC_AUTHORIZATION_FAILED, as for any principal
  without CLUSTER_ACTION. v2 has no replica id.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, Operation, ResourceType
from barnabas.cluster.administration import (
    AdministrationResponse,
    EndOffsetQuery,
    EndOffsetsRequest,
    EndOffsetsResponse,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.admin_request import AdminHandler, PendingAdminRequest, Question, leader_of


class PendingOffsetForLeaderEpoch(PendingAdminRequest[EndOffsetQuery, EpochEndOffset]):
    __slots__ = ("response",)

    def __init__(self, handler: AdminHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response: OffsetForLeaderEpochResponse = OffsetForLeaderEpochResponse()

    def request_of(self, queries: list[EndOffsetQuery]) -> EndOffsetsRequest:
        return EndOffsetsRequest(queries)

    def fill_results(
        self, questions: list[Question[EndOffsetQuery, EpochEndOffset]], answer: AdministrationResponse
    ) -> None:
        assert isinstance(answer, EndOffsetsResponse)
        for question, reported in zip(questions, answer.partitions, strict=False):
            result = question.result
            result.error_code = reported.error_code
            result.leader_epoch, result.end_offset = reported.leader_epoch, reported.end_offset

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class OffsetForLeaderEpochHandler(AdminHandler):
    api_key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    request_class = PendingOffsetForLeaderEpoch

    def start(self, pending: PendingOffsetForLeaderEpoch, request: OffsetForLeaderEpochRequest) -> Steps[None]:
        may_act = self.authorizer.authorize(pending, Operation.CLUSTER_ACTION, CLUSTER, log_denied=False)
        for topic in request.topics:
            results: list[EpochEndOffset] = []
            pending.response.topics.append(OffsetForLeaderTopicResult(topic.topic, results))
            resource = (ResourceType.TOPIC, topic.topic)
            is_allowed = request.replica_id < 0 and (
                may_act or self.authorizer.authorize(pending, Operation.DESCRIBE, resource)
            )
            for asked in topic.partitions:
                result = EpochEndOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER, asked.partition)
                results.append(result)
                known = leader_of(self.image, topic.topic, asked.partition)
                if not is_allowed:
                    result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif known is None:
                    result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    topic_id, leader = known
                    query = EndOffsetQuery(topic_id, asked.partition, asked.current_leader_epoch, asked.leader_epoch)
                    pending.add_query(leader, query, result)
                yield 1
            yield 1
        pending.send_calls(self.config.read_wait_ms_max)
