"""The client's side of SASL: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), OAUTHBEARER
(RFC 7628). No I/O.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.cluster.scram import (
    ITERATIONS_MIN,
    ScramMechanism,
    client_proof,
    credential_of,
    escaped_name,
    salted_password,
    server_signature,
)

_ITERATIONS_MAX: Final = 1_000_000
"""A server can't make a client work for longer than a second or so."""
_HEADER: Final = "n,,"


class SaslRefusal(Exception):  # noqa: N818 - it is what the server says
    """The server refuses the client, or can't prove that it has the credential; the message says which."""


class SaslClient(Protocol):
    """One exchange: the first token, then one for each answer, until there is none."""

    def first_token(self) -> bytes: ...

    def next_token(self, answer: bytes) -> bytes | None:
        """Return None: the exchange is over. Raises SaslRefusal."""


class PlainClient:
    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self.is_complete = False

    def first_token(self) -> bytes:
        return self._token

    def next_token(self, answer: bytes) -> bytes | None:
        """Return None: the exchange is over."""
        self.is_complete = True
        return None


class OAuthBearerClient:
    def __init__(self, token: str, extensions: Iterable[tuple[str, str]] = ()) -> None:
        pairs = ["auth=Bearer " + token, *(f"{name}={value}" for name, value in extensions)]
        self._token = "\x01".join((_HEADER, *pairs, "", "")).encode()

    def first_token(self) -> bytes:
        return self._token

    def next_token(self, answer: bytes) -> bytes | None:
        """Return None, or what a refusal in JSON is answered with: the server's own error follows."""
        return b"\x01" if answer else None


class ScramClient:
    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        """`nonce` is random, of printable characters without commas. `is_token`: `user` is the id of a delegation
        token, and `password` its HMAC in base64 (KIP-48).
        """
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={escaped_name(user)},r={nonce}" + (",tokenauth=true" if is_token else "")
        self._signature = b""
        self.is_complete = False

    def first_token(self) -> bytes:
        return f"{_HEADER}{self._bare}".encode()

    def next_token(self, answer: bytes) -> bytes | None:
        """Return the client's proof, or None at the server's final message. Raises SaslRefusal."""
        if self._signature:
            self._check_server(answer)
            return None
        try:
            attributes = dict(each.split("=", 1) for each in answer.decode().split(","))
            nonce, salt, iterations = attributes["r"], b64decode(attributes["s"], validate=True), int(attributes["i"])
        except (KeyError, ValueError):
            raise SaslRefusal("the server's first SCRAM message is malformed") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslRefusal("the server's nonce does not continue the client's")
        if not ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
            raise SaslRefusal(f"the server asks for {iterations} iterations")
        without_proof = f"c={b64encode(_HEADER.encode()).decode()},r={nonce}"
        message = f"{self._bare},{answer.decode()},{without_proof}".encode()
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        server_key = credential_of(self._mechanism, salted, salt, iterations).server_key
        self._signature = server_signature(self._mechanism, server_key, message)
        proof = b64encode(client_proof(self._mechanism, salted, message)).decode()
        return f"{without_proof},p={proof}".encode()

    def _check_server(self, answer: bytes) -> None:
        expected = b"v=" + b64encode(self._signature)
        if not hmac.compare_digest(answer, expected):
            raise SaslRefusal("the server does not know the credential")
        self.is_complete = True
