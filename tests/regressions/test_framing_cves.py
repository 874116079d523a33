"""What the first bytes of a connection did to other brokers and clients, before any client had authenticated.

- CVE-2022-34917: Kafka allocated what a frame promised, for any number of connections.
- CVE-2026-10142: kafka-python believed the length of a frame: negative, nothing, all that 31 bits can say.
- Slowloris: connections that send a byte now and then for ever.
"""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.metadata import MetadataRequest
from tests.unit.gateway.world import Client, World, topic
from tests.unit.wire.recorded import Exchange, exchanges

MEBIBYTE = 1 << 20


def feed(client: Client, data: bytes) -> None:
    client.world.processor.bytes_received(client.connection_id, data, client.world.now_ms)


def assert_serves(client: Client) -> None:
    before = len(client.answers)
    client.ask(MetadataRequest(None), ApiKey.METADATA, 9)
    assert len(client.answers) == before + 1


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 0, 1, 7])
def test_cve_2026_10142_a_length_that_no_frame_has_costs_the_connection_alone(size: int) -> None:
    world = World()
    bad, good = world.client(), world.client()
    tracemalloc.start()
    bad.send(struct.pack(">i", size) + bytes(min(max(size, 0), 8)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bad.is_closed
    assert bad.answers == []
    assert peak_bytes < MEBIBYTE
    assert_serves(good)


def test_cve_2022_34917_what_many_connections_promise_is_not_allocated() -> None:
    """2,000 times 100 MB, of which a byte each has come."""
    world = World()
    clients = [world.client() for _ in range(2000)]
    tracemalloc.start()
    for client in clients:
        feed(client, struct.pack(">ib", 100 * MEBIBYTE, 0))
    world.turn()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 * MEBIBYTE
    assert not any(client.is_closed for client in clients)
    assert_serves(world.client())


def test_cve_2022_34917_what_connections_send_of_their_promises_is_bounded() -> None:
    """Each stays below the largest request, all together do not: reading stops, but for one that may finish."""
    world = World(queued_request_bytes_max=8 * MEBIBYTE)
    clients = [world.client() for _ in range(40)]
    for client in clients:
        client.send(struct.pack(">i", 2 * MEBIBYTE))
        for _ in range(7):
            if not client.is_paused:
                client.send(bytes(MEBIBYTE // 4))
    assert world.processor.request_memory.held_bytes < 8 * MEBIBYTE + (len(clients) + 7) * MEBIBYTE // 4
    assert sum(client.is_paused for client in clients) > 30


def test_slow_senders_keep_no_other_waiting() -> None:
    """Fifty connections, a byte a second each, of a frame that never ends."""
    world = World()
    slow = [world.client() for _ in range(50)]
    good = world.client()
    frame = struct.pack(">i", 1000) + bytes(1000)
    for second in range(120):
        for client in slow:
            client.send(frame[second : second + 1])
        assert_serves(good)
        world.pass_ms(1000)
    assert world.processor.request_memory.held_bytes == 50 * 120


def of_each_key() -> list[Exchange]:
    """The shortest frame of each API key that a client sent."""
    shortest: dict[int, Exchange] = {}
    for exchange in sorted(exchanges(), key=lambda each: len(each.request)):
        shortest.setdefault(exchange.api_key, exchange)
    return list(shortest.values())


@pytest.mark.parametrize("exchange", of_each_key(), ids=lambda exchange: exchange.name)
def test_a_recorded_frame_cut_at_any_byte_costs_its_connection_alone(exchange: Exchange) -> None:
    """With a length that fits what is left: a request that ends too early, not one that is still to come."""
    world = World(topic())
    good = world.client()
    for length in range(len(exchange.request)):
        client = world.client()
        client.take = lambda buffers: None  # type: ignore[method-assign]
        client.send(struct.pack(">i", length) + exchange.request[:length])
        client.close()
    world.pass_ms(60_000)
    assert world.processor.request_memory.held_bytes == 0
    assert_serves(good)
