"""CreateDelegationToken, API key 38, versions 1 to 3 (KIP-48, KIP-373).

- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to a client that is not known, or that has authenticated by a token;
  DELEGATION_TOKEN_AUTHORIZATION_FAILED for another owner without CREATE_TOKENS on it; INVALID_PRINCIPAL_TYPE for a
  renewer that is not a User; DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- The controller sets the times, by `delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`. The answer
  is given when all gateways know the token.
- The HMAC is in the answer, and is not stored.

Deviations: POLICY_VIOLATION for more than 100 renewers, and when there are 10,000 tokens.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.delegation_tokens import AlterDelegationTokenResponse, DelegationTokenCreation
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.request_context import ANONYMOUS, USER, Principal
from barnabas_gateway.core.requests.controller_request import ControllerHandler
from barnabas_gateway.core.requests.token_request import PendingTokenRequest, TokenHandler

_STEPS_OF_SECRET = 500
"""As many elements of a request cost as much as a token's keys, some 5 ms."""


class PendingTokenCreation(PendingTokenRequest):
    __slots__ = ("owner", "secret", "token_id")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.owner = ANONYMOUS
        self.token_id = ""
        self.secret = b""


class CreateDelegationTokenHandler(TokenHandler):
    api_key = ApiKey.CREATE_DELEGATION_TOKEN
    request_class = PendingTokenCreation

    def start(self, pending: PendingTokenCreation, request: CreateDelegationTokenRequest) -> Steps[None]:
        context = pending.connection.context
        requester = pending.owner = context.principal
        if request.owner_principal_name:
            pending.owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
        owner = str(pending.owner)
        refusal = self.refusal(context)
        if refusal is not ErrorCode.NONE:
            pending.refuse(refusal)
        elif pending.owner != requester and not self.authorizer.authorize(
            pending, Operation.CREATE_TOKENS, (ResourceType.USER, owner)
        ):
            pending.refuse(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        elif any(renewer.principal_type != USER for renewer in request.renewers):
            pending.refuse(ErrorCode.INVALID_PRINCIPAL_TYPE)
        elif not self.tokens.is_enabled:
            pending.refuse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        else:
            yield _STEPS_OF_SECRET
            renewers = [str(Principal(each.principal_type, each.principal_name)) for each in request.renewers]
            token, pending.secret = self.tokens.create(owner, str(requester), renewers)
            pending.token_id = token.token_id
            pending.ask(DelegationTokenCreation(token, request.max_lifetime_ms))

    def response_of(
        self, pending: PendingTokenRequest, answer: AlterDelegationTokenResponse
    ) -> CreateDelegationTokenResponse:
        assert isinstance(pending, PendingTokenCreation)
        requester = pending.connection.context.principal
        is_created = answer.error_code == ErrorCode.NONE
        return CreateDelegationTokenResponse(
            answer.error_code,
            principal_type=pending.owner.principal_type,
            principal_name=pending.owner.name,
            token_requester_principal_type=requester.principal_type,
            token_requester_principal_name=requester.name,
            issue_timestamp_ms=answer.issue_timestamp_ms,
            expiry_timestamp_ms=answer.expiry_timestamp_ms,
            max_timestamp_ms=answer.max_timestamp_ms,
            token_id=pending.token_id if is_created else "",
            hmac=pending.secret if is_created else b"",
        )
