"""ExpireDelegationToken, API key 40, versions 1 to 2 (KIP-48).

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to a client that is not known, or that has authenticated by a token;
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- The controller decides: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH to a client that is neither owner
  nor renewer, DELEGATION_TOKEN_EXPIRED. A period below 0 ends the token at once: when this is answered,
  no gateway accepts it. Connections that have authenticated by it stay, as in Kafka, until their sessions end.
"""

from __future__ import annotations

from barnabas.cluster.delegation_tokens import AlterDelegationTokenResponse, DelegationTokenPeriod, hmac_digest
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from barnabas_gateway.core.requests.token_request import PendingTokenRequest, TokenHandler


class ExpireDelegationTokenHandler(TokenHandler):
    api_key = ApiKey.EXPIRE_DELEGATION_TOKEN
    request_class = PendingTokenRequest

    def start(self, pending: PendingTokenRequest, request: ExpireDelegationTokenRequest) -> None:
        context = pending.connection.context
        refusal = self.refusal_or_disabled(context)
        if refusal is ErrorCode.NONE:
            pending.is_expiration = True
            digest = hmac_digest(request.hmac)
            pending.ask(DelegationTokenPeriod(str(context.principal), request.expiry_time_period_ms, digest))
        else:
            pending.refuse(refusal)

    def response_of(
        self, pending: PendingTokenRequest, answer: AlterDelegationTokenResponse
    ) -> ExpireDelegationTokenResponse:
        return ExpireDelegationTokenResponse(answer.error_code, answer.expiry_timestamp_ms)
