"""DescribeDelegationToken, API key 41, versions 1 to 3.

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka says to every connection that has not authenticated itself.

Deviations: none known; listeners are PLAINTEXT.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler


class DescribeDelegationTokenHandler(Handler, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN):
    def start(self, pending: PendingRequest, request: DescribeDelegationTokenRequest) -> None:
        response = DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        self.responder.respond(pending, response)
