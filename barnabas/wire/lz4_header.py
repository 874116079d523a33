"""The checksum of an lz4 frame's header: the correct one, and the one that Kafka's clients wrote in messages of magic
0.

Up to 0.9 they included the frame's magic number in it (KAFKA-3160, KIP-57); messages of magic 0 keep that, since old
consumers require it. Readers of magic 0 have to accept either.
"""

from __future__ import annotations

from typing import Final

from barnabas.wire.primitives import Buffer

_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLAGS_POSITION: Final = 4
_CONTENT_SIZE_FLAG: Final = 0x08
_DICTIONARY_FLAG: Final = 0x01

_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK: Final = 0xFFFF_FFFF


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
    """xxHash, 32 bits, seed 0 (https://xxhash.com), of fewer than 16 bytes, which no header of ours reaches."""
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
