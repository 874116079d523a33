"""Memory that is handed over with a lane: its seals, and which streams have it."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.channel.messages import SharedRecords
from barnabas.channel.shared_records import memory_bytes
from barnabas.runtime import lane_offers, shared_memory, streams
from barnabas.runtime.lane import Descriptor
from barnabas.runtime.rpc import create_server
from barnabas.runtime.streams import StreamLink, register_stream
from tests.unit.runtime.test_streams import METHOD, PATH, SERVICE, Echo, until

SHARED_BYTES = memory_bytes(8)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_LANE_DIRECTORY", str(tmp_path / "lanes"))
    monkeypatch.setenv("BARNABAS_LANE", "on")


def test_both_ends_see_the_same_bytes() -> None:
    descriptor, ours = shared_memory.create(10_000)
    theirs = shared_memory.attach(descriptor)
    ours[9_999] = 7
    assert len(theirs) == 10_000
    assert theirs[9_999] == 7


def test_no_end_can_take_pages_from_under_the_other() -> None:
    descriptor, _ = shared_memory.create(10_000)
    for byte_count in (0, 5_000, 20_000):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor.fileno(), byte_count)


def test_what_is_not_sealed_is_not_mapped() -> None:
    unsealed = Descriptor(os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(unsealed.fileno(), 4096)
    with pytest.raises(OSError, match="not sealed"):
        shared_memory.attach(unsealed)
    with tempfile.TemporaryFile() as file, pytest.raises(OSError, match="Invalid argument"):
        shared_memory.attach(Descriptor(os.dup(file.fileno())))


@pytest.mark.parametrize("byte_count", [0, shared_memory.BYTES_MAX + 1])
def test_a_memory_of_no_use_is_not_mapped(byte_count: int) -> None:
    descriptor, _ = shared_memory.create(4096)
    os_stat = os.fstat(descriptor.fileno())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fstat", lambda _: os.stat_result((*os_stat[:6], byte_count, *os_stat[7:])))
        with pytest.raises(OSError, match=str(byte_count)):
            shared_memory.attach(descriptor)


@asynccontextmanager
async def connected(server_bytes: int, client_bytes: int) -> AsyncIterator[tuple[StreamLink, Echo]]:
    handlers: list[Echo] = []

    def open_stream(stream: streams.ServerStream) -> Echo:
        handlers.append(Echo(stream))
        return handlers[-1]

    server, port = create_server("127.0.0.1:0")
    register_stream(server, SERVICE, METHOD, open_stream, shared_bytes=server_bytes)
    await server.start()
    link = StreamLink(
        f"127.0.0.1:{port}",
        PATH,
        hello=b"hello",
        pack_heartbeat=lambda count: b"heartbeat %d" % count,
        on_up=lambda _: None,
        on_message=lambda _: None,
        on_down=lambda _: None,
    )
    link.shared_bytes = client_bytes
    link.start()
    try:
        await until(lambda: link.up)
        yield link, handlers[0]
    finally:
        await link.close()
        await server.stop(0)


@pytest.mark.parametrize("server_bytes", [0, SHARED_BYTES])
@pytest.mark.parametrize("client_bytes", [0, SHARED_BYTES])
async def test_each_end_shares_what_the_other_has_memory_for(server_bytes: int, client_bytes: int) -> None:
    async with connected(server_bytes, client_bytes) as (link, handler):
        await until(lambda: handler.stream.is_on_lane)
        ends = ((server_bytes, link.outbox, handler.stream.inbox), (client_bytes, handler.stream.outbox, link.inbox))
        for byte_count, outbox, inbox in ends:
            if not byte_count:
                assert outbox is None
                assert inbox is None
                continue
            assert outbox is not None
            assert inbox is not None
            block = outbox.put(b"records")
            assert bytes(inbox.read(SharedRecords(0, block, 7))) == b"records"


async def test_without_a_lane_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_LANE", "off")
    async with connected(SHARED_BYTES, SHARED_BYTES) as (link, handler):
        assert link.outbox is None
        assert handler.stream.outbox is None
        assert handler.stream.inbox is None


async def test_a_system_without_such_memory_sends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_name: str, _flags: int) -> int:
        raise OSError("no memory")

    monkeypatch.setattr(os, "memfd_create", refuse)
    async with connected(SHARED_BYTES, SHARED_BYTES) as (link, handler):
        await until(lambda: handler.stream.is_on_lane)
        assert link.is_on_lane
        assert link.outbox is None
        assert handler.stream.outbox is None


async def test_memory_that_can_not_be_mapped_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: Descriptor) -> memoryview:
        raise OSError("the memory is not sealed")

    monkeypatch.setattr(shared_memory, "attach", refuse)
    async with connected(SHARED_BYTES, SHARED_BYTES) as (link, handler):
        await until(lambda: handler.stream.is_on_lane)
        assert link.is_on_lane
        assert link.outbox is None
        assert handler.stream.outbox is None


async def test_a_peer_of_the_last_release_goes_by_the_lane_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the handshake without descriptors: the kernel closes them."""

    async def receive(accepted: socket.socket, length: int) -> tuple[bytes, None]:
        return await asyncio.get_running_loop().sock_recv(accepted, length), None

    monkeypatch.setattr(lane_offers, "_receive", receive)
    async with connected(SHARED_BYTES, SHARED_BYTES) as (link, handler):
        await until(lambda: handler.stream.is_on_lane)
        assert link.outbox is None
        assert handler.stream.outbox is None
