from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.frames import FrameSplitter


@given(st.lists(st.binary(max_size=30), max_size=8), st.data())
def test_every_chunking_gives_the_same_frames(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    splitter = FrameSplitter(30)
    received = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += splitter.feed(stream[start:end])
        held_back = end - sum(4 + len(frame) for frame in received)
        assert splitter.buffered_bytes == held_back
    assert [bytes(frame) for frame in received] == bodies
    assert splitter.buffered_bytes == 0
