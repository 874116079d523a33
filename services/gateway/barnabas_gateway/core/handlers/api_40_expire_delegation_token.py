"""ExpireDelegationToken, API key 40, versions 1 to 2.

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to a client that has not authenticated, DELEGATION_TOKEN_AUTH_DISABLED to one
  that has: as Kafka without `delegation.token.secret.key`.

Deviations: there are no delegation tokens.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.error_messages import token_error
from barnabas_gateway.core.requests.handler import Handler


class ExpireDelegationTokenHandler(Handler):
    api_key = ApiKey.EXPIRE_DELEGATION_TOKEN

    def start(self, pending: PendingRequest, request: ExpireDelegationTokenRequest) -> None:
        error = token_error(pending.connection.context.principal)
        response = ExpireDelegationTokenResponse(error, expiry_timestamp_ms=-1)
        self.responder.respond(pending, response)
