from __future__ import annotations

import struct

import pytest

from barnabas.wire.frames import FrameSplitter
from barnabas.wire.primitives import MalformedFrame


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def test_whole_frames_are_slices_of_the_chunk() -> None:
    chunk = framed(b"one", b"", b"three")
    splitter = FrameSplitter(100)
    frames = splitter.feed(chunk)
    assert [bytes(frame) for frame in frames] == [b"one", b"", b"three"]
    assert all(frame.obj is chunk for frame in frames)
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
    frames = splitter.feed(stream[:7]) + splitter.feed(stream[7:15]) + splitter.feed(stream[15:])
    assert [bytes(frame) for frame in frames] == [b"first", b"other"]


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


def test_a_promised_size_costs_no_memory() -> None:
    splitter = FrameSplitter(2**31 - 1)
    assert splitter.feed(struct.pack(">i", 2**31 - 1) + b"abc") == []
    assert splitter.buffered_bytes == 7
    assert splitter._partial.__sizeof__() < 1000
