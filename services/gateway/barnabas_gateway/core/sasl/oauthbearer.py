"""OAUTHBEARER (RFC 7628, KIP-255), the server's side, with the answers of Kafka's OAuthBearerSaslServer.

One token: `n,a=authzid,^Aauth=Bearer TOKEN^Akey=value^A…^A`, where ^A is the byte 1. A client whose token is not valid
is sent a status in JSON, answers with ^A, and is refused then. Extensions are ignored, as Kafka's own handler does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from barnabas_gateway.core.model.config import OAuthConfig
from barnabas_gateway.core.sasl.sasl_server import SaslFailure, TokenCost

_SEPARATOR: Final = "\x01"
_INVALID: Final = '{"status":"invalid_token"}'
_HEADER: Final = re.compile(r"n,(?:a=((?:[^=,\x00\x80-\U0010ffff]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")
_CREDENTIAL: Final = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_PAIRS_MAX: Final = 100
"""Extensions of a client, and its token."""


class InvalidToken(Exception):  # noqa: N818 - it is the outcome of an exchange
    """The text is not valid, not from the issuer, or for another audience. The message has nothing of it."""


@dataclass(slots=True, frozen=True)
class AccessToken:
    """What a valid token says."""

    principal: str
    expires_ms: int
    """Of the wall clock."""


ValidateToken: TypeAlias = Callable[[OAuthConfig, str], AccessToken]
"""Raises InvalidToken. It takes no longer than the verification of one signature."""


def refuse_all(oauth: OAuthConfig, token: str) -> AccessToken:
    """Validate no token: there are no keys to verify signatures with."""
    raise InvalidToken("no keys")


class OAuthBearerServer:
    __slots__ = ("_failure", "_oauth", "_validate", "claimed_user", "expires_ms", "user")

    token_cost = TokenCost.LARGE
    is_token_authenticated = False
    """Kafka means delegation tokens by it."""

    def __init__(self, oauth: OAuthConfig, validate: ValidateToken) -> None:
        self._oauth = oauth
        self._validate = validate
        self._failure = ""
        """Why the token is not valid; the client is going to answer the status."""
        self.claimed_user = ""
        self.user: str | None = None
        self.expires_ms: int | None = None

    def respond(self, token: bytes) -> bytes:
        """Return an empty token, or a status. Raises SaslFailure."""
        if self._failure:
            raise SaslFailure(self._failure, _INVALID)
        authzid, text = _initial_response(token)
        try:
            valid = self._validate(self._oauth, text)
        except InvalidToken as invalid:
            self._failure = f"invalid token: {invalid}"
            return _INVALID.encode()
        self.claimed_user = valid.principal
        if authzid and authzid != valid.principal:
            raise SaslFailure(
                "an authorization id that is not the token's principal",
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name",
            )
        self.user, self.expires_ms = valid.principal, valid.expires_ms
        return b""


def _initial_response(token: bytes) -> tuple[str, str]:
    """Return the authorization id, which may be empty, and the access token. Raises SaslFailure."""
    try:
        header, *pairs = token.decode().split(_SEPARATOR, _PAIRS_MAX + 2)
    except UnicodeDecodeError:
        raise SaslFailure("a message that is not UTF-8") from None
    found = _HEADER.fullmatch(header)
    # The last pair and the message each end with a separator.
    if found is None or not 2 <= len(pairs) - 1 <= _PAIRS_MAX + 1 or pairs[-2:] != ["", ""]:
        raise SaslFailure("a message that is not that of OAUTHBEARER")
    values: dict[str, str] = {}
    for pair in pairs[:-2]:
        matched = _PAIR.fullmatch(pair)
        if matched is None:
            raise SaslFailure("a pair of key and value that is malformed")
        values[matched[1]] = matched[2]
    credential = _CREDENTIAL.fullmatch(values.get("auth", ""))
    if credential is None or credential[1].lower() != "bearer":
        raise SaslFailure("no bearer token")
    authzid = (found[1] or "").replace("=2C", ",").replace("=3D", "=")
    return authzid, credential[2]
