"""Records into Arrow columns, many at once.

A record in Python costs a few microseconds as an object, and half a microsecond here: only the walk from record to
record is a loop, since where one starts the one before says. All fields are then read over columns of positions
(`varints`), and keys and values are taken out of the buffer by Arrow, as elements of one array of pieces laid over it:
key, what is between, value, what follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from barnabas.wire.primitives import MalformedFrame, read_varint
from pipeline.core.errors import CorruptBatch
from pipeline.core.positions import TopicPartition
from pipeline.kafka.batches import Payloads
from pipeline.kafka.varints import VARLONG_BYTES_MAX, read_varints

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
    counts = [header.records_count for header in payloads.headers]
    starts = np.array(_record_starts(payloads), dtype=np.int64)
    buffer = np.frombuffer(payloads.buffer, dtype=np.uint8)
    lengths, positions = read_varints(buffer, starts)
    ends = positions + lengths
    timestamp_deltas, positions = read_varints(buffer, positions + 1, VARLONG_BYTES_MAX)
    offset_deltas, positions = read_varints(buffer, positions)
    key_lengths, key_starts = read_varints(buffer, np.minimum(positions, ends))
    key_ends = key_starts + np.maximum(key_lengths, 0)
    value_lengths, value_starts = read_varints(buffer, np.minimum(key_ends, ends))
    value_ends = value_starts + np.maximum(value_lengths, 0)
    if np.any(value_ends >= ends) or np.any(key_lengths < -1) or np.any(value_lengths < -1):
        raise MalformedFrame("a record is shorter than its fields")

    _check_offset_deltas(payloads, counts, offset_deltas)
    offsets = np.repeat([header.base_offset for header in payloads.headers], counts) + offset_deltas
    in_range = np.flatnonzero((offsets >= start) & (offsets < end))
    edges = np.empty((len(starts), _PIECES), dtype=np.int64)
    edges[:, 0], edges[:, 1], edges[:, 2], edges[:, 3] = key_starts, key_ends, value_starts, value_ends
    pieces = _pieces(edges, buffer)
    for first in range(0, len(in_range), ROWS_MAX):
        wanted = in_range[first : first + ROWS_MAX]
        columns = [
            pieces.take(_numbers(pa.int64(), wanted * _PIECES, key_lengths[wanted] < 0)),
            pieces.take(_numbers(pa.int64(), wanted * _PIECES + 2, value_lengths[wanted] < 0)),
            _same_text(partition.topic, len(wanted)),
            _numbers(pa.int32(), np.full(len(wanted), partition.partition)),
            _numbers(pa.int64(), offsets[wanted]),
            *_timestamps(payloads, counts, timestamp_deltas, wanted),
        ]
        if with_headers:
            columns.append(_headers(buffer, value_ends[wanted], ends[wanted]))
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS if with_headers else SCHEMA)


def _record_starts(payloads: Payloads) -> list[int]:
    """Where each record starts: a walk along their lengths. The one loop over records: nothing in it but that."""
    buffer = payloads.buffer
    starts: list[int] = []
    add = starts.append
    for (position, end), header in zip(payloads.spans, payloads.headers, strict=True):
        for _ in range(header.records_count):
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
        if position != end:
            raise MalformedFrame(
                f"the batch at offset {header.base_offset} ends {position - end} bytes off its {header.records_count} "
                "records"
            )
    return starts


def _check_offset_deltas(payloads: Payloads, counts: list[int], deltas: Any) -> None:
    """They rise within a batch, from 0 to its header's last at most: else an offset comes twice, or is passed over."""
    afters = np.cumsum(counts)
    before = np.empty_like(deltas)
    before[1:] = deltas[:-1]
    before[afters - counts] = -1
    if np.any(deltas <= before) or np.any(deltas[afters - 1] > [each.last_offset_delta for each in payloads.headers]):
        raise MalformedFrame("offsets that don't rise from record to record within their batch")


def _pieces(edges: Any, buffer: Any) -> pa.Array:
    """A binary array over the whole buffer, without a copy: a piece between any two neighbours of `edges`."""
    flat = edges.reshape(-1)
    offsets = np.append(flat, flat[-1:]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(flat), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])


def _numbers(kind: pa.DataType, values: Any, is_null: Any = None) -> pa.Array:
    """A column of 4 or 8 bytes each. Built of its buffers: `pa.array` would bring all of pandas into every worker."""
    validity = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    contiguous = np.ascontiguousarray(values, dtype=np.int32 if kind.bit_width == 32 else np.int64)
    return pa.Array.from_buffers(kind, len(contiguous), [validity, pa.py_buffer(contiguous)])


def _same_text(text: str, count: int) -> pa.Array:
    encoded = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(encoded * count)])


def _timestamps(payloads: Payloads, counts: list[int], deltas: Any, wanted: Any) -> tuple[pa.Array, pa.Array]:
    """Times in microseconds, null where 64 bits don't hold them; and their types."""
    is_append_time = np.array([header.is_log_append_time for header in payloads.headers])
    bases = np.array(
        [header.max_timestamp if header.is_log_append_time else header.base_timestamp for header in payloads.headers],
        dtype=np.int64,
    )
    is_append_time_of = np.repeat(is_append_time, counts)[wanted]
    times_ms = np.repeat(bases, counts)[wanted] + np.where(is_append_time_of, 0, deltas[wanted])
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


def _headers(buffer: Any, positions: Any, ends: Any) -> pa.Array:
    """The headers column. All records' first headers are read at once, then all second ones, and so on."""
    counts, positions = read_varints(buffer, positions)
    if np.any(counts < 0) or np.any(2 * counts > ends - positions):
        raise MalformedFrame("a record with more headers than bytes")
    list_offsets = np.concatenate(([0], np.cumsum(counts)))
    total = int(list_offsets[-1])
    edges = np.zeros((total, _PIECES), dtype=np.int64)
    is_null = np.zeros(total, dtype=bool)
    rows = np.flatnonzero(counts)
    index = 0
    while rows.size:
        name_lengths, name_starts = read_varints(buffer, np.minimum(positions[rows], ends[rows]))
        name_ends = name_starts + name_lengths
        value_lengths, value_starts = read_varints(buffer, np.minimum(np.maximum(name_ends, 0), ends[rows]))
        value_ends = value_starts + np.maximum(value_lengths, 0)
        if np.any(name_lengths < 0) or np.any(value_lengths < -1) or np.any(value_ends > ends[rows]):
            raise MalformedFrame("a record header that is longer than its record")
        at = list_offsets[rows] + index
        edges[at, 0], edges[at, 1], edges[at, 2], edges[at, 3] = name_starts, name_ends, value_starts, value_ends
        is_null[at] = value_lengths < 0
        positions[rows] = value_ends
        index += 1
        rows = rows[counts[rows] > index]
    if np.any(positions != ends):
        raise MalformedFrame("the length of a record differs from its fields")
    struct = pa.StructArray.from_arrays(_header_columns(edges, is_null, buffer), fields=list(HEADERS_TYPE.value_type))
    # The JVM connector says null, and not an empty list, of a record without headers.
    offsets = _numbers(pa.int32(), list_offsets, np.append(counts == 0, False))
    return pa.ListArray.from_arrays(offsets, struct, type=HEADERS_TYPE)


def _header_columns(edges: Any, is_null: Any, buffer: Any) -> list[pa.Array]:
    if not len(edges):
        return [pa.array([], pa.string()), pa.array([], pa.binary())]
    pieces = _pieces(edges, buffer)
    at = np.arange(len(edges)) * _PIECES
    names = pieces.take(_numbers(pa.int64(), at))
    try:
        texts = names.cast(pa.string())
    except pa.ArrowInvalid:
        # As Java reads them: what is no UTF-8 becomes U+FFFD.
        texts = pa.array([name.as_py().decode(errors="replace") for name in names], pa.string())
    return [texts, pieces.take(_numbers(pa.int64(), at + 2, is_null))]
