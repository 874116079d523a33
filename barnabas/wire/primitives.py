"""Kafka's primitive types on the wire, read from and written to plain buffers.

Big-endian throughout. A read takes `(buffer, position)` and returns `(value, next position)`; a write returns bytes.
Nothing is allocated for a length or count before it has been checked against the remaining bytes, so a malicious peer
uses no more memory than it sends.

Source: https://kafka.apache.org/protocol.html#protocol_types; varints are protobuf's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

Buffer: TypeAlias = bytes | bytearray | memoryview
"""One-dimensional bytes: `len()` is the number of bytes."""

ZERO_UUID: Final = bytes(16)
"""Kafka's "no topic id"."""

STRING_BYTES_MAX: Final = 0x7FFF

ELEMENTS_MAX: Final = 1 << 17
"""Maximum of array elements and tagged fields in one request, all together. A peer that sends 100 MB of two-byte
elements would otherwise cause 5 GB of objects and half a minute of processor time. A request's objects are freed in one
turn: with this number in 20 ms. A fetch of 100,000 partitions fits."""

SHORT_ELEMENTS_MAX: Final = 512
"""The maximum for a request that is decoded and started at once. One with more is processed in steps (`Steps`)."""

T = TypeVar("T")
Steps: TypeAlias = Generator[int, None, T]
"""Work that is done a little at a time, and its result. Each `yield` gives the number of elements processed since the
previous one: the caller decides when the work continues."""

Decoder: TypeAlias = Callable[..., Any]
"""A function `(frame, position, elements_max=ELEMENTS_MAX) -> message`."""

TAGGED_FIELDS_MAX: Final = 1 << 10
"""Tagged fields in one struct or header. Kafka has at most five of them anywhere; skipping many only takes time, but
that before a client is authenticated."""

UVARINT_BYTES: Final = tuple(bytes((value,)) for value in range(0x80))
"""The encodings of one byte, precomputed: `UVARINT_BYTES[value]`."""

_INT16: Final = struct.Struct(">h")


class MalformedFrame(ValueError):  # noqa: N818 - it names what was received
    """The peer's bytes violate the protocol. The connection that sent them can't be trusted further."""


class TooManyElements(MalformedFrame):
    """There are more of them than this decoder accepts; nothing has been allocated for the excess."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits. Raises IndexError past the end, MalformedFrame past 32 bits."""
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    return continue_uvarint(buffer, position + 1, first)


def continue_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte, `first`, was already read and has its high bit set."""
    value = first & 0x7F
    for shift in (7, 14, 21):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    byte = buffer[position]
    if byte > 0x0F:
        raise MalformedFrame("a varint does not fit into 32 bits")
    return value | byte << 28, position + 1


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 32 bits."""
    value, position = read_uvarint(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 64 bits."""
    value = 0
    for shift in range(0, 63, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    byte = buffer[position]
    if byte > 0x01:
        raise MalformedFrame("a varlong does not fit into 64 bits")
    value |= byte << 63
    return (value >> 1) ^ -(value & 1), position + 1


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint; `value` is not negative."""
    if value < 0x80:
        return UVARINT_BYTES[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint(value: int) -> bytes:
    """Encode a zigzag varint; the same bytes are valid for varint and varlong."""
    if 0 <= value < _SMALL_VARINTS_END:
        return _SMALL_VARINTS[value]
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


_SMALL_VARINTS_END: Final = 1024
_SMALL_VARINTS: Final = [uvarint(value << 1) for value in range(_SMALL_VARINTS_END)]
"""Precomputed varints for lengths and deltas of records, most of what is encoded."""


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Read an int16 length, -1 for null, and UTF-8; what is none is read as U+FFFD, as by Kafka."""
    if len(buffer) - position < 2:
        raise MalformedFrame("the bytes end inside the length of a string")
    length: int = _INT16.unpack_from(buffer, position)[0]
    position += 2
    if length == -1:
        return None, position
    end = position + length
    if length < 0 or end > len(buffer):
        raise bad_length("string", length, len(buffer) - position)
    return str(buffer[position:end], "utf-8", "replace"), end


def nullable_string(value: str | None) -> bytes:
    """Write an int16 length, -1 for null, and UTF-8."""
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return _INT16.pack(len(encoded)) + encoded


def read_tag(buffer: Buffer, position: int, previous_tag: int) -> tuple[int, int, int]:
    """Read the head of one tagged field (KIP-482): `(tag, position of its value, end of its value)`.

    Tags must ascend, which also makes each of them unique; start with a `previous_tag` of -1.
    """
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    if tag <= previous_tag:
        raise MalformedFrame(f"tag {tag} follows tag {previous_tag}")
    end = position + size
    if end > len(buffer):
        raise bad_length(f"tag {tag}", size, len(buffer) - position)
    return tag, position, end


def skip_tags(buffer: Buffer, position: int, count: int) -> int:
    """Skip `count` unknown tagged fields; return the position after them."""
    check_tag_count(count, len(buffer) - position)
    tag = -1
    for _ in range(count):
        tag, _, position = read_tag(buffer, position, tag)
    return position


def fixed_array(frame: memoryview, position: int, count: int, element_format: str) -> list[Any]:
    """Read `count` values of a fixed size; raises struct.error past the end."""
    return list(struct.unpack_from(f">{count}{element_format}", frame, position))


def check_count(name: str, count: int, element_bytes_min: int, bytes_left: int) -> None:
    """Refuse a count of elements that the remaining bytes can't hold."""
    if count * element_bytes_min > bytes_left:
        raise MalformedFrame(f"{name}: {count} elements can't be in the {bytes_left} bytes that are left")


def check_tag_count(count: int, bytes_left: int) -> None:
    """Refuse a count of tagged fields of one struct or header, which has its own limit."""
    check_count("tagged fields", count, 2, bytes_left)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedFrame(f"{count} tagged fields in one struct")


def too_many_elements(name: str, elements_max: int) -> TooManyElements:
    """The error for the array with which a message exceeds its maximum of elements."""
    return TooManyElements(f"{name}: more than {elements_max} elements in one message")


def bad_length(name: str, length: int, bytes_left: int) -> MalformedFrame:
    """The error for a length that is negative, too long, or null although null is not allowed."""
    if length == -1:
        return MalformedFrame(f"{name}: null, and must not be")
    return MalformedFrame(f"{name}: a length of {length}, with {bytes_left} bytes left")


def tag_overrun(name: str, position: int, end: int) -> NoReturn:
    """The error for a tagged field whose value is shorter or longer than its size."""
    raise MalformedFrame(f"{name}: its size differs from its value by {position - end} bytes")
