"""Message sets of magic 0 and 1, Kafka's formats before record batches (0.8 to 0.10): one message after the other.

An entry is offset (int64), size (int32), then the message: CRC-32 of what follows (not Castagnoli's), magic,
attributes, in magic 1 a timestamp, then key and value with int32 lengths, -1 for null. A compressed message's value is
a message set of its own; it wraps the others under the offset of its last, and in magic 1 (KIP-31) their offsets count
from the first. The lz4 frames of magic 0 have a wrong checksum in their header: see `barnabas.wire.lz4_frame`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from barnabas.wire.primitives import Buffer, MalformedFrame

MAGIC_0: Final = 0
MAGIC_1: Final = 1
ENTRY_HEADER_BYTES: Final = 12
MESSAGE_BYTES_MIN: Final = 14
"""The size of a message of magic 0 without key and value; also used to check whether a size is plausible."""
MAGIC_POSITION: Final = 16
"""The position of the first entry's magic: the same in every format."""

_COMPRESSION_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_NO_TIMESTAMP: Final = -1

_ENTRY: Final = Struct(">qi")
_HEAD_0: Final = Struct(">IBb")
_HEAD_1: Final = Struct(">IBbq")
_CHECKED_FROM: Final = 4
_LENGTH: Final = Struct(">i")


class Message(NamedTuple):
    """One entry as it is in the bytes: key and value are slices of them. The CRC was correct."""

    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    """-1 in magic 0, which has none."""
    key: memoryview | None
    value: memoryview | None

    @property
    def compression(self) -> int:
        return self.attributes & _COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.magic == MAGIC_1 and bool(self.attributes & _LOG_APPEND_TIME)


class CorruptMessage(MalformedFrame):
    """A message whose CRC or sizes are wrong; a plain MalformedFrame is one that makes no sense."""


def iterate_messages(buffer: Buffer) -> Iterator[Message]:
    """Yield each complete entry; an incomplete one at the end is left out, as fetches end with one.

    Raises CorruptMessage, and MalformedFrame for a magic of 2 or more.
    """
    view = memoryview(buffer)
    position = 0
    while len(view) - position >= ENTRY_HEADER_BYTES:
        offset, size = _ENTRY.unpack_from(view, position)
        if size < MESSAGE_BYTES_MIN:
            raise CorruptMessage(f"a message of {size} bytes at byte {position}")
        start = position + ENTRY_HEADER_BYTES
        position = start + size
        if position > len(view):
            return
        yield _parse_message(view[start:position], offset)


def _parse_message(message: memoryview, offset: int) -> Message:
    crc, magic, attributes = _HEAD_0.unpack_from(message)
    if magic > MAGIC_1:
        raise MalformedFrame(f"a message of magic {magic} in a message set")
    if zlib.crc32(message[_CHECKED_FROM:]) != crc:
        raise CorruptMessage(f"the CRC of the message at offset {offset} is wrong")
    timestamp_ms = _NO_TIMESTAMP
    position = _HEAD_0.size
    if magic == MAGIC_1:
        if len(message) < _HEAD_1.size:
            raise CorruptMessage(f"the message at offset {offset} ends inside its header")
        timestamp_ms = _HEAD_1.unpack_from(message)[3]
        position = _HEAD_1.size
    key, position = _read_nullable(message, position)
    value, position = _read_nullable(message, position)
    if position != len(message):
        raise CorruptMessage(f"{len(message) - position} bytes follow the message at offset {offset}")
    return Message(offset, magic, attributes, timestamp_ms, key, value)


def _read_nullable(message: memoryview, position: int) -> tuple[memoryview | None, int]:
    if len(message) - position < _LENGTH.size:
        raise CorruptMessage("a message ends inside the length of its key or value")
    length: int = _LENGTH.unpack_from(message, position)[0]
    position += _LENGTH.size
    if length == -1:
        return None, position
    if not 0 <= length <= len(message) - position:
        raise CorruptMessage(f"a key or value of {length} bytes where {len(message) - position} are left")
    return message[position : position + length], position + length


def encode_message(
    offset: int,
    magic: int,
    key: Buffer | None,
    value: Buffer | None,
    *,
    timestamp_ms: int = _NO_TIMESTAMP,
    compression: int = 0,
    is_log_append_time: bool = False,
) -> bytes:
    """Encode one entry. Magic 0 has neither a timestamp nor its type."""
    if magic == MAGIC_1:
        attributes = compression | _LOG_APPEND_TIME * is_log_append_time
        head = _HEAD_1.pack(0, magic, attributes, timestamp_ms)[_CHECKED_FROM:]
    else:
        head = _HEAD_0.pack(0, magic, compression)[_CHECKED_FROM:]
    checked = b"".join((head, _length_of(key), key or b"", _length_of(value), value or b""))
    size = _CHECKED_FROM + len(checked)
    return _ENTRY.pack(offset, size) + zlib.crc32(checked).to_bytes(_CHECKED_FROM, "big") + checked


def _length_of(content: Buffer | None) -> bytes:
    return _LENGTH.pack(-1 if content is None else len(content))
