"""SASL on a connection: handshake, tokens, sessions that end (KIP-43, KIP-152, KIP-368; Kafka's
SaslServerAuthenticator).

    BEGIN ──ApiVersions──> HANDSHAKE
    BEGIN, HANDSHAKE ──SaslHandshake v1──> TOKENS ──SaslAuthenticate──> COMPLETE
                     ──SaslHandshake v0──> RAW_TOKENS ──frames without headers──> COMPLETE
    COMPLETE ──`connections.max.reauth.ms`──> EXPIRED
    COMPLETE, EXPIRED ──SaslHandshake──> TOKENS, RAW_TOKENS
    any but COMPLETE and EXPIRED ──time is over──> closed
    any ──a wrong token──> FAILED ──`connection.failed.authentication.delay.ms`──> answered and closed

What a client may send is the set of routes that its connection has in each state: what has no route closes the
connection. The routes of a connection that is complete are those of a connection without SASL, so that a request costs
the same on both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeResponse
from barnabas_gateway.core.connections.connection import Connection, PendingRequest, ResponseKind, Route
from barnabas_gateway.core.connections.connections import Connections
from barnabas_gateway.core.model.config import Listener, SaslConfig
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import LogLevel, Turn
from barnabas_gateway.core.model.request_context import USER, Principal
from barnabas_gateway.core.requests.blocking_tokens import BlockingTokens
from barnabas_gateway.core.requests.costly_tokens import CostlyTokens
from barnabas_gateway.core.requests.handler import RequestEnvironment
from barnabas_gateway.core.sasl.sasl_server import SaslFailure, SaslServer, TokenCost

REAUTHENTICATION_MS_MIN: Final = 1_000
"""A connection may authenticate again once in so long (`KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS`)."""
_FRAME_BYTES_BEFORE_TOKENS: Final = 16 << 10
"""Enough for ApiVersions and SaslHandshake. Tokens may have `sasl.server.max.receive.size`."""

CreateServer = Callable[[SaslConfig, str], SaslServer]
_Responded = Callable[[], bytes]
"""Returns a server's answer to a token. Raises SaslFailure."""


class _State(Enum):
    BEGIN = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    RAW_TOKENS = auto()
    COMPLETE = auto()
    EXPIRED = auto()
    FAILED = auto()


_API_KEYS: Final = {
    _State.BEGIN: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    _State.HANDSHAKE: (ApiKey.SASL_HANDSHAKE,),
    # A handshake here is answered ILLEGAL_SASL_STATE.
    _State.TOKENS: (ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE),
    _State.RAW_TOKENS: (),
    _State.EXPIRED: (ApiKey.SASL_HANDSHAKE,),
    _State.FAILED: (),
}
_REFUSALS: Final = {_State.EXPIRED: "its session has expired, and it has not authenticated again"}


class Outcome(Enum):
    """How an authentication can end; the labels of the metric."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"


class SaslAuthentications:
    """Begins the authentication of the connections of a processor, and counts how they end."""

    __slots__ = (
        "blocking_tokens",
        "connections",
        "costly_tokens",
        "counts",
        "create_server",
        "environment",
        "log_lines",
        "routes_by_state",
        "wall_ms",
    )

    def __init__(
        self,
        environment: RequestEnvironment,
        connections: Connections,
        log_lines: LogLineBuffer,
        routes: Mapping[int, Route],
        create_server: CreateServer,
        wall_ms: Callable[[], int],
        turn: Turn,
    ) -> None:
        """`routes`: of connections that need not authenticate. `create_server` begins an exchange of a mechanism.
        `wall_ms` is the clock by which tokens expire. Tokens that may block are outputs of `turn`.
        """
        self.environment = environment
        self.connections = connections
        self.log_lines = log_lines
        self.create_server = create_server
        self.wall_ms = wall_ms
        self.costly_tokens = CostlyTokens(environment.clock, environment.deadlines)
        self.blocking_tokens = BlockingTokens(turn)
        self.routes_by_state: dict[_State, Mapping[int, Route]] = {_State.COMPLETE: routes}
        for state, api_keys in _API_KEYS.items():
            self.routes_by_state[state] = {key: route for key, route in routes.items() if key >> 16 in api_keys}
        self.counts: Counter[tuple[str, str, Outcome]] = Counter()
        """By listener, mechanism (empty: none was chosen) and outcome."""

    def begin(self, connection: Connection) -> None:
        """Called for each connection, before its first request."""
        listener = self.environment.config.listeners_by_name.get(connection.context.listener)
        if listener is None or listener.sasl is None:
            connection.routes = self.routes_by_state[_State.COMPLETE]
        else:
            connection.authentication = SaslAuthentication(self, connection, listener, listener.sasl)
            self.connections.unauthenticated[connection] = None


class SaslAuthentication:
    """The authentication of one connection of a SASL listener."""

    __slots__ = (
        "_began_ms",
        "_connection",
        "_failed",
        "_is_checking",
        "_listener",
        "_mechanism",
        "_owner",
        "_problem",
        "_sasl",
        "_server",
        "_session_ms",
        "_state",
        "deadline_bucket",
    )

    def __init__(
        self, owner: SaslAuthentications, connection: Connection, listener: Listener, sasl: SaslConfig
    ) -> None:
        self._owner = owner
        self._connection = connection
        self._listener = listener
        self._sasl = sasl
        self._server: SaslServer | None = None
        self._mechanism = ""
        """That of the exchange; it stays the same for as long as the connection lives."""
        self._is_checking = False
        """Whether a token waits for its check. Of tokens without headers the next one could come meanwhile."""
        self._problem = ""
        """What makes the exchange fail at its next token, though its handshake was answered."""
        self._session_ms = 0
        """How long the session lasts that began last; 0: as long as the connection."""
        self._began_ms = -REAUTHENTICATION_MS_MIN
        """When it last began again."""
        self._failed: tuple[PendingRequest, Response] | None = None
        """The request that is answered when the delay is over, and the answer."""
        self.deadline_bucket = -1
        self._state = _State.BEGIN
        self._enter(_State.BEGIN)
        self._limit_time()

    # --- what the client sends ---

    def versions_answered(self) -> None:
        """ApiVersions was answered with the versions: what follows is the handshake."""
        if self._state is _State.BEGIN:
            self._enter(_State.HANDSHAKE)

    def handshake(self, pending: PendingRequest, mechanism: str) -> None:
        """Answer SaslHandshake."""
        is_again = self._state in (_State.COMPLETE, _State.EXPIRED)
        now_ms = self._owner.environment.clock.now_ms
        mechanisms = list(self._sasl.mechanisms)
        if self._state is _State.TOKENS:
            response = SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
            self._fail(pending, response, "a handshake within an exchange")
        elif is_again and now_ms - self._began_ms < REAUTHENTICATION_MS_MIN:
            self._respond(pending, SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
        elif mechanism not in mechanisms:
            response = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms)
            self._fail(pending, response, "a mechanism that is not enabled")
        else:
            if is_again:
                self._began_ms = now_ms
                self._limit_time()
                if mechanism != self._mechanism:
                    self._problem = (
                        f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                        f"mechanism '{self._mechanism}'"
                    )
            self._mechanism = mechanism
            self._server = self._owner.create_server(self._sasl, mechanism)
            self._enter(_State.RAW_TOKENS if pending.header.api_version == 0 else _State.TOKENS)
            self._respond(pending, SaslHandshakeResponse(ErrorCode.NONE, mechanisms))

    def token_received(self, pending: PendingRequest, token: bytes) -> None:
        """Answer SaslAuthenticate."""
        if self._state is not _State.TOKENS:
            response = SaslAuthenticateResponse(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
            )
            self._respond(pending, response)
            return
        self._check(token, lambda responded: self._answer_token(pending, responded))

    def _answer_token(self, pending: PendingRequest, responded: _Responded) -> None:
        try:
            answer = self._next_answer(responded)
        except SaslFailure as failure:
            if failure.is_retriable:
                self._fail(None, None, str(failure))
                return
            message = failure.message or self._standard_message()
            response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
            self._fail(pending, response, str(failure))
            return
        lifetime_ms = self._session_ms if self.is_complete else 0
        self._respond(pending, SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms))

    def frame_without_route(self, frame: memoryview) -> bool:
        """Return whether this frame was a token: after a handshake v0 they have no header."""
        if self._state is not _State.RAW_TOKENS:
            return False
        if self._is_checking:
            self._fail(None, None, "a token before the last one was answered")
        else:
            self._check(bytes(frame), self._answer_raw_token)
        return True

    def _answer_raw_token(self, responded: _Responded) -> None:
        try:
            answer = self._next_answer(responded)
        except SaslFailure as failure:
            self._fail(None, None, str(failure))
        else:
            self._owner.connections.write_answer(self._connection, [len(answer).to_bytes(4, "big"), answer])

    def _check(self, token: bytes, answer: Callable[[_Responded], None]) -> None:
        """Have the token answered: now, when it is its turn, or on the host's worker."""
        server = self._server
        assert server is not None, "a handshake comes first"
        respond = partial(server.respond, token)
        if self._problem or server.token_cost is TokenCost.SMALL:
            answer(respond)
            return
        self._is_checking = True

        def checked(responded: _Responded) -> None:
            self._is_checking = False
            if self._connection.is_closed or self._state not in (_State.TOKENS, _State.RAW_TOKENS):
                return
            try:
                answer(responded)
            except Exception as error:
                # The turn that answers it is not the one that has read it: nothing there is this connection's.
                self._connection.failed(error)

        if server.token_cost is TokenCost.LARGE:
            self._owner.costly_tokens.submit(partial(checked, respond))
        else:
            self._owner.blocking_tokens.submit(server, token, self._connection, checked)

    def refusal(self, header: RequestHeader) -> str | None:
        """Return why a request is refused that would be served once the client is authenticated; None: it would not."""
        if self._state is _State.COMPLETE:
            return None
        if self._state is _State.BEGIN and header.api_key == ApiKey.API_VERSIONS:
            return None  # a version that is not served: the client is to hear which are
        return _REFUSALS.get(self._state, "it has not authenticated")

    @property
    def is_complete(self) -> bool:
        """Whether the client has authenticated, however long ago."""
        return self._state in (_State.COMPLETE, _State.EXPIRED)

    # --- how it goes on ---

    def _next_answer(self, responded: _Responded) -> bytes:
        """Raises SaslFailure."""
        assert self._server is not None, "a handshake comes first"
        if self._problem:
            raise SaslFailure("another mechanism than before", self._problem)
        answer = responded()
        if self._server.user is not None:
            self._succeed(self._server, Principal(USER, self._server.user))
        return answer

    def _succeed(self, server: SaslServer, principal: Principal) -> None:
        connection, owner = self._connection, self._owner
        before = connection.context.principal
        if connection.is_authenticated and before != principal:
            raise SaslFailure(
                "another user than before",
                f"Cannot change principals during re-authentication from {before.principal_type}.{before.name}: "
                f"{principal.principal_type}.{principal.name}",
            )
        connection.context = replace(
            connection.context, principal=principal, is_token_authenticated=server.is_token_authenticated
        )
        connection.is_authenticated = True
        owner.connections.unauthenticated.pop(connection, None)
        self._server = None
        self._enter(_State.COMPLETE)
        session_ms = self._session_ms = self._lifetime_ms(server)
        if session_ms:
            deadlines = owner.environment.deadlines
            deadlines.schedule(self, owner.environment.clock.now_ms + session_ms)
        else:
            owner.environment.deadlines.unschedule(self)
        self._count(Outcome.SUCCEEDED)
        fields: dict[str, str | int] = {"mechanism": self._mechanism, "session_ms": session_ms}
        owner.log_lines.add_line(LogLevel.INFO, "authenticated", connection.context, None, fields, is_audited=True)

    def _fail(self, pending: PendingRequest | None, response: Response | None, reason: str) -> None:
        """Answer and close the connection after the delay; until then it is not read (KIP-306)."""
        owner = self._owner
        claimed = self._server.claimed_user if self._server is not None else ""
        fields: dict[str, str | int] = {"mechanism": self._mechanism, "user": claimed[:256], "reason": reason}
        fields["limit_key"] = f"authentication failed: {self._connection.context.address}"
        self._record("authentication failed", fields)
        self._count(Outcome.FAILED)
        self._server = None
        if pending is not None and response is not None:
            self._failed = pending, response
        self._enter(_State.FAILED)
        delay_ms = owner.environment.config.failed_authentication_delay_ms
        if delay_ms:
            owner.environment.responder.steer(self._connection, ResponseKind.START_THROTTLING)
            owner.environment.deadlines.schedule(self, owner.environment.clock.now_ms + delay_ms)
        else:
            self._answer_and_close()

    def failed(self, error: Exception) -> None:
        self._connection.failed(error)

    def expire(self, now_ms: int) -> None:
        """The delay, the session, or the time to authenticate is over."""
        owner = self._owner
        match self._state:
            case _State.FAILED:
                self._answer_and_close()
            case _State.COMPLETE:
                self._enter(_State.EXPIRED)
            case _:
                self._count(Outcome.TIMED_OUT)
                event = "connection closed: it has not authenticated in time"
                self._record(event, {"limit_key": f"authentication timed out: {self._connection.context.address}"})
                owner.connections.abort_connection(self._connection)

    def _answer_and_close(self) -> None:
        if self._failed is not None:
            self._owner.environment.responder.respond(*self._failed)
        if not self._connection.is_closed:
            self._owner.connections.close_connection(self._connection)

    def _enter(self, state: _State) -> None:
        connection = self._connection
        self._state = state
        connection.routes = self._owner.routes_by_state[state]
        config = self._owner.environment.config
        match state:
            case _State.BEGIN:
                connection.splitter.frame_bytes_max = _FRAME_BYTES_BEFORE_TOKENS
            case _State.TOKENS | _State.RAW_TOKENS if not connection.is_authenticated:
                connection.splitter.frame_bytes_max = self._sasl.receive_bytes_max
            case _State.COMPLETE:
                connection.splitter.frame_bytes_max = config.socket_request_bytes_max
            case _:
                pass

    def _limit_time(self) -> None:
        environment = self._owner.environment
        environment.deadlines.schedule(self, environment.clock.now_ms + environment.config.authentication_ms_max)

    def _lifetime_ms(self, server: SaslServer) -> int:
        """Return how long the session lasts: no longer than what the client has proven (KIP-368). 0: no end."""
        limit_ms = self._sasl.reauthentication_ms_by_mechanism.get(self._mechanism, 0)
        if server.expires_ms is None:
            return limit_ms
        left_ms = max(1, server.expires_ms - self._owner.wall_ms())
        return min(left_ms, limit_ms) if limit_ms else left_ms

    def _standard_message(self) -> str:
        which = "re-authentication" if self._connection.is_authenticated else "authentication"
        return f"Authentication failed during {which} due to invalid credentials with SASL mechanism {self._mechanism}"

    def _respond(self, pending: PendingRequest, response: Response) -> None:
        self._owner.environment.responder.respond(pending, response)

    def _record(self, event: str, fields: dict[str, str | int]) -> None:
        context = self._connection.context
        self._owner.log_lines.add_line(LogLevel.WARNING, event, context, None, fields, is_audited=True)

    def _count(self, outcome: Outcome) -> None:
        self._owner.counts[self._listener.name, self._mechanism, outcome] += 1
