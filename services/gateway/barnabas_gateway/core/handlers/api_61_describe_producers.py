"""DescribeProducers, API key 61, version 0 (KIP-664).

- The producers that the leader's logstore knows of each partition, with the sequence, time and transaction of their
  last batch; in the order in which it first saw them.
- An illegal name is INVALID_TOPIC_EXCEPTION, an unknown topic or partition UNKNOWN_TOPIC_OR_PARTITION. A leader that
  can't be asked is NOT_LEADER_OR_FOLLOWER, one that does not answer in 30 s REQUEST_TIMED_OUT.

Deviations: a partition named twice is answered once. Each answer may be large, and a small request for the same one
many times must not become a response that no memory holds.
"""

from __future__ import annotations

from barnabas.cluster import administration as contract
from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.administration import ActiveProducer, AdministrationResponse, TopicIdPartition
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from barnabas.wire.primitives import Steps
from barnabas.wire.topic_names import is_legal_topic_name
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import error_message
from barnabas_gateway.core.requests.admin_request import AdminHandler, PendingAdminRequest, Question, leader_of


class PendingDescribeProducers(PendingAdminRequest[TopicIdPartition, PartitionResponse]):
    __slots__ = ("_reported", "response")

    CALL_QUERIES_MAX = 10
    """A partition has up to 20,000 producers."""

    def __init__(self, handler: AdminHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response: DescribeProducersResponse = DescribeProducersResponse()
        self._reported: list[tuple[PartitionResponse, list[ActiveProducer]]] = []
        """What logstores have answered, to be put into the response in steps."""

    def request_of(self, queries: list[TopicIdPartition]) -> contract.DescribeProducersRequest:
        return contract.DescribeProducersRequest(queries)

    def fill_results(
        self, questions: list[Question[TopicIdPartition, PartitionResponse]], answer: AdministrationResponse
    ) -> None:
        assert isinstance(answer, contract.DescribeProducersResponse)
        for question, reported in zip(questions, answer.partitions, strict=False):
            question.result.error_code = reported.error_code
            self._reported.append((question.result, reported.producers))

    def complete(self) -> None:
        self.handler.responder.begin_steps(self, self._respond())

    def _respond(self) -> Steps[None]:
        for result, producers in self._reported:
            producers.reverse()
            while producers:
                producer = producers.pop()
                result.active_producers.append(
                    ProducerState(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.last_timestamp_ms,
                        producer.coordinator_epoch,
                        producer.transaction_first_offset,
                    )
                )
                yield 1
        for topic in self.response.topics:
            for partition in topic.partitions:
                error = partition.error_code
                partition.error_message = error_message(error) if error else None
                yield 1
        self.handler.responder.respond(self, self.response)


class DescribeProducersHandler(AdminHandler):
    api_key = ApiKey.DESCRIBE_PRODUCERS
    request_class = PendingDescribeProducers

    def start(self, pending: PendingDescribeProducers, request: DescribeProducersRequest) -> Steps[None]:
        by_name: dict[str, TopicRequest] = {}
        for each in request.topics:
            by_name[each.name] = each
            yield 1
        for topic in by_name.values():
            results: list[PartitionResponse] = []
            pending.response.topics.append(TopicResponse(topic.name, results))
            error = _topic_error(pending, topic.name)
            for partition in dict.fromkeys(topic.partition_indexes):
                result = PartitionResponse(partition, error)
                results.append(result)
                known = leader_of(self.image, topic.name, partition)
                if not error and known is None:
                    result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif not error and known is not None:
                    topic_id, leader = known
                    result.error_code = pending.LOST
                    pending.add_query(leader, TopicIdPartition(topic_id, partition), result)
                yield 1
            yield 1
        pending.send_calls(self.config.read_wait_ms_max)


def _topic_error(pending: PendingDescribeProducers, topic: str) -> ErrorCode:
    if not is_legal_topic_name(topic):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not pending.handler.authorizer.authorize(pending, Operation.READ, (ResourceType.TOPIC, topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE
