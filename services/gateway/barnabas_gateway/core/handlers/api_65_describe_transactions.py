"""DescribeTransactions, API key 65, version 0 (KIP-664).

- Each transactional id's own coordinator is asked, ids of one partition of `__transaction_state` together.
- Topics that the principal may not describe are left out.
- Without a coordinator NOT_COORDINATOR, which clients retry; COORDINATOR_NOT_AVAILABLE if it does not answer.

Deviations: an id named twice is answered once.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupsRequest


class PendingDescribeTransactions(PendingGroupsRequest[str]):
    __slots__ = ("results",)

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: dict[str, TransactionState] = {}
        """By transactional id, in the order of the request."""

    def request_of(self, queries: list[str]) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(queries)

    def fill_results(self, queries: list[str], response: Response) -> None:
        assert isinstance(response, DescribeTransactionsResponse)
        authorizer = self.handler.authorizer
        for state in response.transaction_states:
            state.topics = [
                each
                for each in state.topics
                if authorizer.authorize(self, Operation.DESCRIBE, (ResourceType.TOPIC, each.topic), log_denied=False)
            ]
            self.results[state.transactional_id] = state

    def fail_queries(self, queries: list[str], error: int) -> None:
        for transactional_id in queries:
            self.results[transactional_id] = TransactionState(error, transactional_id)

    def complete(self) -> None:
        response = DescribeTransactionsResponse(transaction_states=list(self.results.values()))
        self.handler.responder.respond(self, response)


class DescribeTransactionsHandler(GroupHandler):
    api_key = ApiKey.DESCRIBE_TRANSACTIONS
    request_class = PendingDescribeTransactions

    def start(self, pending: PendingDescribeTransactions, request: DescribeTransactionsRequest) -> Steps[None]:
        for transactional_id in dict.fromkeys(request.transactional_ids):
            denied = TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id)
            pending.results[transactional_id] = denied
            resource = (ResourceType.TRANSACTIONAL_ID, transactional_id)
            if self.authorizer.authorize(pending, Operation.DESCRIBE, resource):
                pending.add_query(transactional_id, transactional_id, 10)
            yield 1
        pending.send_calls()
