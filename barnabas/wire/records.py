"""The layout of a batch of magic 2, without creating objects: where each record and its parts are.

For code that has to look at every record (validation for compacted topics, compaction, older formats). The layout of a
record is Kafka's `DefaultRecord`: length, attributes, timestamp delta, offset delta, key, value, headers, with zigzag
varints for all lengths and deltas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from barnabas.wire.primitives import Buffer, MalformedFrame, read_varint, read_varlong

Outline: TypeAlias = tuple[int, int, int, int, int, int, int, int]
"""`(start, end, timestamp_delta, offset_delta, key_position, key_length, value_position, value_length)`: positions in
the payload, where `start` includes the record's own length; a length of -1 is null.
"""

_RECORD_BYTES_MIN: Final = 7
_HEADER_BYTES_MIN: Final = 2


def outline_records(payload: Buffer, records_count: int) -> Iterator[Outline]:
    """Return the outline of each record in `payload`, which follows a batch's header, decompressed.

    Raises MalformedFrame if the records are not exactly `records_count`, or one does not match its lengths. Numbers of
    one byte are read inline: there are millions of records, and calls are expensive.
    """
    size = len(payload)
    if not 0 <= records_count * _RECORD_BYTES_MIN <= size:
        raise MalformedFrame(f"{records_count} records in {size} bytes")
    position = 0
    try:
        for index in range(records_count):
            start = position
            length = payload[position]
            if length < 0x80:
                length = length >> 1 ^ -(length & 1)
                position += 1
            else:
                length, position = read_varint(payload, position)
            end = position + length
            if length < 0 or end > size:
                raise MalformedFrame(f"record {index} of {length} bytes where {size - position} are left")
            timestamp_delta, position = read_varlong(payload, position + 1)
            offset_delta, position = read_varint(payload, position)
            key_length = payload[position]
            if key_length < 0x80:
                key_length = key_length >> 1 ^ -(key_length & 1)
                key_position = position + 1
            else:
                key_length, key_position = read_varint(payload, position)
            position = key_position + key_length if key_length >= 0 else key_position
            if key_length < -1 or position > end:
                raise MalformedFrame(f"record {index} has a key of {key_length} bytes")
            value_length, value_position = read_varint(payload, position)
            position = value_position + value_length if value_length >= 0 else value_position
            if value_length < -1 or position > end:
                raise MalformedFrame(f"record {index} has a value of {value_length} bytes")
            if payload[position] == 0:
                position += 1
            else:
                position = _skip_headers(payload, position, end, index)
            if position != end:
                raise MalformedFrame(f"the length of record {index} differs from its fields by {position - end} bytes")
            yield start, end, timestamp_delta, offset_delta, key_position, key_length, value_position, value_length
    except IndexError:
        raise MalformedFrame(f"{records_count} records end too early") from None
    if position != size:
        raise MalformedFrame(f"{size - position} bytes follow the last record of a batch")


def largest_timestamp_delta(payload: Buffer, records_count: int) -> int:
    """Return the largest timestamp delta of `records_count` records. Raises MalformedFrame if `payload` is too short
    for them; nothing else of a record is looked at.
    """
    size = len(payload)
    if not 0 < records_count * _RECORD_BYTES_MIN <= size:
        raise MalformedFrame(f"{records_count} records in {size} bytes")
    position = 0
    largest = -(1 << 63)
    try:
        for index in range(records_count):
            length = payload[position]
            if length < 0x80:
                length = length >> 1 ^ -(length & 1)
                position += 1
            else:
                length, position = read_varint(payload, position)
            delta = payload[position + 1]
            if delta < 0x80:
                delta = delta >> 1 ^ -(delta & 1)
            else:
                delta, _ = read_varlong(payload, position + 1)
            position += length
            if length < 0 or position > size:
                raise MalformedFrame(f"record {index} of {length} bytes ends at {position} of {size}")
            if delta > largest:
                largest = delta
    except IndexError:
        raise MalformedFrame(f"{records_count} records end too early") from None
    return largest


def _skip_headers(payload: Buffer, position: int, end: int, index: int) -> int:
    count, position = read_varint(payload, position)
    if not 0 <= count * _HEADER_BYTES_MIN <= end - position:
        raise MalformedFrame(f"record {index} has {count} headers")
    for _ in range(count):
        name_length, position = read_varint(payload, position)
        if not 0 <= name_length <= end - position:
            raise MalformedFrame(f"record {index} has a header with a name of {name_length} bytes")
        value_length, position = read_varint(payload, position + name_length)
        if not -1 <= value_length <= end - position:
            raise MalformedFrame(f"record {index} has a header of {value_length} bytes")
        position += max(0, value_length)
    return position
