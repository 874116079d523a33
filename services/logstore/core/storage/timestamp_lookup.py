"""ListOffsets: from a timestamp, or one of Kafka's special ones, to an offset.

A lookup is a generator over effects: it yields a `ReadEffect`, is sent the bytes, and returns its answer.

- latest (-1): the offset asked for as upper bound; earliest (-2) and earliest local (-4): the log's start
- max timestamp (-3): the first record that carries the largest timestamp
- latest tiered (-5), earliest pending upload (-6): -1, as there is no remote storage
- otherwise: the first record at or after that time. The time indexes name a place to start, headers lead to the
  batch, and only that batch is opened. One that can't be (unknown codec, larger than DECOMPRESSED_BYTES_MAX) is
  answered with its first offset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, BatchHeader, Compression, decode_payload, parse_header
from services.logstore.core.storage.effects import ReadEffect
from services.logstore.core.storage.segment import Segment
from services.logstore.core.storage.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from services.logstore.core.storage.log import PartitionLog

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
SCAN_BYTES = 64 * 1024

Decompress = Callable[[int, memoryview, int], bytes | None]
"""(codec, data, limit in bytes) → what the data holds; None when it is broken, of an unknown codec, or holds more
than the limit.
"""


@dataclass(slots=True, frozen=True)
class OffsetAtTimestamp:
    """-1 in every field when no record answers the question; a special timestamp's own `timestamp_ms` is -1."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


NO_OFFSET = OffsetAtTimestamp(-1, -1, -1)

TimestampLookup = Generator[ReadEffect, bytes, OffsetAtTimestamp]


def lookup_timestamp(log: PartitionLog, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> TimestampLookup:
    """Only records below `upto_offset` are seen."""
    if timestamp_ms == LATEST:
        return OffsetAtTimestamp(-1, upto_offset, log.leader_epochs.epoch_of(upto_offset))
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return OffsetAtTimestamp(-1, log.log_start_offset, log.leader_epochs.epoch_of(log.log_start_offset))
    if timestamp_ms == MAX_TIMESTAMP:
        # The first segment with the largest timestamp; then the first record in it that is as late.
        segment = max(log.segments.all(), key=lambda candidate: candidate.max_timestamp()[0])
        timestamp_ms = segment.max_timestamp()[0]
        if timestamp_ms == NO_TIMESTAMP:
            return NO_OFFSET
        return (yield from _first_record_in(log, segment, timestamp_ms, upto_offset, decompress)) or NO_OFFSET
    if timestamp_ms < 0:
        return NO_OFFSET
    for segment in log.segments.all():
        if segment.max_timestamp()[0] >= timestamp_ms and segment.base_offset < upto_offset:
            found = yield from _first_record_in(log, segment, timestamp_ms, upto_offset, decompress)
            if found is not None:
                return found
    return NO_OFFSET


def _first_record_in(
    log: PartitionLog, segment: Segment, timestamp_ms: int, upto_offset: int, decompress: Decompress
) -> Generator[ReadEffect, bytes, OffsetAtTimestamp | None]:
    """The first record of `segment` at or after `timestamp_ms`, if there is one below `upto_offset`."""
    position = segment.offset_index.position_before(segment.time_index.offset_before(timestamp_ms))
    end = min(segment.byte_count, log.written_position - segment.start_position)
    data, data_position = b"", position
    while position + HEADER_BYTES <= end:
        index = position - data_position
        if index + HEADER_BYTES > len(data):
            data, data_position = (
                (yield ReadEffect(log, segment.file, position, min(SCAN_BYTES, end - position))),
                position,
            )
            index = 0
            if len(data) < HEADER_BYTES:
                return None
        header = parse_header(data, index)
        if header.base_offset >= upto_offset or not HEADER_BYTES <= header.size_bytes <= end - position:
            return None
        if header.max_timestamp >= timestamp_ms:
            batch = data[index : index + header.size_bytes]
            if len(batch) < header.size_bytes:
                batch = yield ReadEffect(log, segment.file, position, header.size_bytes)
            found = _first_record_of(header, batch, timestamp_ms, decompress)
            if found is not None:
                return found if found.offset < upto_offset else None
        position += header.size_bytes
    return None


def _first_record_of(
    header: BatchHeader, batch: bytes, timestamp_ms: int, decompress: Decompress
) -> OffsetAtTimestamp | None:
    epoch = header.partition_leader_epoch
    if header.is_log_append_time:
        return OffsetAtTimestamp(header.max_timestamp, header.base_offset, epoch)
    payload: memoryview | bytes | None = memoryview(batch)[HEADER_BYTES:]
    if header.compression != Compression.NONE:
        payload = decompress(header.compression, memoryview(batch)[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
    if payload is not None:
        try:
            for record in decode_payload(header, payload):
                if record.timestamp_ms >= timestamp_ms:
                    return OffsetAtTimestamp(record.timestamp_ms, record.offset, epoch)
            return None
        except MalformedFrame:
            pass  # The producer's own bytes, under a CRC that is right: answered as a batch that can't be opened.
    return OffsetAtTimestamp(header.max_timestamp, header.base_offset, epoch)
