"""Records into Arrow columns, many at once.

A record in Python costs a few microseconds as an object, and half a microsecond here: only the walk from record to
record is a loop, since where one starts the one before says. All fields are then read over columns of positions
(`varints`), and keys and values are taken out of the buffer by Arrow, as elements of one array of pieces laid over it:
key, what is between, value, what follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from barnabas.wire.primitives import MalformedFrame, read_varint
from barnabas.wire.record_batch import BatchHeader
from barnabas_pipeline.core.errors import CorruptBatch
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.kafka.batches import Payloads
from barnabas_pipeline.kafka.varints import VARLONG_BYTES_MAX, read_varints

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
"""The columns of spark-sql-kafka, in its order."""
SCHEMA_WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", HEADERS_TYPE))

_PIECES: Final = 4
_SECONDS_MAX: Final = (1 << 63) // 1_000_000 - 1
ROWS_MAX: Final = 1 << 20
"""Of one record batch: its column of the topic's name, of up to 249 bytes each, has no room for 2 GiB."""
HEADERS_MAX: Final = 1 << 26
"""Of one record: each takes 32 bytes or more of a row of Spark's, which has no room for 2 GiB."""
_ROUNDS_MAX: Final = 64
_WALKED_AT_ONCE: Final = 1 << 16
_HEADER_TOO_LONG: Final = "a record header that is longer than its record"


@dataclass(slots=True)
class _Stretch:
    """Records that follow each other: of each batch the header and how many of its records these are, and where each
    record starts. `is_continued`: the first ones are not the first of their batch."""

    headers: list[BatchHeader] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    is_continued: bool = False


class _Fields(NamedTuple):
    """Of a stretch, an element for each record; of `edges` four, where key and value start and end, and one more.
    Headers lie between `value_ends` and `ends`."""

    offset_deltas: Any
    timestamp_deltas: Any
    is_null_key: Any
    is_null_value: Any
    edges: Any
    value_ends: Any
    ends: Any


class _FoundHeaders(NamedTuple):
    """How many each record has, and where they start and end."""

    counts: Any
    positions: Any
    ends: Any


def to_record_batches(
    partition: TopicPartition, payloads: Payloads, start: int, end: int, *, with_headers: bool
) -> Iterator[pa.RecordBatch]:
    """The records with offsets in [start, end), in order, by SCHEMA or SCHEMA_WITH_HEADERS, in record batches of at
    most ROWS_MAX, none of them empty. Raises CorruptBatch."""
    try:
        yield from _to_record_batches(partition, payloads, start, end, with_headers)
    except (MalformedFrame, IndexError) as error:
        first, last = payloads.headers[0].base_offset, payloads.headers[-1].last_offset
        raise CorruptBatch(f"{partition}: records between offsets {first} and {last} can't be read: {error}") from None


def _to_record_batches(
    partition: TopicPartition, payloads: Payloads, start: int, end: int, with_headers: bool
) -> Iterator[pa.RecordBatch]:
    buffer = np.frombuffer(payloads.buffer, dtype=np.uint8)
    delta_before = -1
    for stretch in _stretches(payloads):
        fields = _read_fields(buffer, stretch)
        _check_offset_deltas(stretch, fields.offset_deltas, delta_before if stretch.is_continued else -1)
        delta_before = int(fields.offset_deltas[-1])
        offsets = np.repeat([header.base_offset for header in stretch.headers], stretch.counts) + fields.offset_deltas
        in_range = np.flatnonzero((offsets >= start) & (offsets < end))
        if not len(in_range):
            continue
        pieces = _pieces(buffer, fields.edges)
        headers = _find_headers(buffer, fields, in_range) if with_headers else None
        for rows in [slice(None)] if headers is None else _runs(headers.counts):
            wanted = in_range[rows]
            columns = [
                pieces.take(_numbers(pa.int64(), wanted * _PIECES, fields.is_null_key[wanted])),
                pieces.take(_numbers(pa.int64(), wanted * _PIECES + 2, fields.is_null_value[wanted])),
                _same_text(partition.topic, len(wanted)),
                _numbers(pa.int32(), np.full(len(wanted), partition.partition)),
                _numbers(pa.int64(), offsets[wanted]),
                *_timestamps(stretch, fields.timestamp_deltas, wanted),
            ]
            if headers is not None:
                columns.append(_headers(payloads.buffer, buffer, _FoundHeaders(*(each[rows] for each in headers))))
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS if with_headers else SCHEMA)


def _stretches(payloads: Payloads) -> Iterator[_Stretch]:
    """All records, at most ROWS_MAX at once: of some bytes each, they would take a hundred times their room."""
    stretch = _Stretch()
    for (position, end), header in zip(payloads.spans, payloads.headers, strict=True):
        left = header.records_count
        while left:
            count = min(left, ROWS_MAX - len(stretch.starts))
            position = _walk(payloads.buffer, position, count, stretch.starts)
            stretch.headers.append(header)
            stretch.counts.append(count)
            left -= count
            if len(stretch.starts) == ROWS_MAX:
                yield stretch
                stretch = _Stretch(is_continued=left > 0)
        if position != end:
            raise MalformedFrame(
                f"the batch at offset {header.base_offset} ends {position - end} bytes off its {header.records_count} "
                "records"
            )
    if stretch.starts:
        yield stretch


def _walk(buffer: bytes, position: int, count: int, starts: list[int]) -> int:
    """Adds to `starts` where each of `count` records starts; returns where the last one ends. The one loop over
    records: along their lengths, nothing in it but that."""
    add = starts.append
    for _ in range(count):
        add(position)
        first = buffer[position]
        if first < 0x80:
            position += 1 + (first >> 1)
        elif (second := buffer[position + 1]) < 0x80:
            position += 2 + ((first & 0x7F | second << 7) >> 1)
        else:
            length, position = read_varint(buffer, position)
            if length < 0:
                raise MalformedFrame(f"a record of {length} bytes")
            position += length
    return position


def _read_fields(buffer: Any, stretch: _Stretch) -> _Fields:
    lengths, positions = read_varints(buffer, np.array(stretch.starts, dtype=np.int64))
    ends = positions + lengths
    timestamp_deltas, positions = read_varints(buffer, positions + 1, VARLONG_BYTES_MAX)
    offset_deltas, positions = read_varints(buffer, positions)
    key_lengths, key_starts = read_varints(buffer, np.minimum(positions, ends))
    key_ends = key_starts + np.maximum(key_lengths, 0)
    value_lengths, value_starts = read_varints(buffer, np.minimum(key_ends, ends))
    value_ends = value_starts + np.maximum(value_lengths, 0)
    if np.any(value_ends >= ends) or np.any(key_lengths < -1) or np.any(value_lengths < -1):
        raise MalformedFrame("a record is shorter than its fields")
    edges = np.empty(len(ends) * _PIECES + 1, dtype=np.int32)
    for index, column in enumerate((key_starts, key_ends, value_starts, value_ends)):
        edges[index:-1:_PIECES] = column
    return _Fields(offset_deltas, timestamp_deltas, key_lengths < 0, value_lengths < 0, edges, value_ends, ends)


def _check_offset_deltas(stretch: _Stretch, deltas: Any, before_first: int) -> None:
    """They rise within a batch, from 0 to its header's last at most: else an offset comes twice, or is passed over."""
    afters = np.cumsum(stretch.counts)
    before = np.empty_like(deltas)
    before[1:] = deltas[:-1]
    before[afters - stretch.counts] = -1
    before[0] = before_first
    if np.any(deltas <= before) or np.any(deltas[afters - 1] > [each.last_offset_delta for each in stretch.headers]):
        raise MalformedFrame("offsets that don't rise from record to record within their batch")


def _pieces(buffer: Any, edges: Any) -> pa.Array:
    """A binary array over the whole buffer, without a copy: a piece between any two neighbours of `edges`, which rise;
    the last one is set here."""
    edges[-1] = edges[-2]
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(buffer)])


def _numbers(kind: pa.DataType, values: Any, is_null: Any = None) -> pa.Array:
    """A column of 4 or 8 bytes each. Built of its buffers: `pa.array` would bring all of pandas into every worker."""
    validity = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    contiguous = np.ascontiguousarray(values, dtype=np.int32 if kind.bit_width == 32 else np.int64)
    return pa.Array.from_buffers(kind, len(contiguous), [validity, pa.py_buffer(contiguous)])


def _same_text(text: str, count: int) -> pa.Array:
    encoded = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(encoded * count)])


def _timestamps(stretch: _Stretch, deltas: Any, wanted: Any) -> tuple[pa.Array, pa.Array]:
    """Times in microseconds, null where 64 bits don't hold them; and their types."""
    is_append_time = np.array([header.is_log_append_time for header in stretch.headers])
    bases = np.array(
        [header.max_timestamp if header.is_log_append_time else header.base_timestamp for header in stretch.headers],
        dtype=np.int64,
    )
    is_append_time_of = np.repeat(is_append_time, stretch.counts)[wanted]
    times_ms = np.repeat(bases, stretch.counts)[wanted] + np.where(is_append_time_of, 0, deltas[wanted])
    # Producers that give nanoseconds for milliseconds: no column of microseconds has room for them.
    is_too_long = np.abs(times_ms // 1000) > _SECONDS_MAX
    return (
        _numbers(
            pa.timestamp("us", tz="UTC"),
            np.where(is_too_long, 0, times_ms) * 1000,
            is_too_long if np.any(is_too_long) else None,
        ),
        _numbers(pa.int32(), is_append_time_of),
    )


def _find_headers(buffer: Any, fields: _Fields, wanted: Any) -> _FoundHeaders:
    ends = fields.ends[wanted]
    counts, positions = read_varints(buffer, fields.value_ends[wanted])
    if np.any(counts < 0) or np.any(2 * counts > ends - positions):
        raise MalformedFrame("a record with more headers than bytes")
    if np.any(counts > HEADERS_MAX):
        raise MalformedFrame(f"a record with {counts.max()} headers, where a row of Spark's has room for {HEADERS_MAX}")
    return _FoundHeaders(counts, positions, ends)


def _runs(counts: Any) -> Iterator[slice]:
    """Rows that follow each other: with ROWS_MAX headers at most, or one row."""
    sums = np.cumsum(counts)
    first = 0
    while first < len(counts):
        before = sums[first - 1] if first else 0
        after = max(first + 1, int(np.searchsorted(sums, before + ROWS_MAX, side="right")))
        yield slice(first, after)
        first = after


def _headers(data: bytes, buffer: Any, found: _FoundHeaders) -> pa.Array:
    """The headers column. All records' first headers are read at once, then all second ones, and so on; what is left
    after _ROUNDS_MAX, one by one: rounds for a few records with very many headers would take hours."""
    counts, positions, ends = found
    list_offsets = np.concatenate(([0], np.cumsum(counts)))
    total = int(list_offsets[-1])
    edges = np.zeros(total * _PIECES + 1, dtype=np.int32)
    is_null = np.zeros(total, dtype=bool)
    rows = np.flatnonzero(counts)
    for index in range(_ROUNDS_MAX):
        if not rows.size:
            break
        name_lengths, name_starts = read_varints(buffer, np.minimum(positions[rows], ends[rows]))
        name_ends = name_starts + name_lengths
        value_lengths, value_starts = read_varints(buffer, np.minimum(np.maximum(name_ends, 0), ends[rows]))
        value_ends = value_starts + np.maximum(value_lengths, 0)
        if np.any(name_lengths < 0) or np.any(value_lengths < -1) or np.any(value_ends > ends[rows]):
            raise MalformedFrame(_HEADER_TOO_LONG)
        at = list_offsets[rows] + index
        for piece, column in enumerate((name_starts, name_ends, value_starts, value_ends)):
            edges[at * _PIECES + piece] = column
        is_null[at] = value_lengths < 0
        positions[rows] = value_ends
        rows = rows[counts[rows] > index + 1]
    for row in rows:
        first, after = int(list_offsets[row]) + _ROUNDS_MAX, int(list_offsets[row + 1])
        positions[row] = _walk_headers(data, int(positions[row]), int(ends[row]), edges, is_null, first, after)
    if np.any(positions != ends):
        raise MalformedFrame("the length of a record differs from its fields")
    struct = pa.StructArray.from_arrays(_header_columns(edges, is_null, buffer), fields=list(HEADERS_TYPE.value_type))
    # The JVM connector says null, and not an empty list, of a record without headers.
    offsets = _numbers(pa.int32(), list_offsets, np.append(counts == 0, False))
    return pa.ListArray.from_arrays(offsets, struct, type=HEADERS_TYPE)


def _walk_headers(data: bytes, position: int, end: int, edges: Any, is_null: Any, first: int, after: int) -> int:
    """Reads the headers `first` to `after` of `edges`, all of one record, which lie from `position` to `end` at most;
    returns where the last one ends."""
    for since in range(first, after, _WALKED_AT_ONCE):
        until = min(since + _WALKED_AT_ONCE, after)
        walked: list[int] = []
        nulls: list[bool] = []
        for _ in range(since, until):
            name_length, name_start = read_varint(data, position)
            name_end = name_start + name_length
            if name_length < 0 or name_end >= end:
                raise MalformedFrame(_HEADER_TOO_LONG)
            value_length, value_start = read_varint(data, name_end)
            position = value_start + value_length if value_length > 0 else value_start
            if value_length < -1 or position > end:
                raise MalformedFrame(_HEADER_TOO_LONG)
            walked += (name_start, name_end, value_start, position)
            nulls.append(value_length < 0)
        edges[since * _PIECES : until * _PIECES] = walked
        is_null[since:until] = nulls
    return position


def _header_columns(edges: Any, is_null: Any, buffer: Any) -> list[pa.Array]:
    if not len(is_null):
        return [pa.array([], pa.string()), pa.array([], pa.binary())]
    pieces = _pieces(buffer, edges)
    at = np.arange(len(is_null)) * _PIECES
    names = pieces.take(_numbers(pa.int64(), at))
    try:
        texts = names.cast(pa.string())
    except pa.ArrowInvalid:
        # As Java reads them: what is no UTF-8 becomes U+FFFD.
        texts = pa.array([name.as_py().decode(errors="replace") for name in names], pa.string())
    return [texts, pieces.take(_numbers(pa.int64(), at + 2, is_null))]
