"""Requests for delegation tokens (KIP-48): who may make them at all, and those that the controller decides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from barnabas.cluster.delegation_tokens import (
    AlterDelegationTokenRequest,
    AlterDelegationTokenResponse,
    DelegationTokenCreation,
    DelegationTokenPeriod,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas_gateway.core.backends.controller_client import ControllerClient
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.model.request_context import ANONYMOUS, RequestContext
from barnabas_gateway.core.requests.config_alterations import TIMEOUT_MS
from barnabas_gateway.core.requests.controller_request import ControllerHandler, PendingControllerRequest
from barnabas_gateway.core.requests.handler import RequestEnvironment
from barnabas_gateway.core.sasl.delegation_tokens import DelegationTokens


class TokenHandler(ControllerHandler):
    """Serves an API of delegation tokens."""

    def __init__(self, environment: RequestEnvironment, controller: ControllerClient, tokens: DelegationTokens) -> None:
        super().__init__(environment, controller)
        self.tokens = tokens

    def refusal(self, context: RequestContext) -> ErrorCode:
        """Return why no request for tokens is served, as Kafka's `KafkaApis.allowTokenRequests`; NONE: it is.

        A client that is not known, or that has authenticated by a token itself, gets none.
        """
        listener = self.config.listeners_by_name.get(context.listener)
        has_sasl = listener is not None and listener.sasl is not None
        if context.is_token_authenticated or (context.principal == ANONYMOUS and not has_sasl):
            return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ErrorCode.NONE

    def refusal_or_disabled(self, context: RequestContext) -> ErrorCode:
        """As `refusal`, or that this gateway has no secret key for tokens."""
        refusal = self.refusal(context)
        if refusal is ErrorCode.NONE and not self.tokens.is_enabled:
            return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return refusal

    @abstractmethod
    def response_of(self, pending: PendingTokenRequest, answer: AlterDelegationTokenResponse) -> Response:
        """Return the response for the controller's answer, or for a refusal."""


class PendingTokenRequest(PendingControllerRequest[DelegationTokenCreation | DelegationTokenPeriod]):
    """It has one query, and the handler says what it is for."""

    __slots__ = ("_answer", "is_expiration")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.is_expiration = False
        self._answer = AlterDelegationTokenResponse(ErrorCode.REQUEST_TIMED_OUT)

    def ask(self, query: DelegationTokenCreation | DelegationTokenPeriod) -> None:
        """Have the controller decide."""
        self.add_query(query)
        self.send_calls(TIMEOUT_MS)

    def refuse(self, error_code: ErrorCode) -> None:
        """Respond without the controller."""
        self._answer = AlterDelegationTokenResponse(error_code)
        self.complete()

    def request_of(
        self, queries: Sequence[DelegationTokenCreation | DelegationTokenPeriod], timeout_ms: int
    ) -> AlterDelegationTokenRequest:
        (query,) = queries
        if isinstance(query, DelegationTokenCreation):
            return AlterDelegationTokenRequest(query, None, None, timeout_ms)
        if self.is_expiration:
            return AlterDelegationTokenRequest(None, None, query, timeout_ms)
        return AlterDelegationTokenRequest(None, query, None, timeout_ms)

    def fill_results(
        self, queries: Sequence[DelegationTokenCreation | DelegationTokenPeriod], answer: ControllerAnswer
    ) -> int:
        assert isinstance(answer, AlterDelegationTokenResponse)
        self._answer = answer
        return answer.revision

    def complete(self) -> None:
        handler = self.handler
        assert isinstance(handler, TokenHandler)
        handler.responder.respond(self, handler.response_of(self, self._answer))
