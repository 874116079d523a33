"""Restore producers from the log itself: from the newest snapshot, and the batches after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind, DiskFile
from barnabas_logstore.core.storage.effects import ProducersToLoad, SegmentFile
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState, note_producer, parse_snapshot
from barnabas_logstore.core.storage.segment.offset_index import OffsetIndex
from barnabas_logstore.core.storage.segment.scan import offsets_of, read_marker, scan_batches
from barnabas_logstore.core.storage.segment.segment import SNAPSHOT_SUFFIX, file_name


class ReadableSegment(Protocol):
    """What is needed of a segment to find its batches from an offset on."""

    @property
    def base_offset(self) -> int: ...

    @property
    def byte_count(self) -> int: ...

    @property
    def file(self) -> DiskFile: ...

    @property
    def offset_index(self) -> OffsetIndex: ...


def load_producers(
    disk: Disk,
    directory: str,
    snapshot_offsets: Iterable[int],
    segments: Sequence[ReadableSegment],
    upto_offset: int,
) -> tuple[ProducerState, int]:
    """Return (the producers as of `upto_offset`, the offset of the snapshot that was used, 0 without one). Raises
    DiskError.

    `segments` are those that may contain batches before `upto_offset`, in order. A snapshot from before the first of
    them is useless: what followed it is unknown.
    """
    producers, snapshot_offset = ProducerState(), 0
    begin_offset = segments[0].base_offset if segments else upto_offset
    for offset in sorted(snapshot_offsets, reverse=True):
        if not begin_offset <= offset <= upto_offset:
            continue
        entries = parse_snapshot(disk.read_file(f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"))
        if entries is not None:
            producers.load(entries)
            snapshot_offset = offset
            break
    end_offsets = [segment.base_offset for segment in segments[1:]] + [upto_offset]
    for segment, end_offset in zip(segments, end_offsets, strict=False):
        if end_offset <= snapshot_offset:
            continue
        begin = segment.offset_index.position_before(snapshot_offset)
        for position, header in scan_batches(disk, segment.file, begin, segment.byte_count):
            if snapshot_offset <= header.base_offset < upto_offset:
                note_producer(producers, header, read_marker(disk, segment.file, position, header))
    return producers, snapshot_offset


def load_producers_as_of(disk: Disk, wanted: ProducersToLoad) -> ProducerState:
    """Return the producers as of `wanted.upto_offset`, from what is on the disk. Raises DiskError."""
    snapshot_offsets = offsets_of([entry.name for entry in disk.list(wanted.directory)], SNAPSHOT_SUFFIX)
    segments = [_SegmentOnDisk(disk, segment) for segment in wanted.segments]
    return load_producers(disk, wanted.directory, snapshot_offsets, segments, wanted.upto_offset)[0]


class _SegmentOnDisk:
    """A segment of a log that is in use: none of its files is repaired here."""

    def __init__(self, disk: Disk, segment: SegmentFile) -> None:
        self._disk = disk
        self._segment = segment

    @property
    def base_offset(self) -> int:
        return self._segment.base_offset

    @property
    def byte_count(self) -> int:
        return self._segment.byte_count

    @property
    def file(self) -> DiskFile:
        return self._disk.open(self._segment.path)

    @property
    def offset_index(self) -> OffsetIndex:
        """Empty if the file is missing or can't be this segment's."""
        segment = self._segment
        if segment.index_content is not None:
            return OffsetIndex(segment.index_path, segment.base_offset, segment.index_content)
        try:
            content = self._disk.map(self._disk.open(segment.index_path))
        except DiskError as error:
            if error.kind is not DiskErrorKind.NOT_FOUND:
                raise
            content = b""
        index = OffsetIndex(segment.index_path, segment.base_offset, content)
        is_sound = index.belongs_to(segment.byte_count)
        return index if is_sound else OffsetIndex(segment.index_path, segment.base_offset, b"")
