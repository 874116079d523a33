"""A lane over a real socket pair: framing across all splits, garbage, bounds, holds, order, slow readers."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.runtime.lane import Descriptor, Lane
from barnabas.runtime.rpc import MESSAGE_BYTES_MAX
from tests.unit.runtime.test_streams import until

READ_BYTES = 256 << 10


def framed(*messages: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(message)) + message for message in messages)


def opened(path: Path, content: bytes) -> Descriptor:
    path.write_bytes(content)
    return Descriptor(os.open(path, os.O_RDONLY))


class End:
    """One end, which remembers what it has received and why it was lost."""

    def __init__(self, connected: socket.socket) -> None:
        self.received: list[bytes] = []
        self.lost: list[str] = []
        self.on_message: Callable[[bytes], None] = self.received.append
        self.descriptors: list[Descriptor] = []
        self.lane = Lane(connected, lambda data: self.on_message(data), self.lost.append, self.descriptors.extend)
        self.lane.release()


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


@given(
    st.lists(st.binary(max_size=50) | st.integers(0, 600_000).map(bytes), max_size=8),
    st.lists(st.floats(0, 1), max_size=6),
)
async def test_messages_are_whole_however_their_bytes_arrive(messages: list[bytes], cuts: list[float]) -> None:
    data = framed(*messages)
    ends = sorted({int(cut * len(data)) for cut in cuts} | {len(data)})
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    end = End(theirs)
    start = 0
    for stop in ends:
        await asyncio.get_running_loop().sock_sendall(ours, data[start:stop])
        start = stop
        await asyncio.sleep(0)
    await until(lambda: len(end.received) == len(messages))
    assert end.received == messages
    assert all(type(message) is bytes for message in end.received)
    end.lane.close()
    ours.close()


@given(st.binary(max_size=200) | st.lists(st.binary(max_size=5), max_size=20).map(lambda each: framed(*each)))
async def test_any_bytes_are_messages_or_the_end_of_the_lane(data: bytes) -> None:
    expected, rest, is_too_long = [], data, False
    while len(rest) >= 4 and not is_too_long:
        size = int.from_bytes(rest[:4], "little")
        is_too_long = size > MESSAGE_BYTES_MAX
        if is_too_long or len(rest) < 4 + size:
            break
        expected.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    ours, theirs = socket.socketpair()
    end = End(theirs)
    ours.send(data)
    ours.close()
    await until(lambda: end.lost)
    assert end.received == expected
    assert end.lost[0].endswith("was announced" if is_too_long else "the peer closed it")


async def test_many_small_messages_are_delivered_over_several_turns(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    end = End(theirs)
    loop = asyncio.get_running_loop()
    turns: list[int] = []

    def count_turns() -> None:
        turns.append(len(end.received))
        if len(end.received) < 1000:
            loop.call_soon(count_turns)

    messages = [b"%d" % number for number in range(1000)]
    ours.send(framed(*messages))
    count_turns()
    await until(lambda: len(end.received) == 1000)
    assert end.received == messages
    assert max(later - earlier for earlier, later in itertools.pairwise(turns)) <= 64
    end.lane.close()


async def test_messages_arrive_byte_by_byte(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    end = End(theirs)
    for byte in framed(b"one", b"", b"three"):
        ours.send(bytes((byte,)))
        await asyncio.sleep(0.001)
    assert end.received == [b"one", b"", b"three"]
    end.lane.close()


async def test_an_announced_length_is_checked_before_anything_is_allocated(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    end = End(theirs)
    ours.send(framed(b"good") + struct.pack("<I", MESSAGE_BYTES_MAX + 1) + b"rest")
    await until(lambda: end.lost)
    assert end.received == [b"good"]
    assert end.lost == [f"a message of {MESSAGE_BYTES_MAX + 1} bytes was announced"]
    assert not end.lane.is_open


async def test_garbage_loses_this_connection_only(sockets: tuple[socket.socket, socket.socket]) -> None:
    first, second = socket.socketpair()
    other, end = End(first), End(sockets[1])
    sockets[0].send(b"GET / HTTP/1.1\r\n\r\n")
    await until(lambda: end.lost)
    second.send(framed(b"unharmed"))
    await until(lambda: other.received)
    assert not other.lost
    other.lane.close()
    second.close()


async def test_the_end_of_the_peer_is_reported_once(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    end = End(theirs)
    ours.send(framed(b"last") + b"\5\0\0\0hal")
    ours.close()
    await until(lambda: end.lost)
    end.lane.send(b"dropped")
    end.lane.close()
    assert end.received == [b"last"]
    assert end.lost == ["the peer closed it"]


async def test_a_peer_that_has_gone_is_noticed_by_a_write(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    end = End(theirs)
    end.lane.hold()
    ours.close()
    end.lane.send(b"too late")
    assert len(end.lost) == 1
    assert end.lost[0].startswith("writing failed")


async def test_what_the_kernel_does_not_take_waits_in_order(sockets: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = End(sockets[0]), End(sockets[1])
    receiver.lane.hold()
    messages = [bytes([number]) * size for number, size in enumerate((10, 20 << 20, 5, 9000, 0, 3 << 20, 1))]
    for message in messages:
        sender.lane.send(message)
    assert sender.lane.pending_bytes > 10 << 20
    await asyncio.sleep(0.02)
    assert receiver.received == []
    assert sender.lane.pending_bytes > 10 << 20, "a reader that holds holds up its writer"
    receiver.lane.release()
    await until(lambda: len(receiver.received) == len(messages))
    assert receiver.received == messages
    assert sender.lane.pending_bytes == 0
    sender.lane.close()
    receiver.lane.close()


async def test_a_hold_in_the_middle_of_what_was_read_keeps_the_rest(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    end = End(theirs)
    messages = [b"%d" % number for number in range(100)]

    def hold_each(data: bytes) -> None:
        end.received.append(data)
        end.lane.hold()
        asyncio.get_running_loop().call_later(0.0001, end.lane.release)

    end.on_message = hold_each
    ours.send(framed(*messages))
    await until(lambda: len(end.received) == 100)
    assert end.received == messages
    end.lane.close()


async def test_a_hold_behind_a_large_message_keeps_what_followed_it(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    sender, receiver = End(sockets[0]), End(sockets[1])
    messages = [b"a" * READ_BYTES, b"b" * 100, b"c" * (READ_BYTES + 1), b"d", b"e" * (2 * READ_BYTES)]

    def hold_once(data: bytes) -> None:
        receiver.received.append(data)
        receiver.lane.hold()
        asyncio.get_running_loop().call_soon(receiver.lane.release)

    receiver.on_message = hold_once
    for message in messages:
        sender.lane.send(message)
    await until(lambda: len(receiver.received) == len(messages))
    assert receiver.received == messages
    sender.lane.close()
    receiver.lane.close()


async def test_a_message_delivered_while_its_lane_is_closed_is_the_last(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    end = End(theirs)

    def close(data: bytes) -> None:
        end.received.append(data)
        end.lane.close()

    end.on_message = close
    ours.send(framed(b"1", b"2"))
    await until(lambda: end.received)
    await asyncio.sleep(0.01)
    assert end.received == [b"1"]
    assert end.lost == []


async def test_packings_wait_for_what_was_sent_before_and_hold_up_what_is_sent_after(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    sender, receiver = End(sockets[0]), End(sockets[1])
    receiver.lane.hold()
    begun: list[int] = []

    async def pack(number: int) -> bytes:
        begun.append(number)
        await asyncio.sleep(0)
        return b"packed %d" % number

    sender.lane.send(b"x" * (20 << 20))
    sender.lane.send_when_packed(lambda: pack(1))
    sender.lane.send(b"y")
    sender.lane.send_when_packed(lambda: pack(2))
    await asyncio.sleep(0.01)
    assert begun == [], "nothing is packed that can't be sent"
    receiver.lane.release()
    await until(lambda: len(receiver.received) == 4)
    assert receiver.received[1:] == [b"packed 1", b"y", b"packed 2"]
    assert sender.lane.pending_bytes == 0
    sender.lane.close()
    receiver.lane.close()


async def test_a_packing_that_fails_loses_the_lane(sockets: tuple[socket.socket, socket.socket]) -> None:
    end = End(sockets[0])

    async def fail() -> bytes:
        raise RuntimeError("a bug")

    end.lane.send_when_packed(fail)
    await until(lambda: end.lost)
    assert end.lost == ["packing failed: a bug"]


# --- descriptors ---


async def test_a_descriptor_is_there_before_its_message(
    sockets: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = End(sockets[0]), End(sockets[1])
    counts: list[tuple[bytes, int]] = []
    theirs.on_message = lambda data: counts.append((data[:1], len(theirs.descriptors)))
    first = opened(tmp_path / "first", b"1")
    ours.lane.send(b"a")
    ours.lane.send(b"b", [first, opened(tmp_path / "second", b"2")])
    ours.lane.send(b"c" * 100_000)
    ours.lane.send(b"d", [opened(tmp_path / "third", b"3")])
    await until(lambda: len(counts) == 4)
    assert [data for data, _ in counts] == [b"a", b"b", b"c", b"d"]
    assert all(count >= needed for (_, count), needed in zip(counts, (0, 2, 2, 3), strict=True))
    contents = [os.pread(each.fileno(), 10, 0) for each in theirs.descriptors]
    assert contents == [b"1", b"2", b"3"]
    assert theirs.descriptors[0].fileno() != first.fileno()
    ours.lane.close()
    theirs.lane.close()


async def test_descriptors_wait_with_their_message_while_the_peer_does_not_read(
    sockets: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = End(sockets[0]), End(sockets[1])
    theirs.lane.hold()
    ours.lane.send(bytes(20_000_000))
    assert ours.lane.pending_bytes > 0
    for number in range(100):
        ours.lane.send(b"%d" % number, [opened(tmp_path / str(number), b"%d" % number)])
    assert not theirs.descriptors
    theirs.lane.release()
    await until(lambda: len(theirs.received) == 101)
    contents = [os.pread(each.fileno(), 10, 0) for each in theirs.descriptors]
    assert contents == theirs.received[1:]
    assert ours.lane.pending_bytes == 0
    ours.lane.close()
    theirs.lane.close()


async def test_a_process_that_may_open_no_more_files_loses_the_lane(
    sockets: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    """Descriptors that are missing would be taken for those behind them."""
    ours, theirs = End(sockets[0]), End(sockets[1])
    await asyncio.sleep(0)
    file = opened(tmp_path / "file", b"")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_free = os.dup(file.fileno())
    os.close(next_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_free + 2, hard))
    try:
        ours.lane.send(b"many", [file] * 50)
        await until(lambda: theirs.lost)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "may open no more files" in theirs.lost[0]
    assert theirs.received == []
    ours.lane.close()


async def test_descriptors_that_are_not_expected_are_closed(
    sockets: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    received: list[bytes] = []
    ours, theirs = End(sockets[0]), Lane(sockets[1], received.append, print)
    theirs.release()
    file = opened(tmp_path / "file", b"")
    before = len(os.listdir("/proc/self/fd"))
    ours.lane.send(b"message", [file] * 9)
    await until(lambda: received)
    assert len(os.listdir("/proc/self/fd")) == before
    ours.lane.close()
    theirs.close()
