"""Clients that send without end, never read, or never finish a frame: what they hold is bounded, others are served."""

from __future__ import annotations

import struct

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas_gateway.core.backends.fetch_memory import READ_BYTES_MIN
from tests.unit.gateway.world import Client, World, topic

MEBIBYTE = 1 << 20


def metadata_frames(client: Client, count: int) -> bytes:
    return b"".join(client.frame(MetadataRequest(None), ApiKey.METADATA, 9) for _ in range(count))


def feed(client: Client, data: bytes) -> None:
    """Received, but the turn has not ended."""
    client.world.processor.bytes_received(client.connection_id, data, client.world.now_ms)


def test_thousands_of_pipelined_requests_leave_other_clients_their_turn() -> None:
    """They were all answered in one turn; for seconds nobody else was, and the streams to the logstores broke."""
    world = World()
    flood, other = world.client(), world.client()
    feed(flood, metadata_frames(flood, 2000))
    other.ask(MetadataRequest(None), ApiKey.METADATA, 9)
    assert len(other.answers) == 1
    assert len(flood.answers) < 200
    world.pass_ms(0)
    assert flood.correlation_ids == list(range(1, 2001))


def test_answers_to_pipelined_requests_do_not_pile_up_before_the_socket_says_so() -> None:
    """One read of the socket could hold tens of thousands of Metadata requests; all answers were made at once."""
    world = World(topic(leaders=(1,) * 100), connection_unsent_bytes_max=20_000)
    client = world.client()
    client.send(metadata_frames(client, 60))
    largest = len(client.written) // len(client.answers)
    assert len(client.written) <= 20_000 + largest
    client.leave_unread(20_001)
    answers = len(client.answers)
    world.pass_ms(1000)
    assert len(client.answers) == answers
    client.leave_unread(0)
    world.pass_ms(1000)
    assert len(client.answers) == 60


def test_small_queued_frames_count_with_what_they_really_take() -> None:
    world = World(connection_queued_bytes_max=100_000)
    client = world.client()
    client.fetch(0)
    client.send(metadata_frames(client, 1000))
    assert client.is_paused
    assert world.processor.request_memory.held_bytes > 200_000
    world.logstore.read_result(b"x")
    world.pass_ms(0)
    assert len(client.answers) == 1001
    assert world.processor.request_memory.held_bytes == 0


def test_a_fetch_of_one_byte_reserves_the_batch_that_it_may_bring() -> None:
    """Hundreds of them, each with a batch of a megabyte as its answer, went past the limit."""
    world = World(fetch_memory_bytes=8 * MEBIBYTE)
    clients = [world.client() for _ in range(20)]
    for client in clients:
        client.fetch(0, max_bytes=1)
    assert len(world.logstore.reads) * READ_BYTES_MIN <= 8 * MEBIBYTE
    for _ in clients:
        world.logstore.read_result(bytes(MEBIBYTE))
    assert all(len(client.answers) == 1 for client in clients)


def test_a_client_that_pipelines_fetches_leaves_memory_to_others() -> None:
    world = World(fetch_memory_bytes=64 * MEBIBYTE)
    greedy, other = world.client(), world.client()
    for _ in range(100):
        greedy.fetch(0, max_bytes=50 * MEBIBYTE, partition_max_bytes=50 * MEBIBYTE)
    before = len(world.logstore.reads)
    other.fetch(0, max_bytes=50 * MEBIBYTE, partition_max_bytes=50 * MEBIBYTE)
    assert len(world.logstore.reads) == before + 1, "it need not wait"


def test_memory_of_a_client_that_never_reads_is_free_once_it_counts_as_free() -> None:
    """The connection was closed "once all is sent", so the host kept its answers, which nobody counted any more."""
    world = World(fetch_memory_bytes=8 * MEBIBYTE)
    stalled = [world.client() for _ in range(3)]
    for client in stalled:
        client.fetch(0, max_bytes=MEBIBYTE)
        world.logstore.read_result(bytes(MEBIBYTE))
        client.leave_unread(3 * MEBIBYTE)
    reader = world.client()
    reader.fetch(0, max_bytes=MEBIBYTE)
    assert not world.logstore.reads
    world.pass_ms(2 * world.processor.config.stalled_reader_ms)
    assert all(client.is_aborted for client in stalled), "all at once"
    assert len(world.logstore.reads) == 1


def test_a_bad_frame_does_not_let_a_client_keep_what_it_never_read() -> None:
    world = World()
    client = world.client()
    client.fetch(0)
    world.logstore.read_result(bytes(MEBIBYTE))
    client.leave_unread(2 * MEBIBYTE)
    client.send(struct.pack(">i", -1))
    assert client.is_aborted


def test_frames_that_are_never_finished_do_not_keep_everybody_else_out() -> None:
    """Two clients with large half frames held all request memory for as long as they liked."""
    world = World(queued_request_bytes_max=1000)
    half = struct.pack(">i", 10_000) + struct.pack(">hhih", ApiKey.PRODUCE, 9, 1, -1)
    holders = [world.client() for _ in range(2)]
    for holder in holders:
        feed(holder, half + bytes(600))
    other = world.client()
    other.produce(0)
    assert other.is_paused
    for _ in range(6):
        world.pass_ms(5000)
        for holder in holders:
            if not holder.is_closed:
                holder.send(b"x")
    assert any(holder.is_aborted for holder in holders)
    assert not other.is_paused
