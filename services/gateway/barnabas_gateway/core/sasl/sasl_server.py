"""The server's side of a SASL exchange, whatever the mechanism: tokens in, tokens out, and in the end who it was."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, Protocol

from barnabas.cluster.scram import MECHANISMS_BY_NAME

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = (PLAIN, *MECHANISMS_BY_NAME, OAUTHBEARER, GSSAPI)
"""The mechanisms that a listener may have enabled, by the names that Kafka and IANA give them."""


class TokenCost(Enum):
    """What it takes to answer one token, and so where it is answered."""

    SMALL = auto()
    """Microseconds: at once."""
    LARGE = auto()
    """More than a tenth of a millisecond: a few in each turn of the loop."""
    BLOCKING = auto()
    """It may wait for files or for the network: on the host's worker."""


class SaslFailure(Exception):  # noqa: N818 - it is the outcome of an exchange, not of a call
    """The client is not who it claims to be, or does not speak the mechanism: the exchange is over."""

    def __init__(self, reason: str, message: str = "", *, is_retriable: bool = False) -> None:
        """`reason` is for the log; `message` is for the client: empty for Kafka's standard message, which says nothing
        of the reason. Neither has a secret in it. `is_retriable`: the same client may well get in when it tries again,
        so that its connection is closed without an answer, which a client would take for final.
        """
        super().__init__(reason)
        self.message = message
        self.is_retriable = is_retriable


class SaslServer(Protocol):
    """One exchange. `respond` is not called again after it has raised, or once `user` is known."""

    @property
    def user(self) -> str | None:
        """The name that is proven; None while the exchange is under way."""

    @property
    def is_token_authenticated(self) -> bool:
        """Whether it was proven by a delegation token: such a client gets no tokens itself."""

    @property
    def expires_ms(self) -> int | None:
        """When what it has proven is over (ms of the wall clock); None: never."""

    @property
    def token_cost(self) -> TokenCost: ...

    @property
    def claimed_user(self) -> str:
        """The name that the client has claimed so far, proven or not; empty: none. For the log."""

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's next token. Raises SaslFailure. If tokens are BLOCKING it is called on
        another thread, and nothing else is until it has returned.
        """
