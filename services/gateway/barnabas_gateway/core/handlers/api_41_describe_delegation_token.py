"""DescribeDelegationToken, API key 41, versions 1 to 3 (KIP-48, KIP-373).

- Tokens with their HMACs, of the owners that are asked for or of all: those that the client owns, requested or may
  renew, and others with DESCRIBE on the token or DESCRIBE_TOKENS on its owner.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to a client that is not known, or that has authenticated by a token;
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.

Deviations: a token that was made with another secret key is not described.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.delegation_tokens import AlterDelegationTokenResponse, DelegationToken
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.model.request_context import Principal
from barnabas_gateway.core.requests.token_request import PendingTokenRequest, TokenHandler


class DescribeDelegationTokenHandler(TokenHandler):
    api_key = ApiKey.DESCRIBE_DELEGATION_TOKEN
    request_class = PendingTokenRequest

    def start(self, pending: PendingTokenRequest, request: DescribeDelegationTokenRequest) -> Steps[None]:
        refusal = self.refusal_or_disabled(pending.connection.context)
        if refusal is not ErrorCode.NONE:
            pending.refuse(refusal)
            return
        owners = None
        if request.owners is not None:
            owners = {str(Principal(each.principal_type, each.principal_name)) for each in request.owners}
            yield len(owners)
        response = DescribeDelegationTokenResponse()
        for token, secret in self.tokens.known():
            names = {token.owner, token.requester, *token.renewers}
            is_meant = owners is None or not owners.isdisjoint(names)
            if is_meant and secret is not None and self._may_see(pending, token):
                response.tokens.append(_described(token, secret))
            yield 1
        self.responder.respond(pending, response)

    def _may_see(self, pending: PendingTokenRequest, token: DelegationToken) -> bool:
        if token.concerns(str(pending.connection.context.principal)):
            return True
        of_token = (ResourceType.DELEGATION_TOKEN, token.token_id)
        of_owner = (ResourceType.USER, token.owner)
        return self.authorizer.authorize(
            pending, Operation.DESCRIBE, of_token, log_denied=False
        ) or self.authorizer.authorize(pending, Operation.DESCRIBE_TOKENS, of_owner, log_denied=False)

    def response_of(
        self, pending: PendingTokenRequest, answer: AlterDelegationTokenResponse
    ) -> DescribeDelegationTokenResponse:
        return DescribeDelegationTokenResponse(answer.error_code)


def _described(token: DelegationToken, secret: bytes) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    renewers = [DescribedDelegationTokenRenewer(*each.split(":", 1)) for each in token.renewers]
    return DescribedDelegationToken(
        owner_type,
        owner,
        requester_type,
        requester,
        token.issue_timestamp_ms,
        token.expiry_timestamp_ms,
        token.max_timestamp_ms,
        token.token_id,
        secret,
        renewers,
    )
