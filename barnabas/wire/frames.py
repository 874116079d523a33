"""Split the bytes of a connection into frames: an int32 size, then that many bytes.

No I/O: call `feed` with what was received. A frame that is complete within a received chunk is a slice of it; only a
frame that arrives in parts is copied, once, when it is complete. What is held grows with what was received, whatever
size is declared.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from barnabas.wire.primitives import MalformedFrame

_SIZE: Final = Struct(">i")


_PART_BYTES_MIN: Final = 16 << 10
"""Smaller parts of a frame are gathered, so that a client that sends byte by byte does not have an object for each."""
_GATHERED_BYTES_MAX: Final = 64 << 10


class FrameSplitter:
    """One per connection and direction."""

    __slots__ = ("_missing_bytes", "_parts", "_size", "buffered_bytes", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        """`frame_bytes_max` is `socket.request.max.bytes`: the largest size that a frame may declare."""
        self.frame_bytes_max = frame_bytes_max
        """It may change between two calls of `feed`."""
        self._size = b""
        """The beginning of a size; empty within a frame."""
        self._missing_bytes = 0
        """What the frame in `_parts` lacks."""
        self._parts: list[bytes | bytearray | memoryview] = []
        self.buffered_bytes = 0
        """Bytes held for the frame that is still incomplete."""

    def feed(self, data: bytes) -> list[memoryview]:
        """Return the frames that `data` completes, in order, without their sizes.

        They are slices of `data` or, for a frame that came in parts, of these joined. Raises MalformedFrame for a size
        that is negative or too large; the stream has no meaning after it, so the frames before it in the same `data`
        are not worth answering either.
        """
        frames: list[memoryview] = []
        if not self.buffered_bytes:
            position = 0
        elif not self._size:
            position = self._feed_partial(data, frames)
            if position < 0:
                return frames
        else:
            # Rare, and a few bytes more than a copy of what has come.
            data, self._size = self._size + data, b""
            position = 0
        self.buffered_bytes = 0
        length = len(data)
        view = memoryview(data)
        while length - position >= 4:
            size = _SIZE.unpack_from(data, position)[0]
            if not 0 <= size <= self.frame_bytes_max:
                raise self._refusal(size)
            position += 4
            end = position + size
            if end > length:
                self._missing_bytes = end - length
                if position < length:
                    self._add_part(view[position:], length)
                self.buffered_bytes = 4 + length - position
                return frames
            frames.append(view[position:end])
            position = end
        if position < length:
            self._size = data[position:]
            self.buffered_bytes = length - position
        return frames

    def _feed_partial(self, data: bytes, frames: list[memoryview]) -> int:
        """Add to the incomplete frame what it lacks; return how much of `data` was used, or -1 if it lacks more."""
        missing = self._missing_bytes
        view = memoryview(data)
        if len(data) < missing:
            self._add_part(view, len(data))
            self._missing_bytes = missing - len(data)
            self.buffered_bytes += len(data)
            return -1
        self._parts.append(view[:missing])
        frames.append(memoryview(b"".join(self._parts)))
        self._parts = []
        return missing

    def _add_part(self, part: memoryview, received_bytes: int) -> None:
        """Keep a part of `received_bytes`, and little more memory than it has."""
        if len(part) >= _PART_BYTES_MIN:
            self._parts.append(part if 2 * len(part) >= received_bytes else bytes(part))
            return
        last = self._parts[-1] if self._parts else None
        if isinstance(last, bytearray) and len(last) < _GATHERED_BYTES_MAX:
            last += part
        else:
            self._parts.append(bytearray(part))

    def _refusal(self, size: int) -> MalformedFrame:
        return MalformedFrame(f"a frame of {size} bytes; at most {self.frame_bytes_max} are allowed")
