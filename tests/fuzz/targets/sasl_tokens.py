"""The tokens of a client that authenticates, without its connection: PLAIN, SCRAM, SCRAM with a delegation token,
OAUTHBEARER with a JWT, and GSSAPI over a scripted security context, one exchange after the other.

A failure is the only way to be refused; no user comes out without the secret, and no other user than its own.

The input is pieces (`tests.fuzz.pieces`): the first byte of the first picks the mechanism, the rest are its tokens.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from joserfc import jwt
from joserfc.jwk import OKPKey

from barnabas.client.sasl import ScramClient
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.scram import (
    MECHANISMS_BY_NAME,
    ScramMechanism,
    UserScramCredential,
    credential_of,
    salted_password,
)
from barnabas.runtime.tokens.verification_keys import read_keys
from barnabas_gateway.core.model.config import KerberosConfig, OAuthConfig, SaslConfig
from barnabas_gateway.core.sasl.delegation_tokens import DelegationTokens
from barnabas_gateway.core.sasl.gssapi import SecurityContextError
from barnabas_gateway.core.sasl.sasl_server import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, SaslFailure, SaslServer
from barnabas_gateway.core.sasl.sasl_servers import SaslServers
from barnabas_gateway.shell.oauth.access_tokens import AccessTokenValidator
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target

_USERS: Final = {PLAIN: "alice", "SCRAM-SHA-256": "carol", "SCRAM-SHA-512": "d=a,ve"}
_TOKEN_OWNER: Final = "erin"
_PASSWORD: Final = "pencil"
_SALT: Final = b"0123456789"
_ITERATIONS: Final = 4096
_TOKENS_MAX: Final = 8
_OAUTH: Final = OAuthConfig("file:///keys", "issuer", ("kafka",))
_KERBEROS: Final = KerberosConfig("/keytab", "kafka/host@REALM")
_SASL: Final = SaslConfig(MECHANISMS, {_USERS[PLAIN]: _PASSWORD}, {}, _OAUTH, _KERBEROS)
_NOW_S: Final = 1_800_000_000
_ISSUERS_KEY: Final = OKPKey.import_key(
    {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": "key",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    }
)
"""That of RFC 8037, whose signatures are always the same."""


class _Source:
    keys = read_keys(json.dumps({"keys": [_ISSUERS_KEY.as_dict(private=False)]}).encode())

    def key_missing(self) -> None:
        """There are no others."""


class _Context:
    """A security context of grace's ticket, and of no other; what it wraps has a signature before it."""

    is_established = False
    default_realm = "REALM"

    def accept(self, token: bytes) -> bytes:
        if token != _TICKET:
            raise SecurityContextError("another ticket")
        self.is_established = True
        return b"mutual"

    def initiator(self) -> str:
        return "grace@REALM"

    def expires_ms(self) -> int | None:
        return None

    def wrap(self, message: bytes) -> bytes:
        return _SIGNATURE + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(_SIGNATURE):
            raise SecurityContextError("another signature")
        return message.removeprefix(_SIGNATURE)


_TICKET: Final = b"the ticket of grace"
_SIGNATURE: Final = b"signed:"
_ACCESS_TOKENS: Final = AccessTokenValidator(_OAUTH, _Source(), lambda: _NOW_S * 1000)
_IMAGE: Final = ClusterImage()
_DELEGATION_TOKENS: Final = DelegationTokens("key", _IMAGE, lambda count: b"\x01" * count, lambda: 0)
_SERVERS: Final = SaslServers(
    _IMAGE,
    _DELEGATION_TOKENS,
    lambda _, token: _ACCESS_TOKENS.validate(token),
    lambda _: _Context(),
    lambda count: b"\x01" * count,
)


def _add_users() -> tuple[str, str]:
    """Return the id and the password of the one delegation token."""
    for mechanism in MECHANISMS_BY_NAME.values():
        salted = salted_password(mechanism, _PASSWORD, _SALT, _ITERATIONS)
        keys = credential_of(mechanism, salted, _SALT, _ITERATIONS)
        user = _USERS[mechanism.mechanism_name]
        _IMAGE.scram_credentials[user, mechanism.number] = UserScramCredential(
            user, mechanism.number, _ITERATIONS, _SALT, keys.stored_key, keys.server_key
        )
    token, secret = _DELEGATION_TOKENS.create(f"User:{_TOKEN_OWNER}", "User:admin", [])
    _IMAGE.delegation_tokens[token.token_id] = replace(token, expiry_timestamp_ms=1, max_timestamp_ms=1)
    return token.token_id, b64encode(secret).decode()


_TOKEN_ID, _TOKEN_SECRET = _add_users()


def _server(name: str) -> SaslServer:
    return _SERVERS.create_server(_SASL, name)


_PADDED: Final = 4
"""Characters at the end of base64 of which several mean the same bytes."""


class _Way(NamedTuple):
    """How a client that knows a secret authenticates: always the same tokens, since a test's random bytes are."""

    mechanism: str
    user: str
    tokens: tuple[bytes, ...]
    secret: bytes


def _scram_way(mechanism: ScramMechanism, *, is_token: bool) -> _Way:
    name = mechanism.mechanism_name
    user, password = (_TOKEN_ID, _TOKEN_SECRET) if is_token else (_USERS[name], _PASSWORD)
    client, server = ScramClient(mechanism, user, password, "nonce", is_token=is_token), _server(name)
    first = client.first_token()
    proof = client.next_token(server.respond(first))
    assert proof is not None
    secret = proof.rpartition(b",p=")[2][:-_PADDED]
    return _Way(name, _TOKEN_OWNER if is_token else user, (first, proof), secret)


def _jwt_way() -> _Way:
    claims = {"iss": "issuer", "aud": "kafka", "sub": "frank", "iat": _NOW_S, "exp": _NOW_S + 60, "scope": "all"}
    token = jwt.encode({"alg": "Ed25519", "kid": "key"}, claims, _ISSUERS_KEY, algorithms=["Ed25519"])
    # Of its base64 the signature alone can be written in other ways.
    signed = token.rpartition(".")[0].encode()
    return _Way(OAUTHBEARER, "frank", (f"n,,\x01auth=Bearer {token}\x01a=b\x01\x01".encode(), b"\x01"), signed)


_WAYS: Final = (
    _jwt_way(),
    _Way(GSSAPI, "grace", (_TICKET, b"", _SIGNATURE + b"\x01\0\0\0grace@REALM"), _TICKET),
    _Way(PLAIN, _USERS[PLAIN], (f"\0{_USERS[PLAIN]}\0{_PASSWORD}".encode(),), _PASSWORD.encode()),
    *(_scram_way(mechanism, is_token=is_token) for mechanism in ScramMechanism for is_token in (False, True)),
)


def check(data: bytes) -> None:
    pieces = split_pieces(data)[: _TOKENS_MAX + 1]
    if not pieces or not pieces[0]:
        return
    name = MECHANISMS[pieces[0][0] % len(MECHANISMS)]
    server = _server(name)
    for token in pieces[1:]:
        try:
            server.respond(token)
        except SaslFailure:
            assert server.user is None
            return
        if server.user is not None:
            break
    known = [way.user for way in _WAYS if way.mechanism == name and way.secret in data]
    assert server.user is None or server.user in known


def build(random: Random) -> bytes:
    way = random.choice(_WAYS)
    tokens = list(way.tokens)
    if random.random() < 0.2:
        client = ScramClient(ScramMechanism.SHA_256, random.choice(("nobody", "carol")), _PASSWORD, "nonce")
        tokens[0] = client.first_token()
    return join_pieces([bytes([MECHANISMS.index(way.mechanism)]), *tokens])


TARGET = Target("sasl_tokens", check, build, input_bytes_max=2048)
