"""The tokens of a client that authenticates, without its connection: PLAIN and SCRAM, one exchange after the other.

A failure is the only way to be refused; no user comes out without the secret, and no other user than its own.

The input is pieces (`tests.fuzz.pieces`): the first byte of the first picks the mechanism, the rest are its tokens.
"""

from __future__ import annotations

from random import Random
from typing import Final

from barnabas.client.sasl import ScramClient
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.scram import (
    MECHANISMS_BY_NAME,
    ScramMechanism,
    UserScramCredential,
    credential_of,
    salted_password,
)
from barnabas_gateway.core.model.config import SaslConfig
from barnabas_gateway.core.sasl.sasl_server import MECHANISMS, PLAIN, SaslFailure, SaslServer
from barnabas_gateway.core.sasl.sasl_servers import SaslServers
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target

_USERS: Final = {PLAIN: "alice", "SCRAM-SHA-256": "carol", "SCRAM-SHA-512": "d=a,ve"}
_PASSWORD: Final = "pencil"
_SALT: Final = b"0123456789"
_ITERATIONS: Final = 4096
_TOKENS_MAX: Final = 8
_SASL: Final = SaslConfig(MECHANISMS, {_USERS[PLAIN]: _PASSWORD}, {})


def _servers() -> SaslServers:
    image = ClusterImage()
    for mechanism in MECHANISMS_BY_NAME.values():
        salted = salted_password(mechanism, _PASSWORD, _SALT, _ITERATIONS)
        keys = credential_of(mechanism, salted, _SALT, _ITERATIONS)
        user = _USERS[mechanism.mechanism_name]
        image.scram_credentials[user, mechanism.number] = UserScramCredential(
            user, mechanism.number, _ITERATIONS, _SALT, keys.stored_key, keys.server_key
        )
    return SaslServers(image, lambda count: b"\x01" * count)


_SERVERS: Final = _servers()


def _tokens_of(name: str) -> tuple[bytes, ...]:
    """Return what a client sends that knows the password: always the same, since a test's random bytes are."""
    if name == PLAIN:
        return (f"\0{_USERS[PLAIN]}\0{_PASSWORD}".encode(),)
    client, server = ScramClient(MECHANISMS_BY_NAME[name], _USERS[name], _PASSWORD, "nonce"), _server(name)
    first = client.first_token()
    proof = client.next_token(server.respond(first))
    assert proof is not None
    return first, proof


def _server(name: str) -> SaslServer:
    return _SERVERS.create_server(_SASL, name)


_TOKENS: Final = {name: _tokens_of(name) for name in MECHANISMS}
_PADDED: Final = 4
"""Characters at the end of base64 of which several mean the same bytes."""
_SECRETS: Final = {
    name: _PASSWORD.encode() if name == PLAIN else tokens[-1].rpartition(b",p=")[2][:-_PADDED]
    for name, tokens in _TOKENS.items()
}


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
    assert server.user is None or (server.user == _USERS[name] and _SECRETS[name] in data)


def build(random: Random) -> bytes:
    number = random.randrange(len(MECHANISMS))
    tokens = list(_TOKENS[MECHANISMS[number]])
    if random.random() < 0.2:
        client = ScramClient(ScramMechanism.SHA_256, random.choice(("nobody", "carol")), _PASSWORD, "nonce")
        tokens[0] = client.first_token()
    return join_pieces([bytes([number]), *tokens])


TARGET = Target("sasl_tokens", check, build, input_bytes_max=2048)
