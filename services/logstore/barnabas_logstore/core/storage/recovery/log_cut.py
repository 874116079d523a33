"""Truncate a log on the disk: remove a follower's records that its leader does not have, or all of them if the leader
has none.

Bytes that a segment's file has had are never replaced by others: the sender of a range of it (`FileRange`) may be
slower than a truncation and what is appended after it. So a file that was truncated does not grow again. The log goes
on in a new segment, which begins where the truncated one ends; if nothing is left of it, an empty file takes its
name.

Later segments are removed first, beginning with the newest, so that a crash may leave any number of them but no gap
that recovery would not detect; then the segment that contains the offset is truncated, with its indexes. The log is
opened again as after a clean stop: `recovery` is the only way to open a log.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage.effects import TruncateEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.recovery.log_recovery import recover_log
from barnabas_logstore.core.storage.segment.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from barnabas_logstore.core.storage.segment.offset_index import OffsetIndex
from barnabas_logstore.core.storage.segment.scan import offsets_of, scan_batches
from barnabas_logstore.core.storage.segment.segment import (
    ALL_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    Segment,
    file_name,
)
from barnabas_logstore.core.storage.segment.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from barnabas_logstore.core.storage.segment.time_index import TimeIndex

PREPARED_SUFFIX = ".tmp"
"""A crash leaves them to the next opening, which removes them."""


def cut_log(disk: Disk, effect: TruncateEffect) -> LogState:
    """Return the resulting log. It shares nothing with the log in memory.

    Raises DiskError: for lack of space only as long as nothing has been truncated. Later it is as bad as any other
    error, since it is unknown what is left of the log.
    """
    for write in effect.index_writes:
        disk.write_at(disk.open(write.path, create=write.creates), write.position, (write.content,))
    names = {entry.name for entry in disk.list(effect.directory)}
    base_offsets = offsets_of(names, LOG_SUFFIX)
    kept = [] if effect.truncate_fully else [each for each in base_offsets if each <= effect.offset]
    last = _prepare_last(disk, effect, kept[-1]) if kept else None
    disk.replace_file(effect.leader_epochs.path, effect.leader_epochs.content)
    try:
        for base_offset in reversed(base_offsets[len(kept) :]):
            for suffix in ALL_SUFFIXES:
                _remove(disk, effect.directory, file_name(base_offset, suffix), names)
        if last is not None:
            last.cut(disk)
        for snapshot_offset in offsets_of(names, SNAPSHOT_SUFFIX):
            if effect.truncate_fully or snapshot_offset > effect.offset:
                _remove(disk, effect.directory, file_name(snapshot_offset, SNAPSHOT_SUFFIX), names)
        disk.flush_directory(effect.directory)
        return recover_log(
            disk,
            effect.directory,
            effect.topic_partition,
            effect.config,
            recovery_point=effect.recovery_point,
            shut_down_cleanly=True,
            log_start_offset=effect.log_start_offset,
            are_epochs_sure=True,
        ).state
    except DiskError as error:
        if error.is_lack_of_room:
            raise DiskError(DiskErrorKind.IO, error.operation, error.path) from error
        raise


def _prepare_last(disk: Disk, effect: TruncateEffect, base_offset: int) -> _LastSegment | None:
    """Prepare the segment that contains the offset, with indexes that are ready to replace its own."""
    path = f"{effect.directory}/{file_name(base_offset, LOG_SUFFIX)}"
    segment = Segment(disk, effect.directory, base_offset, 0, effect.config, disk.size(disk.open(path)))
    kept_bytes, next_offset = segment.end_below(effect.offset)
    if kept_bytes == segment.byte_count:
        return None
    offset = effect.offset
    files = _indexes_below(disk, segment, kept_bytes, offset) if kept_bytes else []
    transactions = segment.aborted.content_below(offset)
    if transactions is not None:
        files.append((segment.aborted.path, transactions))
    files += [(f"{effect.directory}/{file_name(next_offset, suffix)}", b"") for suffix in SEGMENT_SUFFIXES]
    for new_path, content in files:
        file = disk.open(new_path + PREPARED_SUFFIX, create=True)
        disk.truncate(file, 0)
        disk.write_at(file, 0, (content,))
        disk.flush(file)
    return _LastSegment(path, kept_bytes, [new_path for new_path, _ in files])


def _indexes_below(disk: Disk, segment: Segment, byte_count: int, offset: int) -> list[tuple[str, bytes]]:
    """Return (path, content) of the indexes of a closed segment that has only the first `byte_count` bytes, which are
    below `offset`.
    """
    offsets, times = segment.offset_index, segment.time_index
    offset_entries = bisect_left(range(len(offsets)), byte_count, key=lambda index: offsets.entry(index)[1])
    time_entries = bisect_left(range(len(times)), offset, key=lambda index: times.entry(index)[1])
    offset_content = offsets.content()[: offset_entries * OFFSET_ENTRY_BYTES]
    time_content = bytearray(times.content()[: time_entries * TIME_ENTRY_BYTES])
    kept_offsets = OffsetIndex(offsets.path, segment.base_offset, offset_content)
    kept_times = TimeIndex(times.path, segment.base_offset, time_content)
    latest = kept_times.last()
    for _, header in scan_batches(disk, segment.file, kept_offsets.last_position(), byte_count):
        if header.latest_timestamp > latest[0]:
            latest = (header.latest_timestamp, header.last_offset)
    kept_times.append_if_later(*latest)
    return [(offsets.path, offset_content), (times.path, kept_times.content())]


def _remove(disk: Disk, directory: str, name: str, names: set[str]) -> None:
    if name in names:
        disk.remove(f"{directory}/{name}")


@dataclass(slots=True)
class _LastSegment:
    path: str
    kept_bytes: int
    new_paths: list[str]
    """The indexes of what is kept, and the segment after it, which has the name of this one if nothing is kept."""

    def cut(self, disk: Disk) -> None:
        # The old indexes may be mapped elsewhere: other files take their names, and they stay unchanged.
        for path in self.new_paths:
            disk.rename(path + PREPARED_SUFFIX, path)
        if self.kept_bytes:
            # Last: if it were done before and the process ended, the file would be one that grows.
            disk.truncate(disk.open(self.path), self.kept_bytes)
            disk.flush(disk.open(self.path))
