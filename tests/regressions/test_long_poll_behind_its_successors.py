"""A long poll waited for memory that the answers behind it held, and they waited for the long poll to leave first."""

from __future__ import annotations

from barnabas.channel.messages import Outcome
from barnabas_gateway.core.backends.fetch_memory import READ_BYTES_MIN
from tests.unit.gateway.world import World


def test_the_oldest_fetch_of_a_connection_reads_even_when_those_behind_it_hold_all_memory() -> None:
    world = World(pods=("purgatory-0",), fetch_memory_bytes=1000)
    client, other = world.client(), world.client()
    client.fetch(0, max_wait_ms=30_000)
    world.logstore.read_result(b"")
    client.fetch(0)
    world.logstore.read_result(bytes(1500))
    assert not client.answers, "the second answer waits for the first"
    other.fetch(0)
    assert not world.logstore.reads, "there is no memory left"

    world.pod.complete(world.pod.fetches[0].entry_id, Outcome.SATISFIED)
    assert len(world.logstore.reads) == 1
    assert world.processor.fetch_memory.reserved_bytes == 1500 + READ_BYTES_MIN
    world.logstore.read_result(b"first")

    sizes = [len(answer.responses[0].partitions[0].records) for answer in client.answers]
    assert sizes == [len(b"first"), 1500]
    world.logstore.read_result(b"other")
    assert len(other.answers) == 1
    assert world.processor.fetch_memory.reserved_bytes == 0


def test_only_one_read_at_a_time_passes_the_budget() -> None:
    world = World(pods=("purgatory-0",), fetch_memory_bytes=1000)
    clients = [world.client(), world.client()]
    for client in clients:
        client.fetch(0, max_wait_ms=30_000)
        world.logstore.read_result(b"")
    for client in clients:
        client.fetch(0)
    world.logstore.read_result(bytes(800))
    # The second client's successor can't even read yet; the first one's answer holds what there is.
    for parked in list(world.pod.fetches):
        world.pod.complete(parked.entry_id, Outcome.SATISFIED)
    assert len(world.logstore.reads) == 1
    while world.logstore.reads:
        world.logstore.read_result(b"x")
    assert [len(client.answers) for client in clients] == [2, 2]
    assert world.processor.fetch_memory.reserved_bytes == 0
