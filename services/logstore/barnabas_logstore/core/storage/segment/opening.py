"""Read the indexes of closed segments, and open their files.

A worker maps none of them: the log may be truncated meanwhile, and its indexes with it. What is missing, or can't be
the segment's, is rebuilt by `Segment`.
"""

from __future__ import annotations

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage.effect_results import LargestTimestamps, OpenedSegment
from barnabas_logstore.core.storage.effects import ClosedTimeIndex, FindTimestampsEffect, OpenSegmentEffect
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
        offsets = OffsetIndex(effect.index_path, index.base_offset, disk.read_file(effect.index_path))
        times = TimeIndex(index.path, index.base_offset, disk.read_file(index.path))
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        return None
    if not (offsets.belongs_to(index.log_bytes) and times.belongs_to(index.log_bytes)):
        return None
    offset = max(times.offset_before(effect.timestamp_ms), effect.from_offset)
    return OpenedSegment(file, offsets.position_before(offset))


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
