"""Connections of clients which have not authenticated: frames, requests and SASL, as a processor's core reads them.
`sasl_tokens`, `first_requests` and `tls_records` have the parsers alone, many times faster.

Whatever is sent, only a client that has sent the password, or the one proof of it, is let in; what comes from any other
reaches neither a logstore nor the controller, and leaves nothing behind.

The input is pieces (`tests.fuzz.pieces`): the first byte of each says what happens, the rest is what is sent.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from barnabas.client.sasl import ScramClient
from barnabas.cluster.scram import ScramMechanism, UserScramCredential, credential_of, salted_password
from barnabas.wire.codec import encode_request
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas_gateway.core.model.config import SaslConfig
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target
from tests.unit.gateway.world import LISTENER, Client, World

_CLIENTS: Final = 2
_STEPS_MAX: Final = 40
_INPUTS_PER_WORLD: Final = 200
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


def _scram_tokens() -> tuple[bytes, bytes]:
    """The exchange of the one user, which is always the same: a test's random bytes are."""
    client = ScramClient(ScramMechanism.SHA_256, "carol", "pencil", "nonce")
    server = _world().processor.authentications.create_server(_SASL, "SCRAM-SHA-256")
    first = client.first_token()
    proof = client.next_token(server.respond(first))
    assert proof is not None
    return first, proof


_SCRAM: Final = _scram_tokens()
_PROOF: Final = _SCRAM[1].rpartition(b",p=")[2][:-4]
"""Without the end of its base64, for which there are several spellings."""


class _LentWorld:
    """A world for some inputs, then another: creating one takes longer than what an input does to it."""

    def __init__(self) -> None:
        self._world = _world()
        self._left = _INPUTS_PER_WORLD

    def lend(self) -> World:
        """Return one that remembers nothing of earlier inputs but what the core itself remembers."""
        if not self._left:
            self._world, self._left = _world(), _INPUTS_PER_WORLD
        self._left -= 1
        world = self._world
        for left in (world.logs, world.calls, world.clients, world.logstore.appends, world.logstore.reads):
            left.clear()
        return world


_LENT: Final = _LentWorld()


def check(data: bytes) -> None:
    pieces = [piece for piece in split_pieces(data)[:_STEPS_MAX] if piece]
    world = _LENT.lend()
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


def build(random: Random) -> bytes:
    pieces = []
    for _ in range(random.randint(1, 5)):
        choice = random.randrange(16)
        pieces.append(bytes([choice]) + (_sent(random) if choice % 8 < 6 else b""))
    return join_pieces(pieces)


def _sent(random: Random) -> bytes:
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
