"""ListOffsets: find the offset for a timestamp, or for one of Kafka's special ones.

A lookup is a generator of effects: it yields a `ReadEffect` or a `FindRecordEffect`, is sent the result, and returns
its answer.

- latest (-1): the requested upper bound; earliest (-2) and earliest local (-4): the log's start
- max timestamp (-3): the first record that carries the largest timestamp; if a header claims one that no record has,
  the latest record of that batch
- latest tiered (-5), earliest pending upload (-6): -1, as there is no remote storage
- otherwise: the first record at or after that time. The time indexes name a place to start, headers lead to the
  batch, and only that batch is opened. For one that can't be opened (unknown codec, larger than DECOMPRESSED_BYTES_MAX)
  the answer is its first offset.
"""

from __future__ import annotations

from collections.abc import Generator

from barnabas.ports.compression import Decompress
from barnabas.ports.disk import DiskFile
from barnabas.wire.record_batch import HEADER_BYTES, parse_header
from barnabas_logstore.core.storage.effect_results import OffsetAtTimestamp
from barnabas_logstore.core.storage.effects import FindRecordEffect, ReadEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import Segment
from barnabas_logstore.core.storage.segment.time_index import NO_TIMESTAMP

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

SCAN_BYTES = 64 * 1024

NO_OFFSET = OffsetAtTimestamp(-1, -1, -1)

LookupEffect = ReadEffect | FindRecordEffect
LookupResult = memoryview | OffsetAtTimestamp | None
TimestampLookup = Generator[LookupEffect, LookupResult, OffsetAtTimestamp]


def lookup_timestamp(state: LogState, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> TimestampLookup:
    """Only records from the log start on and below `upto_offset` are considered."""
    if timestamp_ms == LATEST:
        return OffsetAtTimestamp(-1, upto_offset, state.leader_epochs.epoch_of(upto_offset))
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return OffsetAtTimestamp(-1, state.log_start_offset, state.leader_epochs.epoch_of(state.log_start_offset))
    if timestamp_ms == MAX_TIMESTAMP:
        # The first segment with the largest timestamp; then the first record in it with that timestamp.
        segment = max(state.segments.all(), key=lambda candidate: candidate.max_timestamp()[0])
        timestamp_ms = segment.max_timestamp()[0]
        if timestamp_ms == NO_TIMESTAMP:
            return NO_OFFSET
        found = yield from _first_record_in(state, segment, timestamp_ms, upto_offset, decompress, or_largest=True)
        return found or NO_OFFSET
    if timestamp_ms < 0:
        return NO_OFFSET
    following: Segment | None = state.segments.first
    while following is not None and following.base_offset < upto_offset:
        segment = following
        if segment.max_timestamp()[0] >= timestamp_ms:
            found = yield from _first_record_in(state, segment, timestamp_ms, upto_offset, decompress)
            if found is not None:
                return found
        # Retired meanwhile: the cleaned segment that has replaced it may contain more.
        following = (
            state.segments.containing(segment.base_offset) if segment.is_retired else state.segments.after(segment)
        )
    return NO_OFFSET


def _first_record_in(
    state: LogState,
    segment: Segment,
    timestamp_ms: int,
    upto_offset: int,
    decompress: Decompress,
    *,
    or_largest: bool = False,
) -> Generator[LookupEffect, LookupResult, OffsetAtTimestamp | None]:
    """Return the first record of `segment` at or after `timestamp_ms`, if there is one below `upto_offset`.

    The log start may move while this waits, and the segment be retired: therefore its file is held.
    """
    end = min(segment.byte_count, state.written_position - segment.start_position)
    if end <= 0:
        # Its first batch is not written: its file may not exist yet.
        return None
    from_offset = state.log_start_offset
    file = segment.file
    position = segment.offset_index.position_before(max(segment.time_index.offset_before(timestamp_ms), from_offset))
    data, data_position = memoryview(b""), position
    while position + HEADER_BYTES <= end:
        index = position - data_position
        if index + HEADER_BYTES > len(data):
            data, data_position = (yield from _read(file, position, min(SCAN_BYTES, end - position))), position
            index = 0
            if len(data) < HEADER_BYTES:
                return None
        header = parse_header(data, index)
        if header.base_offset >= upto_offset or not HEADER_BYTES <= header.size_bytes <= end - position:
            return None
        if header.latest_timestamp >= timestamp_ms and header.last_offset >= from_offset:
            if header.is_log_append_time:
                found_offset = max(header.base_offset, from_offset)
                return OffsetAtTimestamp(header.max_timestamp, found_offset, header.partition_leader_epoch)
            batch = data[index : index + header.size_bytes]
            if len(batch) < header.size_bytes:
                batch = yield from _read(file, position, header.size_bytes)
                if len(batch) < header.size_bytes:
                    return None
            found = yield FindRecordEffect(header, batch, timestamp_ms, from_offset, decompress, or_largest)
            if found is not None:
                assert isinstance(found, OffsetAtTimestamp)
                return found if found.offset < upto_offset else None
        position += header.size_bytes
    return None


def _read(file: DiskFile, position: int, length: int) -> Generator[LookupEffect, LookupResult, memoryview]:
    data = yield ReadEffect(file, position, length)
    assert isinstance(data, memoryview)
    return data
