"""Read the indexes of closed segments, and open their files.

A worker maps none of them: the log may be truncated meanwhile, and its indexes with it. What is missing, or can't be
the segment's, is rebuilt by `Segment`.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage.effect_results import LargestTimestamps, OpenedSegment
from barnabas_logstore.core.storage.effects import ClosedTimeIndex, FindTimestampsEffect, OpenSegmentEffect
from barnabas_logstore.core.storage.file_parts import ClosedIndexes, FilePart, UnopenedFile
from barnabas_logstore.core.storage.segment.offset_index import OffsetIndex
from barnabas_logstore.core.storage.segment.time_index import ENTRY_BYTES, TimeIndex


def find_timestamps(disk: Disk, effect: FindTimestampsEffect) -> LargestTimestamps:
    """Carry out the effect. Raises DiskError."""
    return LargestTimestamps([_last_of(disk, index) for index in effect.indexes])


def _last_of(disk: Disk, index: ClosedTimeIndex) -> tuple[int, int] | None:
    try:
        file = disk.open(index.path)
        byte_count = disk.size(file)
        if byte_count % ENTRY_BYTES:
            return None
        # Two entries tell whether it is the segment's, and the last one is what is asked for.
        start = max(0, byte_count - 2 * ENTRY_BYTES)
        last = TimeIndex(index.path, index.base_offset, disk.read_at(file, start, byte_count - start))
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        return None
    return last.last() if last.belongs_to(index.log_bytes) else None


def open_segment(disk: Disk, effect: OpenSegmentEffect) -> OpenedSegment | None:
    """Carry out the effect. Raises DiskError."""
    index = effect.time_index
    try:
        file = disk.open(effect.path)
        if index is None:
            return OpenedSegment(file, effect.position)
        read = _read_indexes(disk, ClosedIndexes(effect.index_path, index.path, index.base_offset, index.log_bytes))
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        return None
    if read is None:
        return None
    offsets, times = read
    offset = max(times.offset_before(effect.timestamp_ms), effect.from_offset)
    return OpenedSegment(file, offsets.position_before(offset))


def open_part(disk: Disk, part: FilePart, offset: int) -> FilePart | None:
    """Return the part with its file open, and with a position before `offset`; None if a file is missing, or an index
    can't be the segment's. Raises DiskError.
    """
    unopened = part.file
    if not isinstance(unopened, UnopenedFile):
        return part
    try:
        file = disk.open(unopened.path)
        if unopened.indexes is None:
            return replace(part, file=file)
        read = _read_indexes(disk, unopened.indexes)
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        return None
    if read is None:
        return None
    position = read[0].position_before(offset)
    limit_position = 0 if part.limit_offset < 0 else read[0].position_before(part.limit_offset)
    # Only a damaged entry points past the end: the batch is looked for from the start.
    position = position if position < part.end_position else 0
    return FilePart(file, position, part.end_position, part.limit_offset, limit_position)


def _read_indexes(disk: Disk, indexes: ClosedIndexes) -> tuple[OffsetIndex, TimeIndex] | None:
    """Read both indexes of a segment; None if one can't be the segment's. Raises DiskError."""
    base_offset, log_bytes = indexes.base_offset, indexes.log_bytes
    offsets = OffsetIndex(indexes.offset_index_path, base_offset, disk.read_file(indexes.offset_index_path))
    times = TimeIndex(indexes.time_index_path, base_offset, disk.read_file(indexes.time_index_path))
    return (offsets, times) if offsets.belongs_to(log_bytes) and times.belongs_to(log_bytes) else None


def map_indexes(
    disk: Disk, base_offset: int, offset_index_path: str, time_index_path: str
) -> tuple[OffsetIndex, TimeIndex] | None:
    """Map both indexes of a segment from their files; None if one is missing. Raises DiskError."""
    try:
        offsets = disk.map(disk.open(offset_index_path))
        times = disk.map(disk.open(time_index_path))
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        return None
    return OffsetIndex(offset_index_path, base_offset, offsets), TimeIndex(time_index_path, base_offset, times)
