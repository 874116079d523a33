"""When recovery points and high watermarks are written down, and what has to be forgotten of logs that were taken away.

A recovery point says that everything below it needs no look after a crash. So the one of a log that was taken away has
to be gone before there is a new log of the same name: recovery would take its bytes on trust. Nor may a flush of the
old log be under way then, which puts the old leader epochs in place by a path that is the new log's.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.logstore.core.directories import Directories
from services.logstore.core.outbox import Outbox
from services.logstore.core.storage.checkpoints import TopicPartition
from services.logstore.core.storage.effects import ReplaceEffect
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.log_directory import LogDirectory

CHECKPOINT_MS = 5_000


@dataclass(slots=True, frozen=True)
class _RecoveryPoints:
    """On their way to the disk; they say nothing any more of `names`, which were in doubt."""

    directory: LogDirectory
    names: list[TopicPartition]


class Checkpoints:
    """One write per file is under way at most: an older checkpoint must not come after a newer one."""

    def __init__(self, directories: Directories, outbox: Outbox) -> None:
        self._directories = directories
        self._outbox = outbox
        self._due_ms = 0
        # What has moved since it was written down.
        self._moved_recovery_points: dict[LogDirectory, None] = {}
        self._have_high_watermarks_moved = False
        # Logs that were taken away, while a recovery point of theirs may be on the disk or an effect is under way.
        self._leaving: dict[TopicPartition, PartitionLog] = {}
        self._names_in_doubt: dict[TopicPartition, LogDirectory] = {}
        self._recovery_points_in_flight: dict[ReplaceEffect, _RecoveryPoints] = {}
        self._high_watermarks_in_flight: dict[ReplaceEffect, None] = {}

    def high_watermark_moved(self) -> None:
        self._have_high_watermarks_moved = True

    def recovery_point_moved(self, directory: LogDirectory) -> None:
        self._moved_recovery_points[directory] = None

    def log_taken_away(self, log: PartitionLog) -> None:
        """Forget its recovery point at once."""
        directory = self._directories.directory_of(log)
        self._leaving[log.topic_partition] = log
        self._names_in_doubt[log.topic_partition] = directory
        self._moved_recovery_points[directory] = None
        self._have_high_watermarks_moved = True
        self._write_recovery_points(directory)

    def is_leaving(self, topic_partition: TopicPartition) -> bool:
        """Whether an earlier log of this name isn't quite gone: no new one may be made yet."""
        log = self._leaving.get(topic_partition)
        if log is None:
            return False
        directory = self._names_in_doubt.get(topic_partition)
        if (directory is not None and directory.error is None) or not log.is_idle:
            return True
        del self._leaving[topic_partition]
        return False

    def tick(self, now_ms: int) -> None:
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + CHECKPOINT_MS
        for directory in list(self._moved_recovery_points):
            self._write_recovery_points(directory)
        if self._have_high_watermarks_moved and not self._high_watermarks_in_flight:
            self._have_high_watermarks_moved = False
            for directory in self._directories.online:
                self._write_high_watermarks(directory)

    def _write_recovery_points(self, directory: LogDirectory) -> None:
        if any(each.directory is directory for each in self._recovery_points_in_flight.values()):
            return
        self._moved_recovery_points.pop(directory, None)
        if directory.error is not None:
            return
        effect = directory.checkpoint_recovery_points()
        names = [name for name, its_directory in self._names_in_doubt.items() if its_directory is directory]
        self._recovery_points_in_flight[effect] = _RecoveryPoints(directory, names)
        self._outbox.add_effect(effect)

    def _write_high_watermarks(self, directory: LogDirectory) -> None:
        effect = directory.checkpoint_high_watermarks(self._directories.high_watermarks(directory))
        self._high_watermarks_in_flight[effect] = None
        self._outbox.add_effect(effect)

    def on_replaced(self, effect: ReplaceEffect) -> None:
        """A checkpoint is in place, or has failed and its directory with it."""
        self._high_watermarks_in_flight.pop(effect, None)
        written = self._recovery_points_in_flight.pop(effect, None)
        if written is not None:
            for name in written.names:
                self._names_in_doubt.pop(name, None)
            if written.directory in self._names_in_doubt.values():
                self._write_recovery_points(written.directory)
