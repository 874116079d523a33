"""RenewDelegationToken, API key 39, versions 1 to 2.

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka says to every connection that has not authenticated itself.

Deviations: none known; listeners are PLAINTEXT.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler


class RenewDelegationTokenHandler(Handler, api_key=ApiKey.RENEW_DELEGATION_TOKEN):
    def start(self, pending: PendingRequest, request: RenewDelegationTokenRequest) -> None:
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        response = RenewDelegationTokenResponse(error, expiry_timestamp_ms=-1)
        self.responder.respond(pending, response)
