"""Ranges of files on their way to a client: what is asked for, what is sent, what they hold, and what ends them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from barnabas.channel.messages import ReadPartitionResult, ReadPiece, ReadResponse
from barnabas.runtime.lane import Descriptor
from barnabas.wire.file_range import FileRange
from barnabas_gateway.shell.client_socket import ClientSocket
from tests.unit.gateway.world import World

CONTENT = Random(17).randbytes(3_000_000)


class Owner:
    def __init__(self) -> None:
        self.unsent: list[int] = []
        self.is_lost = False
        self.ranges_cut = 0

    def range_cut(self, connection_id: int) -> None:
        assert not self.is_lost, "the core still knows the connection"
        self.ranges_cut += 1

    def bytes_received(self, connection_id: int, data: bytes) -> None:
        pass

    def unsent_changed(self, connection_id: int, unsent_bytes: int) -> None:
        self.unsent.append(unsent_bytes)

    def socket_lost(self, connection_id: int) -> None:
        self.is_lost = True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def file(path: Path) -> Descriptor:
    return Descriptor(os.open(path, os.O_RDONLY))


@pytest.fixture
def peer() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The gateway's end and the client's, with little room between them."""
    listener = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(listener.getsockname())
    ours, _ = listener.accept()
    listener.close()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 50_000)
    theirs.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


async def read(theirs: socket.socket, byte_count: int) -> bytes:
    received = b""
    while len(received) < byte_count:
        part = await asyncio.get_running_loop().sock_recv(theirs, 100_000)
        if not part:
            break
        received += part
    return received


async def test_ranges_and_bytes_are_sent_in_order_as_the_client_reads(
    peer: tuple[socket.socket, socket.socket], file: Descriptor
) -> None:
    ours, theirs = peer
    owner = Owner()
    client = ClientSocket(1, ours, owner)
    client.write([b"head", FileRange(file, 5, 1_000_000), b"between", b"two", FileRange(file, 0, 1_999_999), b"tail"])
    client.write([b"next", FileRange(file, 2_999_990, 10)])
    expected = b"head" + CONTENT[5:1_000_005] + b"betweentwo" + CONTENT[:1_999_999] + b"tailnext" + CONTENT[-10:]
    sent_at_once = len(expected) - client.unsent_bytes
    assert 0 < sent_at_once < len(expected)
    assert await read(theirs, len(expected)) == expected
    assert client.unsent_bytes == 0
    assert owner.unsent == sorted(owner.unsent, reverse=True)
    assert owner.unsent[-1] == 0
    client.abort()


async def test_a_deleted_file_is_sent_to_its_end(
    peer: tuple[socket.socket, socket.socket], path: Path, file: Descriptor
) -> None:
    ours, theirs = peer
    client = ClientSocket(1, ours, Owner())
    client.write([b"head", FileRange(file, 0, len(CONTENT))])
    os.unlink(path)
    assert await read(theirs, 4 + len(CONTENT)) == b"head" + CONTENT
    client.abort()


async def test_a_range_that_its_file_does_not_have_any_more_ends_the_connection(
    peer: tuple[socket.socket, socket.socket], path: Path, file: Descriptor
) -> None:
    """The client fetches again; it never gets other bytes in place of those."""
    ours, theirs = peer
    owner = Owner()
    client = ClientSocket(1, ours, owner)
    client.write([b"head", FileRange(file, 0, len(CONTENT)), b"tail"])
    os.truncate(path, 2_000_000)
    received = await read(theirs, 4 + len(CONTENT))
    assert received == (b"head" + CONTENT)[: len(received)]
    assert len(received) <= 4 + 2_000_000
    assert owner.is_lost
    assert owner.ranges_cut == 1
    assert client.unsent_bytes == 0


async def test_a_client_that_goes_away_frees_the_file(
    peer: tuple[socket.socket, socket.socket], file: Descriptor
) -> None:
    ours, theirs = peer
    owner = Owner()
    client = ClientSocket(1, ours, owner)
    client.write([FileRange(Descriptor(os.dup(file.fileno())), 0, len(CONTENT))])
    before = len(os.listdir("/proc/self/fd"))
    theirs.close()
    while not owner.is_lost:
        await asyncio.sleep(0.001)
    assert len(os.listdir("/proc/self/fd")) <= before - 2
    assert not owner.ranges_cut


# --- what is asked for, and what of it reaches the socket ---


@pytest.mark.parametrize(("version", "is_on_lane", "accepts"), [(12, True, True), (12, False, False), (3, True, False)])
def test_ranges_are_accepted_by_lanes_for_records_that_stay_as_they_are(
    version: int, is_on_lane: bool, accepts: bool
) -> None:
    """Versions before 4 fetch older formats, so their records are converted."""
    world = World()
    world.processor.read_up(1, world.now_ms, accepts_ranges=is_on_lane)
    world.client().fetch(0, version=version)
    assert world.logstore.reads[0].accepts_ranges is accepts


def test_a_range_is_part_of_the_response_and_counts_as_its_bytes() -> None:
    world = World()
    client = world.client()
    client.fetch(0)
    read = world.logstore.reads.pop()
    found = FileRange(object(), 1000, 70_000)
    piece = ReadPiece(read.request_id, True, [ReadPartitionResult(0, high_watermark=10, records=found)])
    world.processor.read_response(1, ReadResponse(pieces=[piece]), world.now_ms)
    ((connection_id, buffers),) = world.processor.take_outputs().writes
    assert connection_id == client.connection_id
    assert [each for each in buffers if isinstance(each, FileRange)] == [found]
    head = buffers[0]
    assert isinstance(head, bytes)
    assert int.from_bytes(head[:4], "big") == sum(map(len, buffers)) - 4
    assert world.processor.fetch_memory.reserved_bytes == 0
