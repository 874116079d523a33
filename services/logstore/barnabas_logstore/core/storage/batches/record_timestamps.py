"""Read the largest timestamp of a part of a segment from the records themselves, for retention: it does not delete by
the word of a client's headers alone.

This opens every batch of the part. It is work for a worker, in pieces of READ_BYTES, for the few segments whose headers
say that they have expired though they were written not long ago.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Decompress
from barnabas.ports.disk import Buffer
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, MAGIC, NO_TIMESTAMP, BatchHeader, Compression, parse_header
from barnabas.wire.records import largest_timestamp_delta
from barnabas_logstore.core.storage.effect_results import RecordTimestamps

READ_BYTES: Final = 256 * 1024
"""A part is about that long, or one batch."""


def read_timestamps(
    read_at: Callable[[int, int], Buffer], position: int, end_position: int, decompress: Decompress
) -> RecordTimestamps:
    """Read the batches that begin at `position`, in a part of what is before `end_position`; at least one of them."""
    data = read_at(position, min(READ_BYTES, end_position - position))
    latest_ms, start = NO_TIMESTAMP, position
    while len(data) - (position - start) >= HEADER_BYTES:
        header = parse_header(data, position - start)
        size = header.size_bytes
        if header.magic != MAGIC or not HEADER_BYTES <= size <= end_position - position:
            return RecordTimestamps(latest_ms, position, False)
        if position - start + size > len(data):
            if position > start:
                break
            data = read_at(position, size)
            if len(data) < size:
                return RecordTimestamps(latest_ms, position, False)
        begin = position - start + HEADER_BYTES
        found_ms = _latest_of(header, memoryview(data)[begin : begin + size - HEADER_BYTES], decompress)
        if found_ms is None:
            return RecordTimestamps(latest_ms, position, False)
        latest_ms = max(latest_ms, found_ms)
        position += size
    return RecordTimestamps(latest_ms, position, position > start)


def _latest_of(header: BatchHeader, payload: memoryview, decompress: Decompress) -> int | None:
    """Return the largest timestamp of the records of a batch; None if it can't be opened. Times of the append, and
    those of markers, are a broker's own.
    """
    if header.records_count == 0 or header.is_log_append_time or header.is_control:
        return header.latest_timestamp
    content: Buffer | None = payload
    if header.compression != Compression.NONE:
        content = decompress(header.compression, payload, DECOMPRESSED_BYTES_MAX)
    if content is None:
        return None
    try:
        return header.base_timestamp + largest_timestamp_delta(content, header.records_count)
    except MalformedFrame:
        return None
