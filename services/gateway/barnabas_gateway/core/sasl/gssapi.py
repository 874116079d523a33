"""GSSAPI (RFC 4752), the server's side, with the answers of Java's GssKrb5Server.

    CONTEXT ──tokens of Kerberos──> established ──its last token is sent──> LAST_ANSWER ──an empty token──> LAYERS
                                                └─there is none─> LAYERS
    LAYERS ──the client's choice, wrapped──> it is the user of its ticket

The one security layer that is offered is none, with a buffer of 0 bytes: TLS encrypts. The client is the principal of
its ticket, and the user that rules make of it. An authorization id has no effect, as in Kafka: python clients send the
name of the service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, Protocol, TypeAlias

from barnabas_gateway.core.model.config import KerberosConfig
from barnabas_gateway.core.model.kerberos_names import ShortNameRule, short_name
from barnabas_gateway.core.sasl.sasl_server import SaslFailure, TokenCost

TOKEN_BYTES_MAX: Final = 64 << 10
"""Of Kerberos, with the groups of a user in Active Directory (48,000 bytes, `MaxTokenSize`)."""
_CONTEXT_TOKENS_MAX: Final = 4
"""Kerberos needs one."""
_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""The layers that are offered, as bits, and the largest wrapped message that is accepted, 0 without a layer."""


class SecurityContextError(Exception):
    """A token is not valid, or the client's ticket is not. The message has no secret in it."""

    def __init__(self, reason: str, *, is_retriable: bool = False) -> None:
        """`is_retriable`: a ticket that is not valid yet, or a token that was seen before, which two processes of one
        client may send by accident (Kafka's KerberosError).
        """
        super().__init__(reason)
        self.is_retriable = is_retriable


class SecurityContext(Protocol):
    """A security context of Kerberos, the acceptor's side (RFC 2743). Its calls may block, and raise
    SecurityContextError.
    """

    @property
    def is_established(self) -> bool: ...

    @property
    def default_realm(self) -> str: ...

    def accept(self, token: bytes) -> bytes:
        """Return the token for the client; empty: there is none."""

    def initiator(self) -> str:
        """Return the client's principal."""

    def expires_ms(self) -> int | None:
        """Return when its ticket ends (ms of the wall clock); None: never."""

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


BeginContext: TypeAlias = Callable[[KerberosConfig], SecurityContext]


def without_kerberos(kerberos: KerberosConfig) -> SecurityContext:
    """Begin no context: no listener has enabled GSSAPI."""
    raise AssertionError(f"GSSAPI as {kerberos.principal}, which no listener has enabled")


class _State(Enum):
    CONTEXT = auto()
    LAST_ANSWER = auto()
    LAYERS = auto()


class GssapiServer:
    __slots__ = (
        "_context",
        "_context_tokens",
        "_is_limited",
        "_rules",
        "_state",
        "claimed_user",
        "expires_ms",
        "user",
    )

    token_cost = TokenCost.BLOCKING
    is_token_authenticated = False
    """Kafka means delegation tokens by it."""

    def __init__(self, context: SecurityContext, rules: Sequence[ShortNameRule], *, is_limited: bool) -> None:
        """`is_limited`: the session ends with the client's ticket."""
        self._context = context
        self._rules = rules
        self._is_limited = is_limited
        self._state = _State.CONTEXT
        self._context_tokens = 0
        self.claimed_user = ""
        self.user: str | None = None
        self.expires_ms: int | None = None

    def respond(self, token: bytes) -> bytes:
        """Return the next token; the last one is empty. Raises SaslFailure."""
        if len(token) > TOKEN_BYTES_MAX:
            raise SaslFailure(f"a token of {len(token)} bytes, more than {TOKEN_BYTES_MAX}")
        try:
            match self._state:
                case _State.CONTEXT:
                    return self._accept(token)
                case _State.LAST_ANSWER if token:
                    raise SaslFailure("a token where an empty one is expected")
                case _State.LAST_ANSWER:
                    return self._offer()
                case _State.LAYERS:
                    return self._choice(token)
        except SecurityContextError as error:
            raise SaslFailure(str(error), is_retriable=error.is_retriable) from None

    def _accept(self, token: bytes) -> bytes:
        self._context_tokens += 1
        if not token:
            raise SaslFailure("an empty token where one of Kerberos is expected")
        if self._context_tokens > _CONTEXT_TOKENS_MAX:
            raise SaslFailure("too many tokens without a context")
        answer = self._context.accept(token)
        if not self._context.is_established:
            return answer
        self.claimed_user = self._context.initiator()
        if answer:
            self._state = _State.LAST_ANSWER
            return answer
        return self._offer()

    def _offer(self) -> bytes:
        self._state = _State.LAYERS
        return self._context.wrap(_OFFER)

    def _choice(self, token: bytes) -> bytes:
        choice = self._context.unwrap(token)
        if len(choice) < len(_OFFER):
            raise SaslFailure("a choice of a security layer that is too short")
        if choice[0] != _NO_LAYER:
            raise SaslFailure(f"a security layer that is not offered: {choice[0]}")
        if "\\" in self.claimed_user:
            raise SaslFailure("a principal with / or @ within a component")
        try:
            user = short_name(self._rules, self.claimed_user, self._context.default_realm)
        except ValueError as error:
            raise SaslFailure(f"{self.claimed_user} is no user: {error}") from None
        if self._is_limited:
            self.expires_ms = self._context.expires_ms()
        self.user = user
        return b""
