"""ExpireDelegationToken, API key 40, versions 1 to 2.

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka says to every connection that has not authenticated itself.

Deviations: none known; listeners are PLAINTEXT.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler


class ExpireDelegationTokenHandler(Handler, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN):
    def start(self, pending: PendingRequest, request: ExpireDelegationTokenRequest) -> None:
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        response = ExpireDelegationTokenResponse(error, expiry_timestamp_ms=-1)
        self.responder.respond(pending, response)
