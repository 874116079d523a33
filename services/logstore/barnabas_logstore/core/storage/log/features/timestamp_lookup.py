"""ListOffsets: find the offset for a timestamp, or for one of Kafka's special ones.

A lookup is a generator of effects: it yields one, is sent the result, and returns its answer. It looks at
`SEGMENTS_MAX` segments in a turn, the next ones after a worker has read the largest timestamps that are not known. No
file is opened here, unless an index has to be rebuilt.

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
from itertools import takewhile
from typing import Final

from barnabas.ports.compression import Decompress
from barnabas.ports.disk import DiskFile
from barnabas.wire.record_batch import HEADER_BYTES, parse_header
from barnabas_logstore.core.storage.effect_results import LargestTimestamps, OffsetAtTimestamp, OpenedSegment
from barnabas_logstore.core.storage.effects import (
    ClosedTimeIndex,
    FindRecordEffect,
    FindTimestampsEffect,
    OpenSegmentEffect,
    ReadEffect,
)
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
SEGMENTS_MAX: Final = 64

NO_OFFSET = OffsetAtTimestamp(-1, -1, -1)

LookupEffect = ReadEffect | FindRecordEffect | FindTimestampsEffect | OpenSegmentEffect
LookupResult = memoryview | OffsetAtTimestamp | LargestTimestamps | OpenedSegment | None
TimestampLookup = Generator[LookupEffect, LookupResult, OffsetAtTimestamp]
Search = Generator[LookupEffect, LookupResult, OffsetAtTimestamp | None]


def lookup_timestamp(state: LogState, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> TimestampLookup:
    """Only records from the log start on and below `upto_offset` are considered."""
    if timestamp_ms == LATEST:
        return OffsetAtTimestamp(-1, upto_offset, state.leader_epochs.epoch_of(upto_offset))
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return OffsetAtTimestamp(-1, state.log_start_offset, state.leader_epochs.epoch_of(state.log_start_offset))
    if timestamp_ms == MAX_TIMESTAMP:
        return (yield from _first_of_largest(state, upto_offset, decompress)) or NO_OFFSET
    if timestamp_ms < 0:
        return NO_OFFSET
    return (yield from _first_record(state, timestamp_ms, upto_offset, decompress)) or NO_OFFSET


def _first_of_largest(state: LogState, upto_offset: int, decompress: Decompress) -> Search:
    """Return the first record with the largest timestamp in the first segment that has it."""
    while True:
        largest: Segment | None = None
        segments = yield from _next_segments(state, None)
        while segments:
            for segment in segments:
                if largest is None or segment.max_timestamp()[0] > largest.max_timestamp()[0]:
                    largest = segment
            segments = yield from _next_segments(state, segments[-1])
        if largest is None or largest.max_timestamp()[0] == NO_TIMESTAMP:
            return None
        timestamp_ms = largest.max_timestamp()[0]
        found = yield from _first_record_in(state, largest, timestamp_ms, upto_offset, decompress, or_largest=True)
        if found is not None or not largest.is_retired:
            return found


def _first_record(state: LogState, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> Search:
    """Return the first record at or after `timestamp_ms`."""
    segments = yield from _next_segments(state, None)
    while segments:
        for segment in segments:
            if segment.base_offset >= upto_offset:
                return None
            last = segment
            if not segment.is_retired and segment.max_timestamp()[0] >= timestamp_ms:
                found = yield from _first_record_in(state, segment, timestamp_ms, upto_offset, decompress)
                if found is not None:
                    return found
            if segment.is_retired:
                # The cleaned segment that has replaced it may contain more.
                break
        segments = yield from _next_segments(state, last)
    return None


def _next_segments(state: LogState, last: Segment | None) -> Generator[LookupEffect, LookupResult, list[Segment]]:
    """Return the next segments after `last` (None: the first ones), of which the largest timestamps are known; none
    if it is the last one.
    """
    while True:
        segments = state.segments.next_after(last, SEGMENTS_MAX)
        unknown = [segment for segment in segments if not segment.is_max_timestamp_known]
        # Without a file to read this is one turn of many.
        if unknown or (segments and last is not None):
            result = yield FindTimestampsEffect([_time_index_of(segment) for segment in unknown])
            assert isinstance(result, LargestTimestamps)
            _learn(unknown, result)
        known = takewhile(lambda segment: segment.is_max_timestamp_known and not segment.is_retired, segments)
        if (found := list(known)) or not segments:
            return found


def _learn(segments: list[Segment], result: LargestTimestamps) -> None:
    """Files of a retired segment are those of the cleaned segment that has replaced it, or gone. Raises DiskError."""
    is_rebuilt = False
    for segment, found in zip(segments, result.found, strict=True):
        if segment.is_retired:
            continue
        if found is not None:
            segment.learn_max_timestamp(found)
        elif not is_rebuilt:
            # It rebuilds its indexes: one in a turn.
            segment.max_timestamp()
            is_rebuilt = True


def _first_record_in(
    state: LogState,
    segment: Segment,
    timestamp_ms: int,
    upto_offset: int,
    decompress: Decompress,
    *,
    or_largest: bool = False,
) -> Search:
    """Return the first record of `segment` at or after `timestamp_ms`, if there is one below `upto_offset`; none if it
    has been retired before its file is open.

    The log start may move while this waits, and the segment be retired: therefore its file is held.
    """
    end = min(segment.byte_count, state.written_position - segment.start_position)
    if end <= 0:
        # Its first batch is not written: its file may not exist yet.
        return None
    from_offset = state.log_start_offset
    opened = yield _opening_of(segment, timestamp_ms, from_offset)
    if segment.is_retired:
        return None
    if opened is None:
        # Its indexes have to be rebuilt.
        opened = OpenedSegment(segment.file, _position_before(segment, timestamp_ms, from_offset))
    assert isinstance(opened, OpenedSegment)
    file, position = opened.file, opened.position
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


def _opening_of(segment: Segment, timestamp_ms: int, from_offset: int) -> OpenSegmentEffect:
    """Return what a search in `segment` begins with."""
    index, position = None, -1
    if segment.offset_index_in_memory is None:
        index = _time_index_of(segment)
    else:
        position = _position_before(segment, timestamp_ms, from_offset)
    return OpenSegmentEffect(segment.log_path, segment.offset_index_path, index, position, timestamp_ms, from_offset)


def _position_before(segment: Segment, timestamp_ms: int, from_offset: int) -> int:
    return segment.offset_index.position_before(max(segment.time_index.offset_before(timestamp_ms), from_offset))


def _time_index_of(segment: Segment) -> ClosedTimeIndex:
    _, path, _ = segment.index_paths
    return ClosedTimeIndex(path, segment.base_offset, segment.byte_count)


def _read(file: DiskFile, position: int, length: int) -> Generator[LookupEffect, LookupResult, memoryview]:
    data = yield ReadEffect(file, position, length)
    assert isinstance(data, memoryview)
    return data
