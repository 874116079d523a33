"""Write the offsets of all logs to checkpoints, and remove logs from them that were deleted.

Four files per log directory: recovery points, high watermarks, log starts, and up to where logs are compacted; and the
register of the cluster's topics. A recovery point means that everything below it needs no check after a crash. So that
of a deleted log has to be removed before there is a new log of the same name: recovery would trust its bytes, and a log
start would cut records off. Nor may a flush of the old log be in progress then, which renames the old leader epochs to
a path that is the new log's, nor may the cleaner be working on it. The same holds for a log that is truncated: its
recovery point is lowered before it is (`lower`). Below the offset up to which a log is compacted recovery accepts gaps:
no file has one for a log that is being truncated, and afterwards none that is past the log's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effects import ReplaceEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Completion, Outbox

# replica.high.watermark.checkpoint.interval.ms of Kafka.
HIGH_WATERMARK_INTERVAL_MS = 5_000
TOPIC_REGISTER_INTERVAL_MS = 5_000


class _Kind(Enum):
    RECOVERY_POINTS = "a crash needs no scan below them"
    LOG_STARTS = "the log begins with them"
    HIGH_WATERMARKS = "everything below them is committed"
    CLEANER_OFFSETS = "a log is compacted below them"
    TOPIC_REGISTER = "the topics of the cluster"
    KERNEL_BOOT = "while it lasts, what was written is in the page cache"


_File = tuple[_Kind, LogDirectory]


class Checkpoints:
    """At most one write per file is in progress: an older checkpoint must not overwrite a newer one."""

    def __init__(
        self,
        directories: Directories,
        full_disks: FullDisks,
        outbox: Outbox,
        *,
        recovery_point_interval_ms: int,
        log_start_interval_ms: int,
        replaced: Callable[[], None],
    ) -> None:
        """`replaced` is called when a checkpoint is in place, for what waits for that."""
        self._directories = directories
        self._full_disks = full_disks
        self._replaced = replaced
        self._outbox = outbox
        self._intervals_ms = {
            _Kind.RECOVERY_POINTS: recovery_point_interval_ms,
            _Kind.LOG_STARTS: log_start_interval_ms,
            _Kind.HIGH_WATERMARKS: HIGH_WATERMARK_INTERVAL_MS,
            _Kind.CLEANER_OFFSETS: 0,
            _Kind.TOPIC_REGISTER: TOPIC_REGISTER_INTERVAL_MS,
            _Kind.KERNEL_BOOT: 0,
        }
        self._due_ms = dict.fromkeys(_Kind, 0)
        # Logs whose offsets have moved since they were written; a dict for its order.
        self._moved: dict[_File, None] = {}
        self._in_flight: dict[ReplaceEffect, _File] = {}
        # The names whose removal the checkpoint in progress contains.
        self._names_in_flight: dict[ReplaceEffect, list[TopicPartition]] = {}
        # Logs that were deleted, while a checkpoint may name them or an effect is in progress.
        self._leaving: dict[TopicPartition, PartitionLog] = {}
        self._names_in_doubt: dict[_File, dict[TopicPartition, None]] = {}

    def high_watermark_moved(self, log: PartitionLog) -> None:
        self._moved[_Kind.HIGH_WATERMARKS, self._directories.by_path[log.state.log_directory]] = None

    def recovery_point_moved(self, directory: LogDirectory) -> None:
        self._moved[_Kind.RECOVERY_POINTS, directory] = None

    def log_start_moved(self, log: PartitionLog) -> None:
        self._moved[_Kind.LOG_STARTS, self._directories.directory_of(log)] = None

    def controller_has_spoken(self) -> None:
        """The controller has spoken to this incarnation of the logstore, which it does once it has dealt with records
        that may be missing here.
        """
        for directory in self._directories.online:
            if directory.boot.may_lack_records:
                self._write((_Kind.KERNEL_BOOT, directory))

    def first_dirty_offset_moved(self, log: PartitionLog) -> None:
        self._moved[_Kind.CLEANER_OFFSETS, self._directories.directory_of(log)] = None

    def topics_changed(self) -> None:
        """Topics were created, deleted, or have other configs."""
        for directory in self._directories.online:
            self._moved[_Kind.TOPIC_REGISTER, directory] = None

    # --- logs that are taken away ---

    def logs_taken_away(self, logs: Iterable[PartitionLog]) -> None:
        """Remove their offsets at once: each file that names any of them is written once."""
        by_directory: dict[LogDirectory, list[PartitionLog]] = {}
        for log in logs:
            by_directory.setdefault(self._directories.directory_of(log), []).append(log)
        for directory, gone in by_directory.items():
            self._leaving.update({log.topic_partition: log for log in gone})
            self._moved[_Kind.HIGH_WATERMARKS, directory] = None
            for kind, named in (
                (_Kind.RECOVERY_POINTS, gone),
                (_Kind.LOG_STARTS, [log for log in gone if log.log_start_offset > 0]),
                (_Kind.CLEANER_OFFSETS, [log for log in gone if log.first_dirty_offset > 0]),
            ):
                if named:
                    in_doubt = self._names_in_doubt.setdefault((kind, directory), {})
                    in_doubt.update(dict.fromkeys([log.topic_partition for log in named]))
                    self._write((kind, directory))

    def log_moved(self, log: PartitionLog) -> None:
        """It is in another log directory now, whose checkpoints don't contain it yet."""
        directory = self._directories.directory_of(log)
        self._moved[_Kind.HIGH_WATERMARKS, directory] = None
        self._moved[_Kind.CLEANER_OFFSETS, directory] = None
        for kind in (_Kind.RECOVERY_POINTS, _Kind.LOG_STARTS):
            self._write((kind, directory))

    def may_name(self, directory: LogDirectory, topic_partition: TopicPartition) -> bool:
        """Whether a checkpoint of this directory may still have an offset of an earlier log: no log may come there."""
        return any(topic_partition in names for (_, each), names in self._names_in_doubt.items() if each is directory)

    def is_leaving(self, topic_partition: TopicPartition) -> bool:
        """Whether an earlier log of this name isn't completely gone: no new one may be created yet."""
        log = self._leaving.get(topic_partition)
        if log is None:
            return False
        in_doubt = any(
            topic_partition in names
            for (_, directory), names in self._names_in_doubt.items()
            if directory.error is None
        )
        if in_doubt or not log.is_idle or log.is_being_cleaned or log.is_held:
            return True
        del self._leaving[topic_partition]
        return False

    def lacks_room(self, topic_partition: TopicPartition) -> bool:
        """Whether what has to be written before a log is completely gone can't be written for now."""
        return any(
            topic_partition in names and directory.no_room is not None
            for (_, directory), names in self._names_in_doubt.items()
        )

    # --- offsets that go back ---

    def lower(self, log: PartitionLog) -> None:
        """The recovery point and the high watermark of `log` were lowered, and what of it is compacted is uncertain:
        write that at once.
        """
        directory = self._directories.directory_of(log)
        kinds = [_Kind.RECOVERY_POINTS, _Kind.HIGH_WATERMARKS]
        if log.first_dirty_offset > 0:
            kinds.append(_Kind.CLEANER_OFFSETS)
        for kind in kinds:
            self._names_in_doubt.setdefault((kind, directory), {})[log.topic_partition] = None
            self._write((kind, directory))

    def is_lowered(self, log: PartitionLog) -> bool:
        """Whether no checkpoint on the disk has a higher offset of `log` than it had at the last `lower`, or any up to
        which it is compacted.
        """
        directory = self._directories.directory_of(log)
        kinds = (_Kind.RECOVERY_POINTS, _Kind.HIGH_WATERMARKS, _Kind.CLEANER_OFFSETS)
        return not any(log.topic_partition in self._names_in_doubt.get((kind, directory), ()) for kind in kinds)

    # --- writing ---

    def tick(self, now_ms: int) -> None:
        for kind, due_ms in self._due_ms.items():
            if now_ms >= due_ms:
                self._due_ms[kind] = now_ms + self._intervals_ms[kind]
                for file in [file for file in self._moved if file[0] is kind]:
                    self._write(file)

    def _write(self, file: _File) -> None:
        if file in self._in_flight.values():
            self._moved[file] = None
            return
        self._moved.pop(file, None)
        kind, directory = file
        if directory.error is not None:
            return
        match kind:
            case _Kind.RECOVERY_POINTS:
                effect = directory.checkpoint_recovery_points()
            case _Kind.LOG_STARTS:
                effect = directory.checkpoint_log_starts()
            case _Kind.CLEANER_OFFSETS:
                effect = directory.checkpoint_cleaner_offsets()
            case _Kind.TOPIC_REGISTER:
                effect = self._directories.topic_register(directory)
            case _Kind.KERNEL_BOOT:
                effect = directory.boot.trust()
            case _Kind.HIGH_WATERMARKS:
                effect = directory.checkpoint_high_watermarks(self._directories.high_watermarks(directory))
        self._in_flight[effect] = file
        self._names_in_flight[effect] = list(self._names_in_doubt.get(file, ()))
        self._outbox.add_effect(effect, Completion(partial(self._on_done, effect), partial(self._on_failed, effect)))

    def _on_done(self, effect: ReplaceEffect, result: object) -> None:
        self._on_replaced(effect)
        self._replaced()

    def _on_replaced(self, effect: ReplaceEffect) -> None:
        """A checkpoint is in place."""
        file = self._in_flight.pop(effect)
        names = self._names_in_flight.pop(effect)
        if file[0] is _Kind.KERNEL_BOOT:
            file[1].boot_noted()
        in_doubt = self._names_in_doubt.get(file)
        if in_doubt is None:
            return
        for name in names:
            in_doubt.pop(name, None)
        if in_doubt:
            self._write(file)
        else:
            del self._names_in_doubt[file]

    def _on_failed(self, effect: ReplaceEffect, error: DiskError) -> None:
        """A checkpoint could not be written: the old one is still there. If the disk is full, it is tried again when
        due.
        """
        self._moved[self._in_flight.pop(effect)] = None
        del self._names_in_flight[effect]
        self._full_disks.directory_effect_failed(effect.replacement.path.rpartition("/")[0], error)
