"""What packers and scanners of the data channel share: protobuf's varints, and the error for malformed messages.

Unknown fields are skipped. Groups and overlong tags are refused although protobuf accepts them, since no serializer
writes them.
"""

from __future__ import annotations

from typing import Final


class MalformedMessage(ValueError):  # noqa: N818 - it names what arrived
    """What a peer sent is not a message of the stream, which must be closed."""


SHORT_VARINTS_END: Final = 1 << 14
_FOUR_BYTES: Final = 1 << 28

# Varints of one and two bytes, and the low 14 bits of longer ones with both continuation bits set.
SHORT_VARINTS: Final[list[bytes]] = [
    bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(SHORT_VARINTS_END)
]
_CONTINUED: Final[list[bytes]] = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(SHORT_VARINTS_END)]


def varint(n: int) -> bytes:
    """Return the varint of 0 ≤ n < 2**64."""
    if 0 <= n < SHORT_VARINTS_END:
        return SHORT_VARINTS[n]
    if 0 <= n < _FOUR_BYTES:
        return _CONTINUED[n & 0x3FFF] + SHORT_VARINTS[n >> 14]
    assert 0 <= n < 1 << 64, f"{n} does not fit an unsigned field"
    high = n >> 28
    return _CONTINUED[n & 0x3FFF] + _CONTINUED[n >> 14 & 0x3FFF] + varint(high)


def message_field(tag: bytes, body: bytes) -> bytes:
    """Pack a submessage that is present, even if empty."""
    return tag + varint(len(body)) + body


def packed_uints(tag: bytes, values: list[int]) -> bytes:
    """Pack a repeated uint32 or uint64; empty if there is none."""
    return message_field(tag, b"".join([varint(n) for n in values])) if values else b""


def packed_ints(tag: bytes, values: list[int]) -> bytes:
    """Pack a repeated int32; empty if there is none."""
    return message_field(tag, b"".join([varint(n & 0xFFFF_FFFF_FFFF_FFFF) for n in values])) if values else b""


def long_varint(data: bytes, position: int, value: int, tag: int) -> tuple[int, int]:
    """Continue a varint whose first byte, `value`, is read and has its high bit set: return (value, position after it).

    If the tag means that no varint follows (another wire type, or a longer tag) nothing is read: the field is unknown,
    and its scanner goes back to skip it completely.
    """
    if tag & 0x85:
        return value, position
    byte = data[position]
    value = value & 0x7F | (byte & 0x7F) << 7
    position += 1
    shift = 14
    while byte > 0x7F:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift == 70:
            if byte > 0x7F:
                raise MalformedMessage("a varint is longer than ten bytes")
            value &= 0xFFFF_FFFF_FFFF_FFFF
    if shift > 35 and tag & 7 == 2:
        raise MalformedMessage("a length is longer than five bytes")
    return value, position


def read_varint(data: bytes, position: int, wire_type: int = 0) -> tuple[int, int]:
    """Return (value, position after it); for wire type 2 it is a length."""
    value = data[position]
    position += 1
    return long_varint(data, position, value, wire_type) if value > 0x7F else (value, position)


def skip_field(data: bytes, position: int) -> int:
    """Return the position after an unknown field that starts (with its tag) at `position`; it may be past the end."""
    tag, after_tag = read_varint(data, position)
    if tag >> 3 == 0 or tag >> 32:
        raise MalformedMessage("a tag has no valid field number")
    if varint_length(tag) != after_tag - position:
        raise MalformedMessage("a tag is longer than it needs to be")
    match tag & 7:
        case 0:
            return read_varint(data, after_tag)[1]
        case 1:
            return after_tag + 8
        case 2:
            length, after_length = read_varint(data, after_tag, 2)
            return after_length + length
        case 5:
            return after_tag + 4
        case wire_type:
            raise MalformedMessage(f"wire type {wire_type} is not served")


def skip_unknown(data: bytes, position: int, tag: int, value: int) -> int:
    """Return the position after an unknown field; it may be past the end.

    `tag` is the first byte of its tag, `value` the varint after that as `long_varint` read it, `position` after both.
    """
    if tag & 0x85:
        return skip_field(data, position - 2)
    if tag < 8:
        raise MalformedMessage("a tag has no valid field number")
    return position + value if tag & 2 else position


def varint_length(n: int) -> int:
    """Return how many bytes varint(n) has."""
    return max(1, (n.bit_length() + 6) // 7)


def signed32(value: int) -> int:
    """Return the int32 that a varint represents."""
    value &= 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def signed64(value: int) -> int:
    """Return the int64 that a varint represents."""
    return value - 0x1_0000_0000_0000_0000 if value & 0x8000_0000_0000_0000 else value


def scan_varints(data: bytes, position: int, end: int) -> list[int]:
    """Return the varints of one packed field, at most one per byte."""
    values: list[int] = []
    while position < end:
        value, position = read_varint(data, position)
        values.append(value)
    if position != end:
        raise MalformedMessage("a packed field ends inside a varint")
    return values


def scan_string(data: bytes, position: int, length: int) -> str:
    """Read a string field; protobuf strings are UTF-8."""
    try:
        return str(data[position : position + length], "utf-8")
    except UnicodeDecodeError:
        raise MalformedMessage("a string is not UTF-8") from None


def truncated(name: str) -> MalformedMessage:
    return MalformedMessage(f"a field of {name} ends outside of it")
