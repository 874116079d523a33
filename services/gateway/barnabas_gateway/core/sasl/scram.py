"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's side, against stored credentials.

The server never runs PBKDF2: it answers in microseconds whatever a client sends.

- Channel binding is not offered: `p=` is refused, and `c=` has to repeat the header of the first message.
- The client's final nonce has to be the server's exactly, as in Kafka 4.3 (earlier ones compared nothing,
  CVE-2024-56128, then the end). librdkafka before 2.6.1 puts its own nonce in front once more, and can authenticate at
  neither.
- An unknown user gets a salt that is always the same, and fails at its proof: the exchange does not show which users
  exist.
- An authorization id other than the user fails, as in Kafka. Extensions are ignored, except for `tokenauth=true`: the
  name is then the id of a delegation token, and the client is proven to be the token's owner (KIP-48).
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from barnabas.cluster.scram import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    is_proof_of,
    server_signature,
    unescaped_name,
)
from barnabas_gateway.core.sasl.sasl_server import SaslFailure, TokenCost

NONCE_BYTES: Final = 18
"""Random bytes of a server's nonce: 24 characters of base64."""
_SALT_BYTES: Final = 26
"""As many as those of Kafka's tools."""
_OTHER_AUTHZID: Final = "Authentication failed: Client requested an authorization id that is different from username"


@dataclass(slots=True, frozen=True)
class ScramIdentity:
    """Who a client is that has the credential."""

    user: str
    credential: ScramCredential
    expires_ms: int | None = None
    """When it is over (ms of the wall clock); None: never."""


FindIdentity: TypeAlias = Callable[[str, bool], ScramIdentity | None]
"""By a name: a user's, or the id of a delegation token if the second argument is True."""


class ScramServer:
    __slots__ = (
        "_find_identity",
        "_first_messages",
        "_header",
        "_identity",
        "_mechanism",
        "_nonce",
        "_secret",
        "_server_nonce",
        "claimed_user",
        "expires_ms",
        "is_token_authenticated",
        "user",
    )

    token_cost = TokenCost.SMALL

    def __init__(
        self,
        mechanism: ScramMechanism,
        find_identity: FindIdentity,
        server_nonce: str,
        secret: bytes,
    ) -> None:
        """`server_nonce` is random, of printable characters without commas. `secret` makes the salts of unknown users:
        the same on all gateways, and not known to clients.
        """
        self._mechanism = mechanism
        self._find_identity = find_identity
        self._server_nonce = server_nonce
        self._secret = secret
        self._header = b""
        self._nonce = ""
        self._first_messages = b""
        self._identity: ScramIdentity | None = None
        self.is_token_authenticated = False
        self.expires_ms: int | None = None
        self.claimed_user = ""
        self.user: str | None = None

    def respond(self, token: bytes) -> bytes:
        """Return the server's first or final message. Raises SaslFailure."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise SaslFailure("a message that is not UTF-8") from None
        return self._answer_proof(text) if self._nonce else self._answer_first(text)

    def _answer_first(self, text: str) -> bytes:
        """`gs2-header client-first-message-bare`: `n,a=authzid,n=user,r=nonce,extensions`."""
        parts = text.split(",", 2)
        if len(parts) != 3 or parts[0] not in ("n", "y") or (parts[1] and not parts[1].startswith("a=")):
            raise SaslFailure("a first message without a header, or with channel binding")
        binding, authzid, bare = parts
        self._header = f"{binding},{authzid},".encode()
        attributes = bare.split(",")
        if len(attributes) < 2 or attributes[0][:2] != "n=" or attributes[1][:2] != "r=":
            raise SaslFailure("a first message without a name and a nonce")
        try:
            user = unescaped_name(attributes[0][2:])
            acts_for = unescaped_name(authzid.removeprefix("a="))
        except ValueError as error:
            raise SaslFailure(str(error)) from None
        nonce = attributes[1][2:]
        if not user or not nonce or not nonce.isascii() or not nonce.isprintable():
            raise SaslFailure("an empty name or an unprintable nonce")
        self.claimed_user = user
        if acts_for and acts_for != user:
            raise SaslFailure("an authorization id that is not the user", _OTHER_AUTHZID)
        self.is_token_authenticated = any(each.lower() == "tokenauth=true" for each in attributes[2:])
        self._identity = self._find_identity(user, self.is_token_authenticated)
        salt, iterations = self._salt_of_unknown(user), ITERATIONS_MIN
        if self._identity is not None:
            salt, iterations = self._identity.credential.salt, self._identity.credential.iterations
        self._nonce = nonce + self._server_nonce
        answer = f"r={self._nonce},s={b64encode(salt).decode()},i={iterations}".encode()
        self._first_messages = bare.encode() + b"," + answer
        return answer

    def _answer_proof(self, text: str) -> bytes:
        """`c=header,r=nonce,extensions,p=proof`."""
        without_proof, separator, proof_text = text.rpartition(",p=")
        attributes = without_proof.split(",")
        if not separator or len(attributes) < 2 or attributes[0][:2] != "c=" or attributes[1][:2] != "r=":
            raise SaslFailure("a final message without header, nonce and proof")
        try:
            header, proof = b64decode(attributes[0][2:], validate=True), b64decode(proof_text, validate=True)
        except ValueError:
            raise SaslFailure("a final message whose header or proof is not base64") from None
        if header != self._header:
            raise SaslFailure("a header that differs from that of the first message")
        if not hmac.compare_digest(attributes[1][2:].encode(), self._nonce.encode()):
            raise SaslFailure("a nonce that is not the server's")
        if self._identity is None:
            raise SaslFailure("unknown or expired token" if self.is_token_authenticated else "unknown user")
        message = self._first_messages + b"," + without_proof.encode()
        credential = self._identity.credential
        if not is_proof_of(self._mechanism, credential, message, proof):
            raise SaslFailure("wrong password")
        self.user, self.expires_ms = self._identity.user, self._identity.expires_ms
        return b"v=" + b64encode(server_signature(self._mechanism, credential.server_key, message))

    def _salt_of_unknown(self, user: str) -> bytes:
        return hmac.digest(self._secret, user.encode(), "sha256")[:_SALT_BYTES]
