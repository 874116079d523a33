"""A log directory: its partitions, its checkpoints, its owner, and whether it was shut down cleanly.

One I/O error takes the whole directory offline: a disk that fails for one partition is not trusted with another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk, DiskError
from barnabas.wire.topic_names import is_legal_topic_name
from barnabas_logstore.core.storage import checkpoints
from barnabas_logstore.core.storage.checkpoints import DirectoryIdentity, TopicPartition
from barnabas_logstore.core.storage.directories.directory_format import check_format, raise_format
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal, identify, make_durably
from barnabas_logstore.core.storage.directories.kernel_boot import KernelBoot
from barnabas_logstore.core.storage.directories.log_copy import read_origin
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import (
    DeleteDirectoryEffect,
    FileReplacement,
    FlushEffect,
    ReplaceEffect,
    VolumeFlushEffect,
)
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import OpenedLog, open_log

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
ASIDE_SUFFIXES = (DELETE_SUFFIX, STRAY_SUFFIX)

DELETIONS_PER_TICK = 256


@dataclass(slots=True, frozen=True)
class OpenedPartition:
    """`high_watermark` is the last one in the checkpoint, 0 if there was none; the log may be shorter after a crash.

    `topic_id` is None if its file is missing or torn: a power cut came before the first flush. The owner of its records
    is unknown then, so that it is set aside.
    """

    topic_partition: TopicPartition
    topic_id: bytes | None
    high_watermark: int
    opened: OpenedLog


@dataclass(slots=True, frozen=True)
class ClosingFlush:
    """`effect` flushes these logs, each as its own flush requires."""

    effect: FlushEffect | VolumeFlushEffect
    flushes: list[tuple[PartitionLog, FlushEffect]]


class Apply(Protocol):
    """Like `map` with one iterable: results in the order of the arguments, the first exception ends it."""

    def __call__(
        self, function: Callable[[TopicPartition], OpenedPartition], arguments: Iterable[TopicPartition], /
    ) -> Iterable[OpenedPartition]: ...


class LogDirectory:
    """One of `log.dirs`. Call `open`, then `load` once; from then on partitions are created and removed here."""

    def __init__(self, disk: Disk, path: str, identity: DirectoryIdentity, unique_name: Callable[[], str]) -> None:
        """`unique_name` returns 32 hexadecimal digits that were never used before, for directories to be deleted."""
        self._disk = disk
        self._unique_name = unique_name
        self.path = path
        self.identity = identity
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.error: DiskError | None = None
        """Why the directory is offline."""
        self.no_room: DiskError | None = None
        """Why its logs take no appends for now."""
        self.was_shut_down_cleanly = False
        self.boot = KernelBoot(disk, path)
        self._deletions: list[tuple[int, str]] = []
        self.futures: list[TopicPartition] = []
        """Found by `load`: partitions that were being copied into this directory. Their copies start over."""

    # --- opening ---

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        cluster_id: str,
        node_id: int,
        kernel_boot_id: str,
        new_directory_id: bytes,
        unique_name: Callable[[], str],
    ) -> LogDirectory | DirectoryRefusal:
        """Create or check `meta.properties` and the format, and remove the clean-shutdown marker. Raises DiskError."""
        make_durably(disk, path)
        identity = identify(disk, path, DirectoryIdentity(cluster_id, node_id, new_directory_id))
        if isinstance(identity, DirectoryRefusal):
            return identity
        refusal = check_format(disk, path)
        if refusal is not None:
            return refusal
        raise_format(disk, path)
        disk.watch_volume(path)
        directory = cls(disk, path, identity, unique_name)
        directory._take_marker()
        directory.boot.read(kernel_boot_id.encode(), was_shut_down_cleanly=directory.was_shut_down_cleanly)
        return directory

    def load(self, config_of: Callable[[str], TopicConfig], now_ms: int, apply: Apply = map) -> list[OpenedPartition]:
        """Open every partition found, in the order of their names, including recovery. Raises DiskError.

        `apply` is used like `map`: a host with threads opens several partitions at once. Directories that were being
        deleted are added to the list of deletions. Others that are not `<topic>-<partition>` are left alone.
        """
        try:
            return self._load(config_of, now_ms, apply)
        except DiskError as error:
            self.note_failed_flush(error)
            raise

    def _load(self, config_of: Callable[[str], TopicConfig], now_ms: int, apply: Apply) -> list[OpenedPartition]:
        recovery_points = self._read_offsets(checkpoints.RECOVERY_POINT_CHECKPOINT)
        high_watermarks = self._read_offsets(checkpoints.HIGH_WATERMARK_CHECKPOINT)
        log_starts = self._read_offsets(checkpoints.LOG_START_CHECKPOINT)
        cleaner_offsets = self._read_offsets(checkpoints.CLEANER_OFFSET_CHECKPOINT)

        def open_one(topic_partition: TopicPartition) -> OpenedPartition:
            opened = open_log(
                self._disk,
                self._path_of(topic_partition),
                topic_partition,
                config_of(topic_partition[0]),
                recovery_point=recovery_points.get(topic_partition, 0),
                shut_down_cleanly=self.was_shut_down_cleanly,
                log_start_offset=log_starts.get(topic_partition, 0),
                first_dirty_offset=cleaner_offsets.get(topic_partition, 0),
                is_page_cache_in_doubt=self.boot.is_page_cache_in_doubt,
            )
            opened.log.compacted_upto(min(cleaner_offsets.get(topic_partition, 0), opened.log.log_end_offset))
            high_watermark = min(high_watermarks.get(topic_partition, 0), opened.log.log_end_offset)
            high_watermark = max(high_watermark, opened.log.log_start_offset)
            topic_id = self._read_topic_id(opened.log)
            had_upto = max(high_watermarks.get(topic_partition, 0), recovery_points.get(topic_partition, 0))
            end_offset = opened.log.log_end_offset
            if opened.is_damaged or end_offset < had_upto or (topic_id is None and end_offset > 0):
                damaged.append(topic_partition)
            return OpenedPartition(topic_partition, topic_id, high_watermark, opened)

        names = []
        damaged: list[TopicPartition] = []
        for entry in self._disk.list(self.path):
            if entry.is_directory and entry.name.endswith((DELETE_SUFFIX, FUTURE_SUFFIX)):
                self._deletions.append((now_ms, f"{self.path}/{entry.name}"))
                origin = read_origin(self._disk, f"{self.path}/{entry.name}")
                if origin is not None and entry.name.endswith(FUTURE_SUFFIX):
                    self.futures.append(origin.topic_partition)
            elif entry.is_directory and (topic_partition := parse_partition_directory(entry.name)) is not None:
                names.append(topic_partition)
        found = list(apply(open_one, names))
        self.logs = {each.topic_partition: each.opened.log for each in found}
        aside = self._names_aside()
        lost = [each for each, offset in recovery_points.items() if offset > 0 and each not in self.logs]
        damaged += [each for each in lost if aside.isdisjoint(_shortened(each, suffix) for suffix in ASIDE_SUFFIXES)]
        if damaged:
            # Durable, for whatever reason. Not by the death of a process: a replica that may lack records has no vote
            # on the leader.
            self.boot.expect_losses()
        if not self.was_shut_down_cleanly:
            # Recovery lowers some recovery points, and a power cut may have removed complete partitions; the next crash
            # must not find the old offsets.
            execute(self._disk, self.checkpoint_recovery_points())
            execute(self._disk, self.checkpoint_log_starts())
        if self._cleaner_offsets() != cleaner_offsets:
            # Whether it was stopped cleanly or not: a log may have been removed since, or be shorter. What takes the
            # place of its records is not durable, and the next crash must not find it below the old offset.
            execute(self._disk, self.checkpoint_cleaner_offsets())
        return found

    def _names_aside(self) -> set[str]:
        """Return the names, as far as they fitted, of the partitions that are being deleted or are set aside."""
        names = [each.name for each in self._disk.list(self.path) if each.name.endswith(ASIDE_SUFFIXES)]
        return {name.rpartition(".")[0] for name in names}

    def _path_of(self, topic_partition: TopicPartition) -> str:
        return f"{self.path}/{topic_partition[0]}-{topic_partition[1]}"

    def _take_marker(self) -> None:
        """Read it, then remove it durably before anything is loaded: only a clean shutdown may put it back."""
        path = f"{self.path}/{checkpoints.CLEAN_SHUTDOWN_MARKER}"
        if self._disk.exists(path):
            self.was_shut_down_cleanly = True
            self._disk.remove(path)
        # Also if it is gone: a process that was killed right after it removed it has not flushed that, and the marker
        # could be back after the next power cut.
        self._disk.flush_directory(self.path)

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self.path}/{name}"
        offsets = checkpoints.parse_offsets(self._disk.read_file(path)) if self._disk.exists(path) else None
        return {} if offsets is None else offsets

    def _read_topic_id(self, log: PartitionLog) -> bytes | None:
        path = f"{log.directory}/{checkpoints.PARTITION_METADATA}"
        if not self._disk.exists(path):
            return None
        content = self._disk.read_file(path)
        if not self.was_shut_down_cleanly:
            # The process may have been killed before the first flush.
            log.flush_along(path, content)
        return checkpoints.parse_partition_metadata(content)

    # --- partitions ---

    def create(self, topic_partition: TopicPartition, topic_id: bytes, config: TopicConfig) -> PartitionLog | DiskError:
        """Create a partition with an empty log. An error takes the directory offline, unless only space was lacking.

        Nothing is flushed here: thousands of partitions may be created at once. The first flush of the log includes its
        directory.
        """
        assert topic_partition not in self.logs
        directory = self._path_of(topic_partition)
        was_there = self._disk.exists(directory)
        try:
            self._disk.make_directory(directory)
            opened = open_log(self._disk, directory, topic_partition, config, recovery_point=0, shut_down_cleanly=False)
            self._write_topic_id(opened.log, topic_id)
        except DiskError as error:
            return self._give_up(directory, error)
        except Exception:
            if not was_there:  # the command that is repeated may create it elsewhere
                self.error = self._remove_unfinished(directory) or self.error
            raise
        if self.no_room is not None:
            opened.log.disk_full.refuse_appends(self.no_room)
        self.logs[topic_partition] = opened.log
        return opened.log

    def _give_up(self, directory: str, error: DiskError) -> DiskError:
        if error.is_lack_of_room:
            error = self._remove_unfinished(directory) or error
        if not error.is_lack_of_room:
            self.error = error
        return error

    def _remove_unfinished(self, directory: str) -> DiskError | None:
        """Nothing may stay of a partition that could not be created, or a start would take it for one."""
        try:
            if self._disk.exists(directory):
                execute(self._disk, DeleteDirectoryEffect(directory))
        except DiskError as error:
            return error
        return None

    def record_topic_id(self, topic_partition: TopicPartition, topic_id: bytes) -> DiskError | None:
        """Write `partition.metadata` of a partition that is there. An error takes the directory offline, unless only
        space was lacking.
        """
        try:
            self._write_topic_id(self.logs[topic_partition], topic_id)
        except DiskError as error:
            if not error.is_lack_of_room:
                self.error = error
            return error
        return None

    def _write_topic_id(self, log: PartitionLog, topic_id: bytes) -> None:
        path = f"{log.directory}/{checkpoints.PARTITION_METADATA}"
        content = checkpoints.format_partition_metadata(topic_id)
        self._disk.write_file(path, content)
        log.flush_along(path, content)

    def delete(self, topic_partition: TopicPartition, now_ms: int) -> DiskError | None:
        """Remove a partition at once, and its files after file.delete.delay.ms (see `take_deletions`): reads continue
        meanwhile.
        """
        log = self.logs[topic_partition]
        target = self._move_aside(topic_partition, DELETE_SUFFIX)
        if target is None:
            return self.error
        self._deletions.append((now_ms + log.config.file_delete_delay_ms, target))
        return None

    def delete_old(self, topic_partition: TopicPartition, now_ms: int) -> DiskError | None:
        """Remove a partition that a start has found to be moved elsewhere, and its offsets: it may come back. An error
        takes the directory offline.
        """
        if self.delete(topic_partition, now_ms) is None:
            try:
                self.forget_gone()
            except DiskError as error:
                self.error = error
        return self.error

    def forget_gone(self) -> None:
        """Write the checkpoints of what is here, before there is a new log of the name of one that a start has taken
        away. Raises DiskError.
        """
        execute(self._disk, self.checkpoint_recovery_points())
        execute(self._disk, self.checkpoint_log_starts())
        execute(self._disk, self.checkpoint_cleaner_offsets())

    def future_of(self, topic_partition: TopicPartition) -> str:
        """Return a new name for the copy of a log that is moved into this directory."""
        return self._unique_path(topic_partition, FUTURE_SUFFIX)

    def take_over(self, log: PartitionLog) -> None:
        """A log has been moved here; its files have their final name."""
        assert log.topic_partition not in self.logs
        log.relocate(self._path_of(log.topic_partition))
        self.logs[log.topic_partition] = log
        if self.no_room is not None:
            log.disk_full.refuse_appends(self.no_room)

    def delete_later(self, path: str, now_ms: int) -> None:
        """Remove a directory that is not a partition's: the copy of a log that stays where it is."""
        self._deletions.append((now_ms, path))

    def set_aside(self, topic_partition: TopicPartition) -> DiskError | None:
        """Remove a partition that the controller does not know (KIP-516), and keep its files for the operator."""
        return self.error if self._move_aside(topic_partition, STRAY_SUFFIX) is None else None

    def take_deletions(self, now_ms: int) -> list[DeleteDirectoryEffect]:
        """Return the directories whose delay is over, or as many of them as one tick may remove."""
        due = [each for each in self._deletions if each[0] <= now_ms][:DELETIONS_PER_TICK]
        taken = set(due)
        self._deletions = [each for each in self._deletions if each not in taken] if taken else self._deletions
        return [DeleteDirectoryEffect(path) for _, path in due]

    def _move_aside(self, topic_partition: TopicPartition, suffix: str) -> str | None:
        target = self._unique_path(topic_partition, suffix)
        try:
            self._disk.rename(self._path_of(topic_partition), target)
        except DiskError as error:
            self.error = error
            return None
        del self.logs[topic_partition]
        return target

    def _unique_path(self, topic_partition: TopicPartition, suffix: str) -> str:
        return f"{self.path}/{_shortened(topic_partition, suffix)}.{self._unique_name()}{suffix}"

    # --- checkpoints, errors, the end ---

    def checkpoint_recovery_points(self) -> ReplaceEffect:
        """Written periodically: the more recent it is, the less a crash has to scan. Of a log that went offline alone
        nothing is believed.
        """
        return self._checkpoint(
            checkpoints.RECOVERY_POINT_CHECKPOINT,
            {key: log.recovery_point if log.error is None else 0 for key, log in self.logs.items()},
        )

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> ReplaceEffect:
        return self._checkpoint(checkpoints.HIGH_WATERMARK_CHECKPOINT, high_watermarks)

    def checkpoint_log_starts(self) -> ReplaceEffect:
        """Only for logs that do not begin with the first segment on the disk: for the others its name is enough."""
        starts = {
            key: log.log_start_offset
            for key, log in self.logs.items()
            if log.log_start_offset > log.segments.first.base_offset or not log.retirement.is_idle
        }
        return self._checkpoint(checkpoints.LOG_START_CHECKPOINT, starts)

    def checkpoint_cleaner_offsets(self) -> ReplaceEffect:
        """Only for logs that have been compacted, as in Kafka. Recovery believes that a gap below these offsets is
        compaction's.
        """
        return self._checkpoint(checkpoints.CLEANER_OFFSET_CHECKPOINT, self._cleaner_offsets())

    def _cleaner_offsets(self) -> dict[TopicPartition, int]:
        """Not of a log that is being truncated, which a power cut may leave with a gap anywhere, or was while it went
        offline. For one that went offline alone it holds: all of it is read by the next start, gaps included.
        """
        return {
            key: log.first_dirty_offset
            for key, log in self.logs.items()
            if log.first_dirty_offset > 0 and not log.is_truncating and not log.truncation.is_broken_off
        }

    def _checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> ReplaceEffect:
        return ReplaceEffect(FileReplacement(f"{self.path}/{name}", checkpoints.format_offsets(offsets)))

    def go_offline(self, error: DiskError) -> list[tuple[PartitionLog, list[object]]]:
        """Every log of the directory fails; return each with the tokens of its appends that are answered
        KAFKA_STORAGE_ERROR now.
        """
        if self.error is None:
            self.error = error
        self.note_failed_flush(error)
        return [(log, log.fail(error)) for log in self.logs.values()]

    def note_failed_flush(self, error: DiskError) -> None:
        """A failed flush marks pages clean that are not on the disk: they may be missing at the next start, even in the
        same boot (ATC'20, "Can Applications Recover from fsync Failures?"), or after the power cut that follows it: the
        next start writes them again. A disk that refuses even this removal needs another boot.
        """
        if error.operation.startswith("flush"):
            with suppress(DiskError):
                self.boot.expect_losses()

    def boot_noted(self) -> None:
        """`trust` is carried out; a flush may have failed meanwhile."""
        if self.boot.may_lack_records:
            with suppress(DiskError):
                self.boot.forget()

    def closing_flushes(self) -> list[ClosingFlush]:
        """Return the flushes of a clean shutdown, to be run concurrently before `shut_down`, once all logs are idle:
        one for all logs if the disk can do that.
        """
        logs = [log for log in self.logs.values() if log.error is None and log.disk_full.is_log_whole]
        flushes = [(log, flush) for log in logs if (flush := log.begin_closing_flush()) is not None]
        if flushes and self._disk.is_one_volume(self.path, [log.directory for log, _ in flushes]):
            return [ClosingFlush(VolumeFlushEffect(self.path, [flush for _, flush in flushes]), flushes)]
        return [ClosingFlush(flush, [(log, flush)]) for log, flush in flushes]

    def shut_down(
        self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int, *others: ReplaceEffect
    ) -> bool:
        """Write the checkpoints and `others`, and the marker if everything is durable. Return whether it was written.
        Raises DiskError.
        """
        for effect in (
            self.checkpoint_recovery_points(),
            self.checkpoint_log_starts(),
            self.checkpoint_high_watermarks(high_watermarks),
            *others,
        ):
            execute(self._disk, effect)
        is_clean = self.error is None and all(log.error is None and log.is_durable for log in self.logs.values())
        if is_clean:
            marker = f"{self.path}/{checkpoints.CLEAN_SHUTDOWN_MARKER}"
            self._disk.replace_file(marker, checkpoints.format_clean_shutdown(broker_epoch))
        return is_clean


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Return (topic, partition) of `<topic>-<partition>`; None for anything else, such as a directory that was set
    aside, or one of a name that no topic can have: checkpoints could not contain it.
    """
    topic, dash, digits = name.rpartition("-")
    partition = checkpoints.whole_number(digits)
    if not dash or not is_legal_topic_name(topic) or partition is None or str(partition) != digits:
        return None
    return topic, partition


def _shortened(topic_partition: TopicPartition, suffix: str) -> str:
    """Return the name of a partition shortened for its directory when set aside, `<name>.<32 digits><suffix>`: Kafka's
    own form, of at most 255 bytes, whatever the topic's name.
    """
    return f"{topic_partition[0]}-{topic_partition[1]}"[: 255 - len(f".{'':32}{suffix}")]
