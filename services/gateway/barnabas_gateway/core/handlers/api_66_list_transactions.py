"""ListTransactions, API key 66, versions 0 to 2 (KIP-664, KIP-994, KIP-1152).

- There are no transactions, under any filter. States that Kafka does not know are returned as unknown.

Deviations: `transactional_id_pattern` (v2) is not checked, because there is nothing to match.
"""

from __future__ import annotations

from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler

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


class ListTransactionsHandler(Handler):
    api_key = ApiKey.LIST_TRANSACTIONS

    def start(self, pending: PendingRequest, request: ListTransactionsRequest) -> Steps[None]:
        """No authorization is needed: Kafka returns only what a principal may describe."""
        unknown: dict[str, None] = {}
        for name in request.state_filters:
            if name not in _STATES:
                unknown[name] = None
            yield 1
        response = ListTransactionsResponse(unknown_state_filters=list(unknown))
        self.responder.respond(pending, response)
