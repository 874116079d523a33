"""The frame reader. However the bytes arrive in pieces, the same frames come out; a bad size raises MalformedFrame.

The first byte seeds where the bytes are cut.
"""

from __future__ import annotations

from random import Random

from barnabas.wire.frames import FrameSplitter
from barnabas.wire.primitives import MalformedFrame
from tests.fuzz.target import Target

_FRAME_BYTES_MAX = 1000


def check(data: bytes) -> None:
    stream = data[1:]
    whole, whole_fails = _feed([stream])
    random = Random(data[0] if data else 0)
    pieces = []
    while stream:
        length = random.choice((1, 2, 3, 4, 5, 50, 400))
        pieces.append(stream[:length])
        stream = stream[length:]
    parts, parts_fail = _feed(pieces)
    assert whole_fails == parts_fail
    # At a bad size the frames before it in the same piece are given up too.
    assert parts[: len(whole)] == whole
    assert whole_fails or parts == whole


def _feed(pieces: list[bytes]) -> tuple[list[bytes], bool]:
    splitter = FrameSplitter(_FRAME_BYTES_MAX)
    frames: list[bytes] = []
    fed = given = 0
    for piece in pieces:
        fed += len(piece)
        try:
            new = [bytes(frame) for frame in splitter.feed(piece)]
        except MalformedFrame:
            return frames, True
        assert all(len(frame) <= _FRAME_BYTES_MAX for frame in new)
        frames += new
        given += sum(len(frame) + 4 for frame in new)
        assert splitter.buffered_bytes == fed - given, "it holds what it was fed, no more"
    return frames, False


def build(random: Random) -> bytes:
    sizes = [random.choice((0, 1, 4, 30, 300)) for _ in range(random.randint(1, 6))]
    frames = b"".join(size.to_bytes(4, "big") + random.randbytes(size) for size in sizes)
    return random.randbytes(1) + frames[: random.choice((len(frames), random.randint(0, len(frames))))]


TARGET = Target("frames", check, build)
