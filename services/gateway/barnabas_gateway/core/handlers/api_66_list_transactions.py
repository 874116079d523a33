"""ListTransactions, API key 66, versions 0 to 2 (KIP-664, KIP-994, KIP-1152).

- A client that came to a broker's own port gets the transactions that this broker coordinates, any other those of all
  brokers, as with ListGroups. The coordinators apply the filters of states, producers and duration. States that Kafka
  does not know are returned.
- The whole of a transactional id has to match `transactional_id_pattern` (v2), in RE2's syntax; an empty one is no
  filter. The gateway matches what the coordinators return, on a worker. What is no pattern is
  INVALID_REGULAR_EXPRESSION.
- A coordinator that loads its transactions is COORDINATOR_LOAD_IN_PROGRESS, one that can't be asked
  COORDINATOR_NOT_AVAILABLE, both for the whole answer.
- A principal gets the transactional ids that it may describe.

Deviations: a pattern is bounded in its length (`PATTERN_CHARACTERS_MAX`) and in the memory of its program; RE2 and
RE2/J, which Kafka has, refuse different ones of some odd patterns (`{*`, an escaped letter that is not of ASCII).
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient
from barnabas_gateway.core.backends.group_routing import GroupRouting
from barnabas_gateway.core.backends.pattern_matcher import NAMES_PER_MATCHING, PatternMatcher, PatternMatching
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.core.requests.group_request import (
    GROUP_CALL_ELEMENTS_MAX,
    GroupHandler,
    PendingGroupsRequest,
)
from barnabas_gateway.core.requests.handler import RequestEnvironment

_STATES: Final = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    )
)
_CALL_VERSION: Final = 1


class PendingListTransactions(PendingGroupsRequest[ListTransactionsRequest]):
    __slots__ = ("_candidates", "_matcher", "pattern", "response", "states")

    def __init__(
        self, handler: ListTransactionsHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._matcher = handler.matcher
        self.call_version = _CALL_VERSION
        self.response = ListTransactionsResponse()
        self.states: list[TransactionState] = []
        """What the coordinators have returned; once that is complete, what of it matches the pattern."""
        self.pattern = ""
        """The pattern of the ids; empty: all match."""
        self._candidates: list[TransactionState] = []
        """What is to be matched, in reverse order."""

    def request_of(self, queries: list[ListTransactionsRequest]) -> ListTransactionsRequest:
        (query,) = queries
        return query

    def fill_results(self, queries: list[ListTransactionsRequest], response: Response) -> None:
        assert isinstance(response, ListTransactionsResponse)
        self.states += response.transaction_states

    def fail_queries(self, queries: list[ListTransactionsRequest], error: int) -> None:
        is_loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.response.error_code = error if is_loading else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def complete(self) -> None:
        self.handler.deadlines.unschedule(self)
        if self.pattern and not self.response.error_code:
            self._candidates, self.states = self.states[::-1], []
            self._match()
        else:
            self.handler.responder.begin_steps(self, self._respond())

    def _match(self) -> None:
        names = [state.transactional_id for state in self._candidates[: -NAMES_PER_MATCHING - 1 : -1]]
        self._matcher.match(self, self.pattern, names)

    def failed_in_worker(self, fault: str) -> None:
        self.handler.responder.failed_in_worker(self, fault)

    def pattern_matched(self, matching: PatternMatching) -> None:
        """Keep what matches of these ids, and go on with the next ones."""
        if self.connection.is_closed:
            return
        if not matching.is_valid:
            self.response = ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
            self._candidates.clear()
        for matches in matching.outcomes:
            state = self._candidates.pop()
            if matches:
                self.states.append(state)
        if self._candidates:
            self._match()
        else:
            self.handler.responder.begin_steps(self, self._respond())

    def _respond(self) -> Steps[None]:
        if not self.response.error_code:
            authorizer = self.handler.authorizer
            for state in self.states:
                resource = (ResourceType.TRANSACTIONAL_ID, state.transactional_id)
                if authorizer.authorize(self, Operation.DESCRIBE, resource, log_denied=False):
                    self.response.transaction_states.append(state)
                yield 1
        self.handler.responder.respond(self, self.response)


class ListTransactionsHandler(GroupHandler):
    api_key = ApiKey.LIST_TRANSACTIONS
    request_class = PendingListTransactions

    def __init__(
        self,
        environment: RequestEnvironment,
        coordinators: CoordinatorClient,
        group_routing: GroupRouting,
        matcher: PatternMatcher,
    ) -> None:
        super().__init__(environment, coordinators, group_routing)
        self.matcher = matcher

    def start(self, pending: PendingListTransactions, request: ListTransactionsRequest) -> Steps[None]:
        """No authorization is needed: Kafka returns only what a principal may describe."""
        names: dict[str, None] = {}
        for name in request.state_filters:
            names[name] = None
            yield 1
        pending.response.unknown_state_filters = [name for name in names if name not in _STATES]
        pending.pattern = request.transactional_id_pattern or ""
        known = [name for name in names if name in _STATES]
        producers = list(dict.fromkeys(request.producer_id_filters))
        if names and not known:
            pending.complete()
            return
        asked_node = pending.connection.context.node_id
        nodes = list(self.image.brokers) if asked_node == ANY_NODE else [asked_node]
        parts = range(0, max(1, len(producers)), GROUP_CALL_ELEMENTS_MAX)
        for node_id in nodes:
            for first in parts:
                some = producers[first : first + GROUP_CALL_ELEMENTS_MAX]
                asked = ListTransactionsRequest(known, some, request.duration_filter)
                pending.add_query_at(node_id, 0, asked, GROUP_CALL_ELEMENTS_MAX)
            yield 1
        pending.send_calls()
