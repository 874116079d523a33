"""Cutting a log on the disk: a follower's records that its leader does not have go, or all of them where the leader has
none.

Later segments go first, the newest before all, so that a crash may leave any number of them but no gap that recovery
would not see; then the segment in which the offset is gets cut, and its indexes with it. The log is opened again as
after a clean stop: there is one way to know a log, and it is `recovery`.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage.compaction.transactions import TRANSACTION_INDEX_SUFFIX
from barnabas_logstore.core.storage.effects import TruncateEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.recovery.log_recovery import recover_log
from barnabas_logstore.core.storage.segment.segment import (
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    Segment,
    file_name,
    offsets_of,
)

PREPARED_SUFFIX = ".tmp"
"""A crash leaves them to the next opening, which removes them."""


def cut_log(disk: Disk, effect: TruncateEffect) -> LogState:
    """Return the log as it is then. It shares nothing with the log that goes on in memory.

    Raises DiskError: for lack of room only as long as nothing has been cut. Later it is as bad as any other, since
    nobody knows what is left of the log.
    """
    for write in effect.index_writes:
        disk.write_at(disk.open(write.path), write.position, (write.content,))
    names = {entry.name for entry in disk.list(effect.directory)}
    base_offsets = offsets_of(names, LOG_SUFFIX)
    kept = [] if effect.begin_anew else [each for each in base_offsets if each <= effect.offset]
    last = _prepare_last(disk, effect, kept[-1]) if kept else None
    disk.replace_file(effect.leader_epochs.path, effect.leader_epochs.content)
    try:
        for base_offset in reversed(base_offsets[len(kept) :]):
            for suffix in (*SEGMENT_SUFFIXES, TRANSACTION_INDEX_SUFFIX):
                _remove(disk, effect.directory, file_name(base_offset, suffix), names)
        if last is not None:
            last.cut(disk)
        for snapshot_offset in offsets_of(names, SNAPSHOT_SUFFIX):
            if effect.begin_anew or snapshot_offset > effect.offset:
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
        ).state
    except DiskError as error:
        if error.is_lack_of_room:
            raise DiskError(DiskErrorKind.IO, error.operation, error.path) from error
        raise


def _prepare_last(disk: Disk, effect: TruncateEffect, base_offset: int) -> _LastSegment | None:
    """The segment in which the offset is, with indexes that are ready to take the place of its own."""
    path = f"{effect.directory}/{file_name(base_offset, LOG_SUFFIX)}"
    segment = Segment(disk, effect.directory, base_offset, 0, effect.config, disk.size(disk.open(path)))
    kept_bytes = segment.end_below(effect.offset)
    if kept_bytes == segment.byte_count:
        return None
    indexes = segment.indexes_below(kept_bytes, effect.offset)
    for index_path, content in indexes:
        file = disk.open(index_path + PREPARED_SUFFIX, create=True)
        disk.truncate(file, 0)
        disk.write_at(file, 0, (content,))
        disk.flush(file)
    return _LastSegment(path, kept_bytes, [index_path for index_path, _ in indexes])


def _remove(disk: Disk, directory: str, name: str, names: set[str]) -> None:
    if name in names:
        disk.remove(f"{directory}/{name}")


@dataclass(slots=True)
class _LastSegment:
    path: str
    kept_bytes: int
    index_paths: list[str]

    def cut(self, disk: Disk) -> None:
        # Somebody may have the old indexes mapped: other files take their names, and they stay as they are.
        for path in self.index_paths:
            disk.rename(path + PREPARED_SUFFIX, path)
        disk.truncate(disk.open(self.path), self.kept_bytes)
        disk.flush(disk.open(self.path))
