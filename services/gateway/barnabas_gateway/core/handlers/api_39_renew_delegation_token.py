"""RenewDelegationToken, API key 39, versions 1 to 2.

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to a client that has not authenticated, DELEGATION_TOKEN_AUTH_DISABLED to one
  that has: as Kafka without `delegation.token.secret.key`.

Deviations: there are no delegation tokens.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.error_messages import token_error
from barnabas_gateway.core.requests.handler import Handler


class RenewDelegationTokenHandler(Handler):
    api_key = ApiKey.RENEW_DELEGATION_TOKEN

    def start(self, pending: PendingRequest, request: RenewDelegationTokenRequest) -> None:
        error = token_error(pending.connection.context.principal)
        response = RenewDelegationTokenResponse(error, expiry_timestamp_ms=-1)
        self.responder.respond(pending, response)
