"""CreateDelegationToken, API key 38, versions 1 to 3.

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to a client that has not authenticated, DELEGATION_TOKEN_AUTH_DISABLED to one
  that has: as Kafka without `delegation.token.secret.key`.

Deviations: there are no delegation tokens.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.model.error_messages import token_error
from barnabas_gateway.core.requests.handler import Handler

_NO_TIME = -1


class CreateDelegationTokenHandler(Handler):
    api_key = ApiKey.CREATE_DELEGATION_TOKEN

    def start(self, pending: PendingRequest, request: CreateDelegationTokenRequest) -> None:
        requester_type, requester = pending.connection.context.principal
        owner_type, owner = requester_type, requester
        if request.owner_principal_name:
            owner_type, owner = request.owner_principal_type or "", request.owner_principal_name
        response = CreateDelegationTokenResponse(
            token_error(pending.connection.context.principal),
            principal_type=owner_type,
            principal_name=owner,
            token_requester_principal_type=requester_type,
            token_requester_principal_name=requester,
            issue_timestamp_ms=_NO_TIME,
            expiry_timestamp_ms=_NO_TIME,
            max_timestamp_ms=_NO_TIME,
        )
        self.responder.respond(pending, response)
