"""PLAIN (RFC 4616) against the users of a listener's configuration, with the messages of Kafka's PlainSaslServer."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import ClassVar, Final

from barnabas_gateway.core.sasl.sasl_server import SaslFailure, TokenCost

_OTHER_AUTHZID: Final = "Authentication failed: Client requested an authorization id that is different from username"
_WRONG: Final = "Authentication failed: Invalid username or password"
_NO_PASSWORD: Final = b"\0"
"""No password of a client has a NUL in it."""


class PlainServer:
    """One token: `authzid NUL authcid NUL password`, in UTF-8."""

    __slots__ = ("_users", "claimed_user", "user")

    token_cost = TokenCost.SMALL
    is_token_authenticated = False
    expires_ms: ClassVar[int | None] = None

    def __init__(self, users: Mapping[str, str]) -> None:
        """`users`: passwords by name."""
        self._users = users
        self.claimed_user = ""
        self.user: str | None = None

    def respond(self, token: bytes) -> bytes:
        """Return an empty token. Raises SaslFailure."""
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise SaslFailure(f"{len(parts)} parts in a token of three")
        try:
            authzid, user, _ = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise SaslFailure("a token that is not UTF-8") from None
        self.claimed_user = user
        if not user or not parts[2]:
            raise SaslFailure("no user or no password")
        # As much work for a user that does not exist, so that the time does not show which users there are.
        password = self._users.get(user)
        expected = _NO_PASSWORD if password is None else password.encode()
        if not hmac.compare_digest(expected, parts[2]):
            raise SaslFailure("wrong password" if password is not None else "unknown user", _WRONG)
        if authzid and authzid != user:
            raise SaslFailure("an authorization id that is not the user", _OTHER_AUTHZID)
        self.user = user
        return b""
