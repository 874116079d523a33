"""AddPartitionsToTxn, API key 24, versions 0 to 5.

- v0 to v3, of clients: the coordinator of the transactional id adds the partitions. If one of them may not be written,
  is unknown or internal, none is added: it has that error, the others OPERATION_NOT_ATTEMPTED.
- v4 and later, of brokers with CLUSTER_ACTION: several transactions, each asked of its coordinator, which adds or only
  verifies.
- Without a coordinator NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if the request may have been received.

Deviations: none known.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.cluster.acls import CLUSTER, Operation, ResourceType
from barnabas.cluster.internal_topics import INTERNAL_TOPICS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.topic_names import partitions_of
from barnabas_gateway.core.requests.group_request import GROUP_CALL_ELEMENTS_MAX, GroupHandler, PendingGroupsRequest

_BROKERS_FROM = 4
_PARTITIONS_PER_CALL = GROUP_CALL_ELEMENTS_MAX - 1


class PendingAddPartitionsToTxn(PendingGroupsRequest[AddPartitionsToTxnTransaction]):
    __slots__ = ("_results", "response")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response = AddPartitionsToTxnResponse()
        self._results: dict[str, AddPartitionsToTxnResult] = {}
        """By transactional id: several calls may be about one."""

    @property
    def is_of_client(self) -> bool:
        return self.header.api_version < _BROKERS_FROM

    def request_of(self, queries: list[AddPartitionsToTxnTransaction]) -> AddPartitionsToTxnRequest:
        if not self.is_of_client:
            return AddPartitionsToTxnRequest(_joined(queries))
        first = queries[0]
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=first.transactional_id,
            v3_and_below_producer_id=first.producer_id,
            v3_and_below_producer_epoch=first.producer_epoch,
            v3_and_below_topics=[topic for query in queries for topic in query.topics],
        )

    def fill_results(self, queries: list[AddPartitionsToTxnTransaction], response: Response) -> None:
        assert isinstance(response, AddPartitionsToTxnResponse)
        for result in response.results_by_transaction:
            self._result_of(result.transactional_id).topic_results += result.topic_results
        self.response.results_by_topic_v3_and_below += response.results_by_topic_v3_and_below

    def fail_queries(self, queries: list[AddPartitionsToTxnTransaction], error: int) -> None:
        for query in queries:
            self.refuse_topics(query.transactional_id, query.topics, dict.fromkeys(_names(query.topics), error))

    def refuse_topics(
        self, transactional_id: str, topics: list[AddPartitionsToTxnTopic], errors: dict[tuple[str, int], int]
    ) -> None:
        """Add results with these errors by topic and partition."""
        results = [
            AddPartitionsToTxnTopicResult(
                topic.name,
                [AddPartitionsToTxnPartitionResult(each, errors[topic.name, each]) for each in topic.partitions],
            )
            for topic in topics
        ]
        if self.is_of_client:
            self.response.results_by_topic_v3_and_below += results
        else:
            self._result_of(transactional_id).topic_results += results

    def _result_of(self, transactional_id: str) -> AddPartitionsToTxnResult:
        result = self._results.get(transactional_id)
        if result is None:
            result = self._results[transactional_id] = AddPartitionsToTxnResult(transactional_id)
            self.response.results_by_transaction.append(result)
        return result

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class AddPartitionsToTxnHandler(GroupHandler):
    api_key = ApiKey.ADD_PARTITIONS_TO_TXN
    request_class = PendingAddPartitionsToTxn

    def start(self, pending: PendingAddPartitionsToTxn, request: AddPartitionsToTxnRequest) -> Steps[None]:
        if not pending.is_of_client:
            if not self.authorizer.authorize(pending, Operation.CLUSTER_ACTION, CLUSTER):
                pending.response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                pending.complete()
                return
            for transaction in request.transactions:
                yield from _ask_for(pending, transaction)
            pending.send_calls()
            return
        transactional_id, topics = request.v3_and_below_transactional_id, request.v3_and_below_topics
        errors: dict[tuple[str, int], int] = {}
        if not self.authorizer.authorize(pending, Operation.WRITE, (ResourceType.TRANSACTIONAL_ID, transactional_id)):
            errors = dict.fromkeys(_names(topics), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        else:
            for topic in topics:
                errors |= self._errors_of(pending, topic)
                yield 1 + len(topic.partitions)
        if errors:
            others = dict.fromkeys(_names(topics), ErrorCode.OPERATION_NOT_ATTEMPTED)
            pending.refuse_topics(transactional_id, topics, {**others, **errors})
            pending.complete()
            return
        transaction = AddPartitionsToTxnTransaction(
            transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            verify_only=False,
            topics=topics,
        )
        yield from _ask_for(pending, transaction)
        pending.send_calls()

    def _errors_of(
        self, pending: PendingAddPartitionsToTxn, topic: AddPartitionsToTxnTopic
    ) -> dict[tuple[str, int], int]:
        resource = (ResourceType.TOPIC, topic.name)
        if topic.name in INTERNAL_TOPICS or not self.authorizer.authorize(pending, Operation.WRITE, resource):
            return dict.fromkeys(_names([topic]), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        known = partitions_of(self.image, topic.name)
        unknown = [(topic.name, each) for each in topic.partitions if each not in known]
        return dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _joined(parts: list[AddPartitionsToTxnTransaction]) -> list[AddPartitionsToTxnTransaction]:
    """Join the parts of one transaction that follow each other, so that it is decided and written once."""
    joined: list[AddPartitionsToTxnTransaction] = []
    for part in parts:
        if joined and replace(joined[-1], topics=part.topics) == part:
            joined[-1].topics.extend(part.topics)
        else:
            joined.append(replace(part, topics=list(part.topics)))
    return joined


def _ask_for(pending: PendingAddPartitionsToTxn, transaction: AddPartitionsToTxnTransaction) -> Steps[None]:
    """Ask in parts, each of which fits into a call."""
    for topic in transaction.topics:
        for first in range(0, len(topic.partitions), _PARTITIONS_PER_CALL):
            some = AddPartitionsToTxnTopic(topic.name, topic.partitions[first : first + _PARTITIONS_PER_CALL])
            pending.add_query(
                transaction.transactional_id, replace(transaction, topics=[some]), 1 + len(some.partitions)
            )
            yield 1 + len(some.partitions)
        yield 1


def _names(topics: list[AddPartitionsToTxnTopic]) -> list[tuple[str, int]]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]
