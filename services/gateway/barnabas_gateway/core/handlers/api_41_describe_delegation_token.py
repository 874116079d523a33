"""DescribeDelegationToken, API key 41, versions 1 to 3.

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to a client that has not authenticated, DELEGATION_TOKEN_AUTH_DISABLED to one
  that has: as Kafka without `delegation.token.secret.key`.

Deviations: there are no delegation tokens.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.error_messages import token_error
from barnabas_gateway.core.requests.handler import Handler


class DescribeDelegationTokenHandler(Handler):
    api_key = ApiKey.DESCRIBE_DELEGATION_TOKEN

    def start(self, pending: PendingRequest, request: DescribeDelegationTokenRequest) -> None:
        response = DescribeDelegationTokenResponse(token_error(pending.connection.context.principal))
        self.responder.respond(pending, response)
