"""What the packers and scanners of the data channel share: protobuf's varints, and the one error of a bad message.

The rules of every packer: fields in ascending order, proto3 defaults left out, so that the bytes equal protobuf's
deterministic serialization. Integers must fit their field; a packer does not check the cores.

The rules of every scanner: all known fields have one-byte tags and are varints or length-delimited, so one loop reads
the tag and one varint (a value or a length) and then decides. Nothing is checked per field: an index past the data is
an IndexError, and a field that ends past its message is seen by the one comparison after the loop. Unknown fields are
skipped; a repeated scalar keeps its last value; integers wider than their field are cut to it, as protobuf does.
Refused although protobuf takes them, since no serializer writes them: groups and overlong tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from barnabas.channel.messages import Credit, Hello, Welcome

T = TypeVar("T")


class MalformedMessage(ValueError):  # noqa: N818 - it names what arrived
    """What a peer sent is not a message of the stream: the stream is to be closed."""


_TWO_BYTES: Final = 1 << 14
_FOUR_BYTES: Final = 1 << 28

# Varints of one and two bytes, and the low 14 bits of longer ones with both continuation bits set.
_SHORT: Final[list[bytes]] = [bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(_TWO_BYTES)]
_CONTINUED: Final[list[bytes]] = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(_TWO_BYTES)]


def varint(n: int) -> bytes:
    """A varint of 0 ≤ n < 2**64."""
    if 0 <= n < _TWO_BYTES:
        return _SHORT[n]
    if 0 <= n < _FOUR_BYTES:
        return _CONTINUED[n & 0x3FFF] + _SHORT[n >> 14]
    assert 0 <= n < 1 << 64, f"{n} does not fit an unsigned field"
    high = n >> 28
    return _CONTINUED[n & 0x3FFF] + _CONTINUED[n >> 14 & 0x3FFF] + varint(high)


def uint_field(tag: bytes, n: int) -> bytes:
    """A uint32, uint64 or bool field; nothing for 0."""
    if 0 < n < _TWO_BYTES:
        return tag + _SHORT[n]
    return tag + varint(n) if n else b""


def sint_field(tag: bytes, n: int) -> bytes:
    """A sint32 or sint64 field (zigzag); nothing for 0."""
    n = n + n if n >= 0 else -n - n - 1
    if 0 < n < _TWO_BYTES:
        return tag + _SHORT[n]
    return tag + varint(n) if n else b""


def int_field(tag: bytes, n: int) -> bytes:
    """An int32, int64 or enum field; negative ones take ten bytes; nothing for 0."""
    if 0 < n < _TWO_BYTES:
        return tag + _SHORT[n]
    return tag + varint(n & 0xFFFF_FFFF_FFFF_FFFF) if n else b""


def bytes_field(tag: bytes, data: bytes) -> bytes:
    """A short bytes or string field, copied; nothing when empty. Bulk goes into the parts of a message instead."""
    return tag + varint(len(data)) + data if data else b""


def message_field(tag: bytes, body: bytes) -> bytes:
    """A submessage that is present, even when empty."""
    return tag + varint(len(body)) + body


def packed_uints(tag: bytes, values: list[int]) -> bytes:
    """A packed repeated uint32 or uint64; nothing when empty."""
    return message_field(tag, b"".join([varint(n) for n in values])) if values else b""


def packed_ints(tag: bytes, values: list[int]) -> bytes:
    """A packed repeated int32; nothing when empty."""
    return message_field(tag, b"".join([varint(n & 0xFFFF_FFFF_FFFF_FFFF) for n in values])) if values else b""


def long_varint(data: bytes, position: int, value: int, tag: int) -> tuple[int, int]:
    """Go on with a varint whose first byte, `value`, is read and continues: (whole value, position after it).

    Where the tag says that no varint follows it (another wire type, or a longer tag) nothing is read: the field is
    unknown, and its scanner goes back to skip it whole.
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
    """(value, position after it); wire type 2 says that it is a length."""
    value = data[position]
    position += 1
    return long_varint(data, position, value, wire_type) if value > 0x7F else (value, position)


def skip_field(data: bytes, position: int) -> int:
    """The position after an unknown field that starts (with its tag) at `position`; it may be past the end."""
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


def varint_length(n: int) -> int:
    """How many bytes varint(n) has."""
    return max(1, (n.bit_length() + 6) // 7)


def signed32(value: int) -> int:
    """The int32 that a varint carries."""
    value &= 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def signed64(value: int) -> int:
    """The int64 that a varint carries."""
    return value - 0x1_0000_0000_0000_0000 if value & 0x8000_0000_0000_0000 else value


def scan_varints(data: bytes, position: int, end: int) -> list[int]:
    """The varints of one packed field, at most one per byte."""
    values: list[int] = []
    while position < end:
        value, position = read_varint(data, position)
        values.append(value)
    if position != end:
        raise MalformedMessage("a packed field ends inside a varint")
    return values


def scan_string(data: bytes, position: int, length: int) -> str:
    """A string field; protobuf strings are UTF-8."""
    try:
        return str(data[position : position + length], "utf-8")
    except UnicodeDecodeError:
        raise MalformedMessage("a string is not UTF-8") from None


def scan_message(scan: Callable[[bytes, memoryview, int, int], T], data: bytes) -> T:
    """Run the scanner of a stream's message over all of `data`."""
    try:
        return scan(data, memoryview(data), 0, len(data))
    except IndexError:
        raise MalformedMessage("a message is truncated") from None


def truncated(name: str) -> MalformedMessage:
    return MalformedMessage(f"a field of {name} ends outside of it")


# --- the messages that open streams ----------------------------------------------------------------------------------


def pack_hello(tag: bytes, hello: Hello) -> bytes:
    return message_field(
        tag, bytes_field(b"\x0a", hello.cluster_id.encode()) + bytes_field(b"\x12", hello.peer.encode())
    )


def scan_hello(data: bytes, position: int, end: int, known: Hello | None) -> Hello:
    """`known` is an earlier one of the same message: protobuf merges them."""
    hello = known or Hello("", "")
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x0A:
            hello.cluster_id = scan_string(data, position, value)
            position += value
        elif tag == 0x12:
            hello.peer = scan_string(data, position, value)
            position += value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("Hello")
    return hello


def pack_welcome(tag: bytes, welcome: Welcome) -> bytes:
    return message_field(tag, int_field(b"\x08", welcome.node_id) + int_field(b"\x10", welcome.broker_epoch))


def scan_welcome(data: bytes, position: int, end: int, known: Welcome | None) -> Welcome:
    welcome = known or Welcome(0, 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            welcome.node_id = signed32(value)
        elif tag == 0x10:
            welcome.broker_epoch = signed64(value)
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("Welcome")
    return welcome


def pack_credit(tag: bytes, credit: Credit) -> bytes:
    return message_field(tag, uint_field(b"\x08", credit.requests) + uint_field(b"\x10", credit.bytes))


def scan_credit(data: bytes, position: int, end: int, known: Credit | None) -> Credit:
    credit = known or Credit(0, 0)
    while position < end:
        start = position
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 0x7F:
            value, position = long_varint(data, position, value, tag)
        if tag == 0x08:
            credit.requests = value & 0xFFFF_FFFF
        elif tag == 0x10:
            credit.bytes = value
        else:
            position = skip_field(data, start)
    if position != end:
        raise truncated("Credit")
    return credit
