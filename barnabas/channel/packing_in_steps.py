"""Pack and scan messages of thousands of partitions in steps: those of a Read, and the conditions of a park.

Whole, such a message takes 20 to 50 ms either way. A list of submessages may be cut anywhere between two of them: each
piece is packed, or scanned, as a message of its own by `barnabas.channel.generated.packing`; the bytes are the same. A
step is a partition or a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.channel.generated.packing import (
    pack_park_request,
    pack_read_request,
    scan_park_request,
    scan_read_request,
)
from barnabas.channel.messages import ParkFetch, ParkProduce, ParkRequest, Read, ReadRequest
from barnabas.channel.packing_primitives import (
    long_varint,
    message_field,
    read_varint,
    skip_field,
    truncated,
)
from barnabas.wire.primitives import Steps

ELEMENTS_AT_ONCE: Final = 250
"""Of one submessage: more are packed in steps."""
BYTES_AT_ONCE: Final = 8 << 10
"""Of one submessage, about as many elements: more are scanned in steps."""

_READS: Final = b"\x1a"
_PARTITIONS: Final = 0x22
_PRODUCES: Final = b"\x1a"
_CONDITIONS_OF_PRODUCE: Final = 0x1A
_FETCHES: Final = b"\x22"
_CONDITIONS_OF_FETCH: Final = 0x22
"""Tags of these fields."""


def is_long_read_request(request: ReadRequest) -> bool:
    """Whether it should be packed in steps."""
    for read in request.reads:  # noqa: SIM110 - asked for each message, without a generator
        if len(read.partitions) > ELEMENTS_AT_ONCE:
            return True
    return False


def is_long_park_request(request: ParkRequest) -> bool:
    """Whether it should be packed in steps."""
    for fetch in request.fetches:
        if len(fetch.conditions) > ELEMENTS_AT_ONCE:
            return True
    for produce in request.produces:  # noqa: SIM110 - as above
        if len(produce.conditions) > ELEMENTS_AT_ONCE:
            return True
    return False


def pack_read_request_in_steps(request: ReadRequest, at_once: int = ELEMENTS_AT_ONCE) -> Steps[bytes]:
    packed = [pack_read_request(ReadRequest(request.hello, request.heartbeat))]
    for read in request.reads:
        head = Read(read.request_id, read.bytes_max, read.isolation_level, [])
        tail = Read(0, 0, 0, [], read.rack_id, read.accepts_ranges)
        parts = [_body(pack_read_request(ReadRequest(reads=[head])))]
        for first in range(0, len(read.partitions), at_once):
            piece = Read(0, 0, 0, read.partitions[first : first + at_once])
            parts.append(_body(pack_read_request(ReadRequest(reads=[piece]))))
            yield len(piece.partitions)
        parts.append(_body(pack_read_request(ReadRequest(reads=[tail]))))
        packed.append(message_field(_READS, b"".join(parts)))
    packed.append(pack_read_request(ReadRequest(cancels=request.cancels, timed=request.timed)))
    return b"".join(packed)


def pack_park_request_in_steps(request: ParkRequest, at_once: int = ELEMENTS_AT_ONCE) -> Steps[bytes]:
    packed = [pack_park_request(ParkRequest(request.hello, request.heartbeat))]
    for produce in request.produces:
        whole = ParkProduce(produce.entry_id, produce.wait_ms, [])
        parts = [_body(pack_park_request(ParkRequest(produces=[whole])))]
        for first in range(0, len(produce.conditions), at_once):
            some = ParkProduce(0, 0, produce.conditions[first : first + at_once])
            parts.append(_body(pack_park_request(ParkRequest(produces=[some]))))
            yield len(some.conditions)
        packed.append(message_field(_PRODUCES, b"".join(parts)))
    for fetch in request.fetches:
        entry = ParkFetch(fetch.entry_id, fetch.wait_ms, fetch.bytes_wanted, [])
        parts = [_body(pack_park_request(ParkRequest(fetches=[entry])))]
        for first in range(0, len(fetch.conditions), at_once):
            piece = ParkFetch(0, 0, 0, fetch.conditions[first : first + at_once])
            parts.append(_body(pack_park_request(ParkRequest(fetches=[piece]))))
            yield len(piece.conditions)
        packed.append(message_field(_FETCHES, b"".join(parts)))
    packed.append(pack_park_request(ParkRequest(cancels=request.cancels, groups=request.groups, traced=request.traced)))
    return b"".join(packed)


def scan_read_request_in_steps(data: bytes, at_once: int = BYTES_AT_ONCE) -> Steps[ReadRequest]:
    """Raise MalformedMessage as `scan_read_request` does."""
    reads: list[Read] = []
    others: list[bytes] = []
    try:
        for start, end, is_read in _cut(data, 0, len(data), _READS[0], 1):
            yield 1
            if not is_read:
                others.append(data[start:end])
                continue
            pieces = _pieces(data, start, end, _READS, _PARTITIONS, at_once)
            (read,) = scan_read_request(next(pieces)).reads
            for piece in pieces:
                (part,) = scan_read_request(piece).reads
                read.partitions += part.partitions
                yield len(part.partitions)
            reads.append(read)
    except IndexError:
        raise truncated("ReadRequest") from None
    request = scan_read_request(b"".join(others))
    request.reads = reads
    return request


def scan_park_request_in_steps(data: bytes, at_once: int = BYTES_AT_ONCE) -> Steps[ParkRequest]:
    """Raise MalformedMessage as `scan_park_request` does."""
    produces: list[ParkProduce] = []
    fetches: list[ParkFetch] = []
    others: list[bytes] = []
    try:
        for start, end, is_fetch in _cut(data, 0, len(data), _FETCHES[0], 1):
            yield 1
            if is_fetch:
                pieces = _pieces(data, start, end, _FETCHES, _CONDITIONS_OF_FETCH, at_once)
                (fetch,) = scan_park_request(next(pieces)).fetches
                for piece in pieces:
                    (part,) = scan_park_request(piece).fetches
                    fetch.conditions += part.conditions
                    yield len(part.conditions)
                fetches.append(fetch)
            elif data[start] == _PRODUCES[0]:
                pieces = _pieces(data, start, end, _PRODUCES, _CONDITIONS_OF_PRODUCE, at_once)
                (produce,) = scan_park_request(next(pieces)).produces
                for piece in pieces:
                    (some,) = scan_park_request(piece).produces
                    produce.conditions += some.conditions
                    yield len(some.conditions)
                produces.append(produce)
            else:
                others.append(data[start:end])
    except IndexError:
        raise truncated("ParkRequest") from None
    request = scan_park_request(b"".join(others))
    request.produces, request.fetches = produces, fetches
    return request


def _body(packed: bytes) -> bytes:
    """Return the submessage of a message that has one field with a short tag."""
    _, position = read_varint(packed, 1, 2)
    return packed[position:]


def _pieces(data: bytes, start: int, end: int, tag: bytes, element_tag: int, at_once: int) -> Iterator[bytes]:
    """Yield messages with one submessage each, which together are that of the field `data[start:end]`: first all but
    its elements, or all of it if that is short.
    """
    _, position = read_varint(data, start + 1, 2)
    if end - position <= at_once:
        yield data[start:end]
        return
    elements: list[bytes] = []
    others: list[bytes] = []
    for first, last, is_element in _cut(data, position, end, element_tag, at_once):
        (elements if is_element else others).append(data[first:last])
    yield message_field(tag, b"".join(others))
    for piece in elements:
        yield message_field(tag, piece)


def _cut(data: bytes, position: int, end: int, tag: int, at_once: int) -> Iterator[tuple[int, int, bool]]:
    """Yield where each field of a message begins and ends, and whether it has this tag; fields that have it and follow
    each other together, until they are so many bytes. Raises MalformedMessage, and IndexError at the end of the data.
    """
    while position < end:
        start = position
        if data[position] != tag:
            position = skip_field(data, position)
            if position > end:
                raise truncated("a submessage")
            yield start, position, False
            continue
        while position < end and position - start < at_once and data[position] == tag:
            length = data[position + 1]
            position += 2
            if length > 0x7F:
                length, position = long_varint(data, position, length, tag)
            position += length
        if position > end:
            raise truncated("a submessage")
        yield start, position, True
