"""A processor's core with clients that send anything, in any pieces, while logstores answer and time passes.

Nothing is raised and no request finds a fault of ours (one is logged as an error). Answers come in the order of the
requests, at most one each; when all clients are gone, none of their memory is held.

The input is pieces (`tests.fuzz.pieces`): the first byte of each says what happens, the rest is what is sent.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_request
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.primitives import MalformedFrame
from barnabas_gateway.core.handlers import HANDLERS
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.structure import TOPIC, TOPIC_ID, random_request
from tests.fuzz.target import Target
from tests.unit.gateway.world import World, topic
from tests.unit.wire.recorded import exchanges

_CLIENTS: Final = 3
_STEPS_MAX: Final = 60
_FRAME_BYTES_MAX: Final = 100_000
_RECORDED: Final = [exchange.request for exchange in exchanges()]


class _Client:
    """What one connection has sent and been answered; in the place of the scripted client's decoding."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._scripted = world.client()
        self._scripted.take = self._take  # type: ignore[method-assign]
        self._requests = FrameSplitter(_FRAME_BYTES_MAX)
        self._responses = FrameSplitter(1 << 30)
        self._asked: list[int] = []
        self._next = 0

    def send(self, data: bytes) -> None:
        if self._scripted.is_closed:
            return
        try:
            self._asked += [int.from_bytes(frame[4:8], "big") for frame in self._requests.feed(data)]
        except MalformedFrame:
            pass
        self._scripted.send(data)

    def close(self) -> None:
        if not self._scripted.is_closed:
            self._scripted.close()

    def _take(self, buffers: list[Any]) -> None:
        for frame in self._responses.feed(b"".join(buffers)):
            self._next = self._asked.index(int.from_bytes(frame[:4], "big"), self._next) + 1


def check(data: bytes) -> None:
    world = World(topic(TOPIC, TOPIC_ID, leaders=(1, 1)), socket_request_bytes_max=_FRAME_BYTES_MAX, pods=("pod-0",))
    clients = [_Client(world) for _ in range(_CLIENTS)]
    for piece in split_pieces(data)[:_STEPS_MAX]:
        if piece:
            _step(world, clients, piece[0], piece[1:])
    for client in clients:
        client.close()
    while world.logstore.appends or world.logstore.reads:
        _answer(world)
    world.pass_ms(60_000)
    while world.logstore.appends or world.logstore.reads:
        _answer(world)
    assert world.processor.request_memory.held_bytes == 0
    assert world.processor.fetch_memory.reserved_bytes == 0
    assert world.processor.fetch_memory.unsent_bytes == 0


def _step(world: World, clients: list[_Client], choice: int, data: bytes) -> None:
    match choice % 8:
        case 0 | 1 | 2 | 3:
            clients[choice // 8 % _CLIENTS].send(data)
        case 4 | 5:
            _answer(world)
        case 6:
            world.pass_ms(choice * 20)
        case _:
            clients[choice // 8 % _CLIENTS].close()


def _answer(world: World) -> None:
    """The oldest question of each kind that the core has asked."""
    logstore = world.logstore
    if logstore.appends:
        logstore.append_result(committed=True)
    if logstore.reads:
        logstore.read_result(*(b"x" * 61 for _ in logstore.reads[0].partitions))
    if world.calls:
        world.controller_answers(None)


def build(random: Random) -> bytes:
    pieces = []
    for _ in range(random.randint(1, 8)):
        choice = random.randrange(64)
        pieces.append(bytes([choice]) + (_requests(random) if choice % 8 < 4 else b""))
    return join_pieces(pieces)


def _requests(random: Random) -> bytes:
    frames = b""
    for _ in range(random.choice((1, 1, 2, 4))):
        if random.random() < 0.3:
            recorded = random.choice(_RECORDED)
            frames += len(recorded).to_bytes(4, "big") + recorded
            continue
        key, handler = random.choice(list(HANDLERS.items()))
        version = random.randint(handler.version_min, handler.version_max)
        request = random_request(random, ApiKey(key), version)
        frames += b"".join(encode_request(request, version, random.randrange(99), "c"))
    return frames


TARGET = Target("gateway", check, build, lines_max=600_000, lines_per_byte=4000, memory_bytes_max=32 << 20)
