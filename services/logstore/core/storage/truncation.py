"""Cutting a log: a follower's records that its leader does not have go, or all of them where the leader has none.

Later segments go first, the newest before all, so that a crash may leave any number of them but no gap that recovery
would not see; then the segment in which the offset is gets cut, and its indexes with it. The log is opened again as
after a clean stop: there is one way to know a log, and it is `recovery`.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from services.logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT, TopicPartition
from services.logstore.core.storage.compaction.transactions import TRANSACTION_INDEX_SUFFIX
from services.logstore.core.storage.effects import FileReplacement, SmallWrite, TruncateEffect
from services.logstore.core.storage.leader_epochs import LeaderEpochs
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.producer_state import SNAPSHOT_SUFFIX
from services.logstore.core.storage.recovery import open_log
from services.logstore.core.storage.segment import (
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    Segment,
    file_name,
    offsets_of,
)

PREPARED_SUFFIX = ".tmp"
"""A crash leaves them to the next opening, which removes them."""


def take_truncation(log: PartitionLog) -> TruncateEffect:
    """Cut as `LogTruncation.begin` was told to, once the recovery point is written down.

    A batch that reaches past the offset is cut as a whole. The outcome goes to `LogTruncation.done` or `undo`, or to
    `PartitionLog.fail`.
    """
    truncation = log.truncation
    assert truncation.is_begun
    assert truncation.in_flight is None
    offset, begin_anew = truncation.offset, truncation.begins_anew
    epochs = LeaderEpochs()
    writes: list[SmallWrite] = []
    if not begin_anew:
        for epoch, start_offset in log.leader_epochs.entries():
            if start_offset < offset:
                epochs.assign(epoch, start_offset)
        for segment in log.segments.all():
            if segment.base_offset <= offset:
                writes += segment.take_unsaved_indexes()
    cut = _Cut(
        log.directory,
        log.topic_partition,
        log.config,
        offset,
        begin_anew,
        recovery_point=log.recovery_point,
        log_start_offset=offset if begin_anew else log.log_start_offset,
        leader_epochs=FileReplacement(f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}", epochs.format()),
        index_writes=writes,
    )
    truncation.in_flight = TruncateEffect(log, cut)
    return truncation.in_flight


@dataclass(slots=True)
class _Cut:
    """What an IO worker does. It shares nothing with the log that goes on in memory."""

    directory: str
    topic_partition: TopicPartition
    config: TopicConfig
    offset: int
    begin_anew: bool
    recovery_point: int
    log_start_offset: int
    leader_epochs: FileReplacement
    index_writes: list[SmallWrite]

    def run(self, disk: Disk) -> PartitionLog:
        """The log as it is then.

        Raises DiskError: for lack of room only as long as nothing has been cut. Later it is as bad as any other, since
        nobody knows what is left of the log.
        """
        for write in self.index_writes:
            disk.write_at(disk.open(write.path), write.position, (write.content,))
        names = {entry.name for entry in disk.list(self.directory)}
        base_offsets = offsets_of(names, LOG_SUFFIX)
        kept = [] if self.begin_anew else [each for each in base_offsets if each <= self.offset]
        last = self._prepare_last(disk, kept[-1]) if kept else None
        disk.replace_file(self.leader_epochs.path, self.leader_epochs.content)
        try:
            for base_offset in reversed(base_offsets[len(kept) :]):
                for suffix in (*SEGMENT_SUFFIXES, TRANSACTION_INDEX_SUFFIX):
                    self._remove(disk, file_name(base_offset, suffix), names)
            if last is not None:
                last.cut(disk)
            for snapshot_offset in offsets_of(names, SNAPSHOT_SUFFIX):
                if self.begin_anew or snapshot_offset > self.offset:
                    self._remove(disk, file_name(snapshot_offset, SNAPSHOT_SUFFIX), names)
            disk.flush_directory(self.directory)
            return open_log(
                disk,
                self.directory,
                self.topic_partition,
                self.config,
                recovery_point=self.recovery_point,
                shut_down_cleanly=True,
                log_start_offset=self.log_start_offset,
            ).log
        except DiskError as error:
            if error.is_lack_of_room:
                raise DiskError(DiskErrorKind.IO, error.operation, error.path) from error
            raise

    def _prepare_last(self, disk: Disk, base_offset: int) -> _LastSegment | None:
        """The segment in which the offset is, with indexes that are ready to take the place of its own."""
        path = f"{self.directory}/{file_name(base_offset, LOG_SUFFIX)}"
        segment = Segment(disk, self.directory, base_offset, 0, self.config, disk.size(disk.open(path)))
        kept_bytes = segment.end_below(self.offset)
        if kept_bytes == segment.byte_count:
            return None
        indexes = segment.indexes_below(kept_bytes, self.offset)
        for index_path, content in indexes:
            file = disk.open(index_path + PREPARED_SUFFIX, create=True)
            disk.truncate(file, 0)
            disk.write_at(file, 0, (content,))
            disk.flush(file)
        return _LastSegment(path, kept_bytes, [index_path for index_path, _ in indexes])

    def _remove(self, disk: Disk, name: str, names: set[str]) -> None:
        if name in names:
            disk.remove(f"{self.directory}/{name}")


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
