"""RenewDelegationToken, API key 39, versions 1 to 2 (KIP-48).

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to a client that is not known, or that has authenticated by a token;
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- The controller decides: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH to a
  client that is neither owner nor renewer. A token lives for another `delegation.token.expiry.time.ms` at most, and
  never longer than its whole lifetime.
"""

from __future__ import annotations

from barnabas.cluster.delegation_tokens import AlterDelegationTokenResponse, DelegationTokenPeriod, hmac_digest
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from barnabas_gateway.core.requests.token_request import PendingTokenRequest, TokenHandler


class RenewDelegationTokenHandler(TokenHandler):
    api_key = ApiKey.RENEW_DELEGATION_TOKEN
    request_class = PendingTokenRequest

    def start(self, pending: PendingTokenRequest, request: RenewDelegationTokenRequest) -> None:
        context = pending.connection.context
        refusal = self.refusal_or_disabled(context)
        if refusal is ErrorCode.NONE:
            digest = hmac_digest(request.hmac)
            pending.ask(DelegationTokenPeriod(str(context.principal), request.renew_period_ms, digest))
        else:
            pending.refuse(refusal)

    def response_of(
        self, pending: PendingTokenRequest, answer: AlterDelegationTokenResponse
    ) -> RenewDelegationTokenResponse:
        return RenewDelegationTokenResponse(answer.error_code, answer.expiry_timestamp_ms)
