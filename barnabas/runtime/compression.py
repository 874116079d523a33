"""The four codecs of record batches, both ways. A batch's claims about its size are never trusted: every codec stops at
the limit that its caller gives, and a length is checked against the existing bytes before anything is allocated.

The output is what Kafka's own clients read: snappy in snappy-java's blocks, lz4 frames of independent blocks (KIP-57:
Java refuses linked ones). The input ends where it does for Java's consumers: see `_gunzip`, `_unsnappy` and
`barnabas.wire.lz4_frame`. In lz4 they refuse more than this does: see `end_of_javas_frame`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final

import cramjam

from barnabas.ports.compression import Buffer, Codecs
from barnabas.wire.lz4_frame import first_frame
from barnabas.wire.record_batch import Compression

# snappy-java's framing, which Java clients use: magic, two versions, then blocks preceded by their lengths.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_CONTINUED: Final = _XERIAL_MAGIC[:4]
"""What a header between two blocks begins with: more of its magic is not compared."""
_XERIAL_VERSION_MIN: Final = 1
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = Struct(">i")
# A copy of snappy's takes 3 bytes for at most 64. Data that claims more is not snappy, and its buffer is not allocated.
_SNAPPY_RATIO_MAX: Final = 22

# Larger ones come fresh from the kernel, which takes longer than filling one.
_FIRST_BUFFER_BYTES: Final = 64 * 1024
_GZIP_WINDOW_BITS: Final = 31
_DEFLATE_WINDOW_BITS: Final = -15
_GZIP_PIECE_BYTES: Final = 16 * 1024
_GZIP_HEADER_BYTES_MIN: Final = 10
_GZIP_MEMBER_BYTES_MIN: Final = 19
"""Java looks for another member only where more than 18 bytes follow."""
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP_TRAILER: Final = Struct("<II")
_GZIP_LENGTH: Final = Struct("<H")
_GZIP_HEADER_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 2, 4, 8, 16

_LEVEL_DEFAULTS: Final = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}
"""KIP-390; snappy has no levels."""


def decompress(codec: int, data: Buffer, limit: int) -> bytes | None:
    """Return the decompressed data; None if it is corrupt, of an unknown codec, or exceeds `limit` bytes or those that
    exist.
    """
    try:
        match codec:
            case Compression.GZIP:
                return _gunzip(data, limit)
            case Compression.SNAPPY:
                return _unsnappy(memoryview(data), limit)
            case Compression.LZ4:
                frame = first_frame(data)
                return None if frame is None else _into_buffer(cramjam.lz4.decompress_into, frame, limit)
            case Compression.ZSTD:
                return _into_buffer(cramjam.zstd.decompress_into, data, limit)
            case _:
                return None
    except (zlib.error, cramjam.DecompressionError, ValueError, MemoryError):
        return None


def compress(codec: int, data: Buffer, level: int | None) -> bytes:
    """`level` None is the codec's default."""
    known = Compression(codec)
    if level is None:
        level = _LEVEL_DEFAULTS.get(known, 0)
    match known:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            stream = zlib.compressobj(level, wbits=_GZIP_WINDOW_BITS)
            return stream.compress(data) + stream.flush()
        case Compression.SNAPPY:
            return _snappy(memoryview(data))
        case Compression.LZ4:
            compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=level))


CODECS: Final = Codecs(decompress, compress)


def _gunzip(data: Buffer, limit: int) -> bytes | None:
    """Decompress the members of the file as Java's GZIPInputStream does: what follows one is ignored unless it begins
    with the header of another.
    """
    view = memoryview(data)
    contents: list[bytes] = []
    position = _end_of_gzip_header(view, 0)
    while position >= 0:
        checksum = content_bytes = 0
        stream = zlib.decompressobj(_DEFLATE_WINDOW_BITS)
        while not stream.eof:
            # In pieces: zlib copies what follows a member, and many small ones would be copied many times.
            piece = view[position : position + _GZIP_PIECE_BYTES]
            if not piece:
                return None
            # For zlib a limit of 0 would mean none.
            content = stream.decompress(piece, limit + 1)
            limit -= len(content)
            if limit < 0:
                return None
            contents.append(content)
            checksum = zlib.crc32(content, checksum)
            content_bytes += len(content)
            position += len(piece) - len(stream.unused_data)
        trailer_end = position + _GZIP_TRAILER.size
        if trailer_end > len(view) or _GZIP_TRAILER.unpack_from(view, position) != (checksum, content_bytes):
            return None
        has_more = len(view) - trailer_end >= _GZIP_MEMBER_BYTES_MIN
        position = _end_of_gzip_header(view, trailer_end) if has_more else -1
    return b"".join(contents) if contents else None


def _end_of_gzip_header(view: memoryview, start: int) -> int:
    """Return where the header of a member ends that begins at `start`; -1 if there is none. Java ignores the reserved
    flags.
    """
    position = start + _GZIP_HEADER_BYTES_MIN
    if position > len(view) or bytes(view[start : start + len(_GZIP_MAGIC)]) != _GZIP_MAGIC:
        return -1
    flags = view[start + len(_GZIP_MAGIC)]
    if flags & _GZIP_EXTRA:
        if position + _GZIP_LENGTH.size > len(view):
            return -1
        position += _GZIP_LENGTH.size + _GZIP_LENGTH.unpack_from(view, position)[0]
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & flag:
            position = _after_zero(view, position)
            if position < 0:
                return -1
    if flags & _GZIP_HEADER_CRC:
        if position + _GZIP_LENGTH.size > len(view):
            return -1
        if _GZIP_LENGTH.unpack_from(view, position)[0] != zlib.crc32(view[start:position]) & 0xFFFF:
            return -1
        position += _GZIP_LENGTH.size
    return position if position <= len(view) else -1


def _after_zero(view: memoryview, position: int) -> int:
    """Return the position after the next zero; -1 if there is none."""
    while position < len(view):
        index = bytes(view[position : position + _GZIP_PIECE_BYTES]).find(0)
        if index >= 0:
            return position + index + 1
        position += _GZIP_PIECE_BYTES
    return -1


def _unsnappy(data: memoryview, limit: int) -> bytes | None:
    """Decompress one block, or the blocks of snappy-java's stream as its SnappyInputStream does: headers between the
    blocks are passed over, and up to three bytes at the end are ignored.
    """
    if len(data) < len(_XERIAL_HEADER) or bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_block(data, limit)
    blocks = []
    position = len(_XERIAL_HEADER)
    while len(data) - position >= _BLOCK_LENGTH.size:
        if bytes(data[position : position + _BLOCK_LENGTH.size]) == _XERIAL_CONTINUED:
            version_at = position + len(_XERIAL_MAGIC)
            position += len(_XERIAL_HEADER)
            if position > len(data) or _BLOCK_LENGTH.unpack_from(data, version_at)[0] < _XERIAL_VERSION_MIN:
                return None
            continue
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        # The length is whatever a producer wrote (CVE-2023-34455, CVE-2023-43642).
        if not 0 < length <= len(data) - position:
            return None
        block = _unsnappy_block(data[position : position + length], limit)
        if block is None:
            return None
        blocks.append(block)
        limit -= len(block)
        position += length
    return b"".join(blocks)


def _unsnappy_block(data: memoryview, limit: int) -> bytes | None:
    if cramjam.snappy.decompress_raw_len(data) > min(limit, _SNAPPY_RATIO_MAX * len(data)):
        return None
    return bytes(cramjam.snappy.decompress_raw(data))


def _snappy(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _into_buffer(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> bytes | None:
    """Decompress into a buffer that grows up to the limit: frames need not give their size, and may be wrong."""
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
