"""Split the bytes of a connection into frames: an int32 size, then that many bytes.

No I/O: call `feed` with what was received. A frame that is complete within a received chunk is a slice of it; only a
frame that arrives in parts is copied to a buffer, which grows with what was received and never to the declared size at
once.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from barnabas.wire.primitives import MalformedFrame

_SIZE: Final = Struct(">i")


class FrameSplitter:
    """One per connection and direction."""

    __slots__ = ("_frame_bytes", "_partial", "buffered_bytes", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        """`frame_bytes_max` is `socket.request.max.bytes`: the largest size that a frame may declare."""
        self.frame_bytes_max = frame_bytes_max
        """It may change between two calls of `feed`."""
        self._frame_bytes = -1
        """Size of the frame in `_partial`, -1 while `_partial` holds less than a size."""
        self._partial = bytearray()
        self.buffered_bytes = 0
        """Bytes held for the frame that is still incomplete."""

    def feed(self, data: bytes) -> list[memoryview]:
        """Return the frames that `data` completes, in order, without their sizes.

        They are slices of `data` or, for a frame assembled from parts, a buffer that belongs to the receiver. Raises
        MalformedFrame for a size that is negative or too large; the stream has no meaning after it, so the frames
        before it in the same `data` are not worth answering either.
        """
        frames: list[memoryview] = []
        position = 0
        length = len(data)
        if self.buffered_bytes:
            position = self._feed_partial(data, frames)
            self.buffered_bytes = len(self._partial) + (0 if self._frame_bytes < 0 else 4)
            if position == length:
                return frames
        view = memoryview(data)
        while length - position >= 4:
            size = _SIZE.unpack_from(data, position)[0]
            if not 0 <= size <= self.frame_bytes_max:
                raise self._refusal(size)
            position += 4
            end = position + size
            if end > length:
                self._frame_bytes = size
                self._partial += view[position:]
                self.buffered_bytes = 4 + length - position
                return frames
            frames.append(view[position:end])
            position = end
        if position < length:
            self._partial += view[position:]
            self.buffered_bytes = length - position
        return frames

    def _feed_partial(self, data: bytes, frames: list[memoryview]) -> int:
        """Add to the incomplete frame what it lacks; return how much of `data` was used."""
        position = 0
        if self._frame_bytes < 0:
            position = 4 - len(self._partial)
            self._partial += data[:position]
            if len(self._partial) < 4:
                return len(data)
            size = _SIZE.unpack(self._partial)[0]
            if not 0 <= size <= self.frame_bytes_max:
                raise self._refusal(size)
            self._frame_bytes = size
            self._partial.clear()
        end = position + self._frame_bytes - len(self._partial)
        if end > len(data):
            self._partial += memoryview(data)[position:]
            return len(data)
        self._partial += memoryview(data)[position:end]
        frames.append(memoryview(self._partial))
        self._partial = bytearray()
        self._frame_bytes = -1
        return end

    def _refusal(self, size: int) -> MalformedFrame:
        return MalformedFrame(f"a frame of {size} bytes; at most {self.frame_bytes_max} are allowed")
