from __future__ import annotations

import struct
import sys

import pytest

from barnabas.wire import frames
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.primitives import MalformedFrame


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def test_whole_frames_are_slices_of_the_chunk() -> None:
    chunk = framed(b"one", b"", b"three")
    splitter = FrameSplitter(100)
    found = splitter.feed(chunk)
    assert [bytes(frame) for frame in found] == [b"one", b"", b"three"]
    assert all(frame.obj is chunk for frame in found)
    assert splitter.buffered_bytes == 0


def test_a_frame_in_parts_is_held_back() -> None:
    splitter = FrameSplitter(100)
    chunk = framed(b"one", b"second")
    assert [bytes(frame) for frame in splitter.feed(chunk[:-3])] == [b"one"]
    assert splitter.buffered_bytes == 7
    assert [bytes(frame) for frame in splitter.feed(chunk[-3:] + framed(b"x"))] == [b"second", b"x"]
    assert splitter.buffered_bytes == 0


def test_bytes_one_by_one() -> None:
    splitter = FrameSplitter(100)
    stream = framed(b"one", b"", b"three")
    arrived = []
    for position in range(len(stream)):
        arrived += [(position, bytes(frame)) for frame in splitter.feed(stream[position : position + 1])]
    assert arrived == [(6, b"one"), (10, b""), (19, b"three")]


def test_an_assembled_frame_is_not_overwritten_by_the_next() -> None:
    splitter = FrameSplitter(100)
    stream = framed(b"first", b"other")
    found = splitter.feed(stream[:7]) + splitter.feed(stream[7:15]) + splitter.feed(stream[15:])
    assert [bytes(frame) for frame in found] == [b"first", b"other"]


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_a_size_out_of_bounds_is_malformed_before_its_body_comes(size: int) -> None:
    stream = struct.pack(">i", size)
    with pytest.raises(MalformedFrame, match=str(size)):
        FrameSplitter(100).feed(stream)
    splitter = FrameSplitter(100)
    assert splitter.feed(stream[:3]) == []
    with pytest.raises(MalformedFrame, match=str(size)):
        splitter.feed(stream[3:])


def test_the_largest_frame_is_allowed() -> None:
    assert [bytes(frame) for frame in FrameSplitter(100).feed(framed(bytes(100)))] == [bytes(100)]


def held_bytes(splitter: FrameSplitter) -> int:
    """Memory of what it holds, with the chunks that slices keep alive."""
    held = [part.obj if isinstance(part, memoryview) else part for part in splitter._parts]
    return sys.getsizeof(splitter._parts) + sum(map(sys.getsizeof, held))


def test_a_promised_size_costs_no_memory() -> None:
    splitter = FrameSplitter(2**31 - 1)
    assert splitter.feed(struct.pack(">i", 2**31 - 1) + b"abc") == []
    assert splitter.buffered_bytes == 7
    assert held_bytes(splitter) < 1000


@pytest.mark.parametrize("part_bytes", [1, 100, frames._PART_BYTES_MIN, frames._PART_BYTES_MIN + 1])
def test_a_frame_in_many_parts_takes_no_more_memory_than_it_has(part_bytes: int) -> None:
    splitter = FrameSplitter(2**31 - 1)
    splitter.feed(struct.pack(">i", 2**30))
    fed = 0
    while fed < 300_000:
        splitter.feed(bytes(part_bytes))
        fed += part_bytes
    assert splitter.buffered_bytes == fed + 4
    assert held_bytes(splitter) < 1.3 * fed + 1000


@pytest.mark.parametrize("part_bytes", [1, 100, 20_000, 400_000, 600_000])
def test_the_beginning_of_a_frame_does_not_keep_a_chunk_of_others(part_bytes: int) -> None:
    splitter = FrameSplitter(2**31 - 1)
    chunk = framed(bytes(1_000_000 - part_bytes)) + struct.pack(">i", 2**30) + bytes(part_bytes)
    assert len(splitter.feed(chunk)) == 1
    assert held_bytes(splitter) < 2.1 * part_bytes + 1000


def test_a_frame_cut_at_any_two_places_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds so small that every kind of part occurs."""
    monkeypatch.setattr(frames, "_PART_BYTES_MIN", 4)
    monkeypatch.setattr(frames, "_GATHERED_BYTES_MAX", 6)
    bodies = [b"", bytes(range(30)), b"x", bytes(range(100, 120))]
    stream = framed(*bodies)
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            splitter = FrameSplitter(100)
            arrived = [*splitter.feed(stream[:first]), *splitter.feed(stream[first:second])]
            assert splitter.buffered_bytes == second - sum(4 + len(frame) for frame in arrived)
            arrived += splitter.feed(stream[second:])
            assert [bytes(frame) for frame in arrived] == bodies
            assert splitter.buffered_bytes == 0
