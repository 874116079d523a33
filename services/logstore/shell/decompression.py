"""Opens one compressed batch, for ListOffsets by timestamp. What a batch claims to hold is never believed: every codec
stops at the limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final

import cramjam

from barnabas.wire.record_batch import Compression

# snappy-java's framing, which Java clients use: magic, two versions, then blocks with their lengths in front.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_LENGTH: Final = Struct(">i")

_FIRST_BUFFER_BYTES: Final = 256 * 1024
_GZIP_WINDOW_BITS: Final = 31


def decompress(codec: int, data: memoryview, limit: int) -> bytes | None:
    """What `data` holds; None when it is broken, of an unknown codec, or holds more than `limit` bytes or there are."""
    try:
        match codec:
            case Compression.GZIP:
                return _gunzip(data, limit)
            case Compression.SNAPPY:
                return _unsnappy(data, limit)
            case Compression.LZ4:
                return _into_buffer(cramjam.lz4.decompress_into, data, limit)
            case Compression.ZSTD:
                return _into_buffer(cramjam.zstd.decompress_into, data, limit)
            case _:
                return None
    except (zlib.error, cramjam.DecompressionError, ValueError, MemoryError):
        return None


def _gunzip(data: memoryview, limit: int) -> bytes | None:
    stream = zlib.decompressobj(_GZIP_WINDOW_BITS)
    content = stream.decompress(data, limit)
    return content if stream.eof else None


def _unsnappy(data: memoryview, limit: int) -> bytes | None:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_block(data, limit)
    blocks = []
    position = _XERIAL_HEADER_BYTES
    while position + _BLOCK_LENGTH.size <= len(data):
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        block = _unsnappy_block(data[position : position + length], limit) if length > 0 else None
        if block is None:
            return None
        blocks.append(block)
        limit -= len(block)
        position += length
    return b"".join(blocks)


def _unsnappy_block(data: memoryview, limit: int) -> bytes | None:
    if cramjam.snappy.decompress_raw_len(data) > limit:
        return None
    return bytes(cramjam.snappy.decompress_raw(data))


def _into_buffer(decompress_into: Callable[[memoryview, bytearray], int], data: memoryview, limit: int) -> bytes | None:
    """Into a buffer that grows up to the limit: frames need not say how much they hold, and may lie."""
    size = min(limit, max(_FIRST_BUFFER_BYTES, 4 * len(data)))
    while True:
        buffer = bytearray(size)
        try:
            count = decompress_into(data, buffer)
        except (cramjam.DecompressionError, ValueError):
            if size == limit:
                return None
            size = min(limit, 8 * size)
        else:
            return bytes(memoryview(buffer)[:count])
