"""Everything that reads bytes of a client which has not authenticated: SASL on connections, the tokens of both
mechanisms; and the configuration's own little languages.

Whatever is sent, only a client that has sent the password, or the one proof of it, is let in; what comes from any other
reaches neither a logstore nor the controller, and leaves nothing behind.

The input is pieces (`tests.fuzz.pieces`): the first byte of each says what happens, the rest is what is sent.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from barnabas.client.sasl import ScramClient
from barnabas.cluster.jaas import PLAIN_MODULE, login_options, quoted
from barnabas.cluster.scram import ScramMechanism, UserScramCredential, credential_of, salted_password
from barnabas.wire.codec import encode_request
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas_gateway.core.model.config import SaslConfig
from barnabas_gateway.core.model.principal_mapping import mapped_name, parse_mapping_rules
from barnabas_gateway.core.sasl.sasl_server import SaslFailure, SaslServer
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target
from tests.unit.gateway.world import LISTENER, Client, World

_CLIENTS: Final = 2
_STEPS_MAX: Final = 40
_PLAIN: Final = b"\0alice\0secret"
_SALT: Final = b"0123456789"
_SALTED: Final = salted_password(ScramMechanism.SHA_256, "pencil", _SALT, 4096)
_KEYS: Final = credential_of(ScramMechanism.SHA_256, _SALTED, _SALT, 4096)
_SASL: Final = SaslConfig(("PLAIN", "SCRAM-SHA-256"), {"alice": "secret"}, {"PLAIN": 3_000})


def _world() -> World:
    made = World(listeners=(replace(LISTENER, sasl=_SASL),))
    credential = UserScramCredential("carol", 1, 4096, _SALT, _KEYS.stored_key, _KEYS.server_key)
    made.processor.image.scram_credentials["carol", 1] = credential
    return made


def _server(world: World, mechanism: str) -> SaslServer:
    return world.processor.authentications.create_server(_SASL, mechanism)


def _scram_tokens() -> tuple[bytes, bytes]:
    """The exchange of the one user, which is always the same: a test's random bytes are."""
    client, server = ScramClient(ScramMechanism.SHA_256, "carol", "pencil", "nonce"), _server(_world(), "SCRAM-SHA-256")
    first = client.first_token()
    proof = client.next_token(server.respond(first))
    assert proof is not None
    return first, proof


_SCRAM: Final = _scram_tokens()
_PROOF: Final = _SCRAM[1].rpartition(b",p=")[2]


def check(data: bytes) -> None:
    pieces = [piece for piece in split_pieces(data)[:_STEPS_MAX] if piece]
    world = _world()
    clients = [world.client() for _ in range(_CLIENTS)]
    for piece in pieces:
        _step(world, clients, piece[0], piece[1:])
    knows_secret = _PLAIN in data or _PROOF in data
    for client in clients:
        connection = world.processor.connections.find_connection(client.connection_id)
        assert knows_secret or connection is None or not connection.is_authenticated
        if not client.is_closed:
            client.close()
    assert knows_secret or not (world.calls or world.logstore.appends or world.logstore.reads)
    assert world.processor.request_memory.held_bytes == 0
    assert not world.processor.connections.unauthenticated
    _check_tokens(world, pieces)
    for piece in pieces:
        _check_text(piece[1:].decode(errors="replace"))


def _step(world: World, clients: list[Client], choice: int, data: bytes) -> None:
    client = clients[choice // 8 % _CLIENTS]
    match choice % 8:
        case 6:
            world.pass_ms(choice * 50)
        case 7 if not client.is_closed:
            client.close()
        case _ if not client.is_closed:
            client.take = lambda _buffers: None  # type: ignore[method-assign]
            client.send(data)
        case _:
            pass


def _check_tokens(world: World, pieces: list[bytes]) -> None:
    """Tokens of any kind, one after the other: a failure is the only way to be refused."""
    for mechanism in _SASL.mechanisms:
        server = _server(world, mechanism)
        for piece in pieces:
            try:
                server.respond(piece[1:])
            except SaslFailure:
                break
            if server.user is not None:
                break
        assert server.user in (None, "alice", "carol")


def _check_text(text: str) -> None:
    try:
        login_options(text, PLAIN_MODULE)
    except ValueError:
        pass
    try:
        rules = parse_mapping_rules(text[:200])
    except ValueError:
        return
    if not any(each.pattern is not None for each in rules):
        mapped_name(rules, "CN=a,O=b")


def build(random: Random) -> bytes:
    pieces = []
    for _ in range(random.randint(1, 5)):
        choice = random.randrange(16)
        pieces.append(bytes([choice]) + (_sent(random) if choice % 8 < 6 else b""))
    return join_pieces(pieces)


def _sent(random: Random) -> bytes:
    if random.random() < 0.1:
        user = quoted(random.choice(("secret", 'a"b', "")))
        return random.choice(
            (f"{PLAIN_MODULE} required user_alice={user};", "RULE:^CN=(.*?),.*$/$1/L,DEFAULT")
        ).encode()
    version = random.randrange(2)
    mechanism = random.choice(_SASL.mechanisms)
    tokens = [random.choice((_PLAIN, b"\0alice\0guess"))] if mechanism == "PLAIN" else list(_SCRAM)
    sent = b""
    if random.random() < 0.5:
        sent += _frame(*encode_request(ApiVersionsRequest("a", "1"), 3, 1, "c"))
    sent += _frame(*encode_request(SaslHandshakeRequest(mechanism), version, 2, "c"))
    for token in tokens:
        if version:
            sent += _frame(*encode_request(SaslAuthenticateRequest(token), random.randrange(3), 3, "c"))
        else:
            sent += len(token).to_bytes(4, "big") + token
    return sent + _frame(*encode_request(MetadataRequest([]), 12, 4, "c"))


def _frame(*buffers: bytes | memoryview) -> bytes:
    return b"".join(buffers)


TARGET = Target("authentication", check, build, lines_max=600_000, lines_per_byte=4000, memory_bytes_max=32 << 20)
