"""DescribeDelegationToken, API key 41, versions 1 to 3.

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka says to every connection that has not authenticated itself.

Deviations: none known; listeners are PLAINTEXT.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from services.gateway.core.slots import Slot


def start(slot: Slot, request: DescribeDelegationTokenRequest) -> None:
    response = DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    slot.connection.processor.requests.respond(slot, response)
