"""Frames of lz4, of which a batch has one: what Java's consumers read of it, and the checksum of its header.

Kafka's `Lz4BlockInputStream` is stricter than the format: blocks are independent of each other, there is no
dictionary, and nothing but the first frame is read. It is also more lenient: what follows that frame is ignored, and
neither the size nor the checksum of the content is compared. A frame that breaks its rules is refused from producers
(`end_of_javas_frame`), and read where it is in a log already (`first_frame`).

Kafka's clients up to 0.9 included the frame's magic number in the checksum of the header (KAFKA-3160, KIP-57); messages
of magic 0 keep that, since old consumers require it. Readers of magic 0 have to accept either.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from barnabas.wire.primitives import Buffer

_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLAGS_POSITION: Final = 4
_FIXED: Final = Struct("<4sBB")
"""The magic number, the flags and the size of blocks, with which a frame begins."""
_VERSION_AND_INDEPENDENCE: Final = 0xE3
"""Flags, the reserved and the dictionary's among them, that have only one value for Java."""
_OF_JAVA: Final = 0x60
_BLOCK_CHECKSUM_FLAG: Final = 0x10
_CONTENT_SIZE_FLAG: Final = 0x08
_CONTENT_CHECKSUM_FLAG: Final = 0x04
_DICTIONARY_FLAG: Final = 0x01
_CONTENT_SIZE_BYTES: Final = 8
_DICTIONARY_BYTES: Final = 4
_CHECKSUM_BYTES: Final = 4
_RESERVED_OF_SIZE: Final = 0x8F
_BLOCK_SIZE_MIN, _BLOCK_SIZE_MAX = 4, 7
_BLOCK_BYTES_MAX: Final = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
_BLOCK: Final = Struct("<I")
_BLOCK_BYTES_MASK: Final = 0x7FFF_FFFF
_END_MARK: Final = bytes(4)

UNREADABLE: Final = -1
MANY_BLOCKS: Final = -2

_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK: Final = 0xFFFF_FFFF


def end_of_javas_frame(payload: Buffer, blocks_max: int) -> int:
    """Return where the frame ends that Java's consumers read; UNREADABLE if they can't read it, MANY_BLOCKS if that
    takes looking at more than `blocks_max` blocks. The blocks themselves are not decompressed.
    """
    if len(payload) <= _FIXED.size:
        return UNREADABLE
    magic, flags, block_size = _FIXED.unpack_from(payload)
    if magic != _FRAME_MAGIC or flags & _VERSION_AND_INDEPENDENCE != _OF_JAVA or block_size & _RESERVED_OF_SIZE:
        return UNREADABLE
    position = _FIXED.size + (_CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE_FLAG else 0)
    if position >= len(payload) or block_size < _BLOCK_SIZE_MIN << 4:
        return UNREADABLE
    if payload[position] != _header_checksum(payload, flags, block_size, position):
        return UNREADABLE
    return _end_of_blocks(payload, position + 1, flags, block_size, blocks_max)


def _header_checksum(payload: Buffer, flags: int, block_size: int, end: int) -> int:
    if flags & _CONTENT_SIZE_FLAG:
        return xxh32(bytes(payload[_FLAGS_POSITION:end])) >> 8 & 0xFF
    return _CHECKSUMS[flags << 8 | block_size]


def _end_of_blocks(payload: Buffer, position: int, flags: int, block_size: int, blocks_max: int) -> int:
    block_bytes_max = _BLOCK_BYTES_MAX[(block_size >> 4) - _BLOCK_SIZE_MIN]
    size = len(payload)
    checksum_bytes = _CHECKSUM_BYTES if flags & _BLOCK_CHECKSUM_FLAG else 0
    for _ in range(blocks_max + 1):
        if position + _BLOCK.size > size:
            return UNREADABLE
        word: int = _BLOCK.unpack_from(payload, position)[0]
        position += _BLOCK.size
        length = word & _BLOCK_BYTES_MASK
        if length == 0:
            # A stored block of no bytes is an end as well.
            position += _CHECKSUM_BYTES if flags & _CONTENT_CHECKSUM_FLAG else 0
            return position if position <= size else UNREADABLE
        # One byte decompresses to nothing: Java's consumers stop there, though its broker goes on.
        if length > block_bytes_max or word == 1:
            return UNREADABLE
        position += length + checksum_bytes
    return MANY_BLOCKS


def first_frame(data: Buffer) -> Buffer | None:
    """Return the first frame in `data`, for a decoder that would read more of them, and compare what Java does not: it
    has neither size nor checksum of its content. None if it does not begin or end as one.
    """
    if len(data) <= _FIXED.size:
        return None
    magic, flags, block_size = _FIXED.unpack_from(data)
    if magic != _FRAME_MAGIC or not _BLOCK_SIZE_MIN <= block_size >> 4 <= _BLOCK_SIZE_MAX:
        return None
    position = _FIXED.size
    position += _CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE_FLAG else 0
    position += _DICTIONARY_BYTES if flags & _DICTIONARY_FLAG else 0
    end = _end_of_blocks(data, position + 1, flags, block_size, len(data))
    if end < 0 or data[position] != xxh32(bytes(data[_FLAGS_POSITION:position])) >> 8 & 0xFF:
        return None
    end -= _CHECKSUM_BYTES if flags & _CONTENT_CHECKSUM_FLAG else 0
    plain_flags = flags & ~(_CONTENT_SIZE_FLAG | _CONTENT_CHECKSUM_FLAG | _DICTIONARY_FLAG)
    if end == len(data) and plain_flags == flags and bytes(data[end - len(_END_MARK) : end]) == _END_MARK:
        return data
    fixed = bytes((plain_flags, block_size))
    header = b"".join((_FRAME_MAGIC, fixed, bytes((xxh32(fixed) >> 8 & 0xFF,))))
    return b"".join((header, data[position + 1 : end - len(_END_MARK)], _END_MARK))


def with_right_checksum(frame: Buffer) -> Buffer:
    """Return the frame with the checksum of the lz4 format, which every decoder requires; data that is not a frame is
    returned unchanged.
    """
    return _with_checksum(frame, _FLAGS_POSITION)


def with_checksum_of_magic_0(frame: Buffer) -> Buffer:
    return _with_checksum(frame, 0)


def _with_checksum(frame: Buffer, checked_from: int) -> Buffer:
    if len(frame) <= _FLAGS_POSITION or bytes(frame[:_FLAGS_POSITION]) != _FRAME_MAGIC:
        return frame
    flags = frame[_FLAGS_POSITION]
    position = _FLAGS_POSITION + 2 + 8 * bool(flags & _CONTENT_SIZE_FLAG)
    if position >= len(frame) or flags & _DICTIONARY_FLAG:
        return frame
    corrected = bytearray(frame)
    corrected[position] = xxh32(bytes(frame[checked_from:position])) >> 8 & 0xFF
    return bytes(corrected)


def xxh32(data: bytes) -> int:
    """xxHash, 32 bits, seed 0 (https://xxhash.com), of fewer than 16 bytes: no header has more."""
    assert len(data) < 16
    p1, p2, p3, p4, p5 = _PRIMES
    position = 0
    digest = p5
    digest = (digest + len(data)) & _MASK
    while len(data) - position >= 4:
        word = int.from_bytes(data[position : position + 4], "little")
        digest = _rotated(digest + word * p3, 17) * p4 & _MASK
        position += 4
    for byte in data[position:]:
        digest = _rotated(digest + byte * p5, 11) * p1 & _MASK
    digest = (digest ^ digest >> 15) * p2 & _MASK
    digest = (digest ^ digest >> 13) * p3 & _MASK
    return digest ^ digest >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK


_CHECKSUMS: Final = {
    flags << 8 | block_size: xxh32(bytes((flags, block_size))) >> 8 & 0xFF
    for flags in (_OF_JAVA, _OF_JAVA | _BLOCK_CHECKSUM_FLAG, _OF_JAVA | _CONTENT_CHECKSUM_FLAG, _OF_JAVA | 0x14)
    for block_size in range(_BLOCK_SIZE_MIN << 4, (_BLOCK_SIZE_MAX << 4) + 1, 0x10)
}
"""Of the headers that have no size of the content."""
