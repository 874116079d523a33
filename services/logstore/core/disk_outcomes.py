"""What comes of effects: to whom an outcome goes, and how far the damage of a failure reaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from services.logstore.core.appends import Appends
from services.logstore.core.checkpoints import Checkpoints
from services.logstore.core.cleaning import Cleaning
from services.logstore.core.coordinator.coordination import Coordination
from services.logstore.core.directories import Directories
from services.logstore.core.full_disks import FullDisks
from services.logstore.core.housekeeping import Housekeeping
from services.logstore.core.moves import Moves
from services.logstore.core.outbox import Outbox
from services.logstore.core.partition import Partition
from services.logstore.core.queries import Queries
from services.logstore.core.reads import Reads
from services.logstore.core.replicas import Replicas
from services.logstore.core.replication.replication import Replication
from services.logstore.core.retention import Retention
from services.logstore.core.storage.effects import (
    CopyEffect,
    DeleteDirectoryEffect,
    DeleteFilesEffect,
    DropCleanedEffect,
    FindRecordEffect,
    FlushEffect,
    MovedEffect,
    OpenBatchEffect,
    ProbeEffect,
    ReadEffect,
    ReplaceEffect,
    RetireEffect,
    SpaceEffect,
    StorageEffect,
    SwapEffect,
    TakeBackEffect,
    TruncateEffect,
    VolumeFlushEffect,
    WriteEffect,
)
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.watches import Watches


class DiskOutcomes:
    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        checkpoints: Checkpoints,
        housekeeping: Housekeeping,
        retention: Retention,
        cleaning: Cleaning,
        appends: Appends,
        reads: Reads,
        queries: Queries,
        watches: Watches,
        full_disks: FullDisks,
        moves: Moves,
        replication: Replication,
        coordination: Coordination,
        outbox: Outbox,
        fail_pending: Callable[[Partition, ErrorCode], None],
    ) -> None:
        """`fail_pending` answers everything unanswered of a partition at once, with one error."""
        self._replicas = replicas
        self._directories = directories
        self._checkpoints = checkpoints
        self._housekeeping = housekeeping
        self._retention = retention
        self._cleaning = cleaning
        self._appends = appends
        self._reads = reads
        self._queries = queries
        self._watches = watches
        self._full_disks = full_disks
        self._moves = moves
        self._replication = replication
        self._coordination = coordination
        self._outbox = outbox
        self._fail_pending = fail_pending

    def on_done(self, effect: StorageEffect, data: bytes) -> None:
        """An effect has been carried out: the bytes of a read, nothing of the others."""
        self._forget(effect)
        match effect:
            case WriteEffect():
                self._appends.on_written(effect)
            case ReadEffect():
                is_taken = self._reads.on_bytes(effect, data) or self._replication.leading.on_bytes(effect, data)
                if not is_taken and not self._coordination.on_bytes(effect, data):
                    self._queries.on_done(effect, data)
                self.act_on_failures()
            case FindRecordEffect():
                self._queries.on_done(effect, data)
                self.act_on_failures()
            case OpenBatchEffect():
                self._appends.on_opened(effect)
                self.act_on_failures()
            case FlushEffect():
                self._housekeeping.on_flushed(effect)
                self._appends.on_flushed(effect.log)
            case VolumeFlushEffect():
                for flush in effect.flushes:
                    self.on_done(flush, data)
            case ReplaceEffect():
                self._checkpoints.on_replaced(effect)
                self._replication.following.go_on_cutting()
            case RetireEffect():
                self._retention.on_retired(effect)
            case SwapEffect():
                self._cleaning.on_swapped(effect)
                self.act_on_failures()
            case DropCleanedEffect():
                self._cleaning.on_dropped()
                self.act_on_failures()
            case TakeBackEffect():
                self._full_disks.on_taken_back(effect)
            case TruncateEffect():
                self._replication.following.on_truncated(effect)
            case ProbeEffect():
                self._full_disks.on_probed(effect)
            case SpaceEffect():
                effect.is_done = True
            case CopyEffect():
                self._moves.on_copied(effect)
                self.act_on_failures()
            case MovedEffect():
                pass
            case DeleteFilesEffect() | DeleteDirectoryEffect():
                pass
            case _:
                assert_never(effect)

    def on_failed(self, effect: StorageEffect, error: DiskError) -> None:
        if not (error.is_lack_of_room and self._full_disks.on_failed(effect, error)):
            self._on_broken(effect, error)
        elif isinstance(effect, FlushEffect | WriteEffect):
            self._appends.on_flushed(effect.log)
        self._forget(effect)
        self.act_on_failures()

    def _forget(self, effect: StorageEffect) -> None:
        """It has ended, whatever its log has become meanwhile."""
        match effect:
            case WriteEffect() | FlushEffect() | RetireEffect() | SwapEffect() | TakeBackEffect() | TruncateEffect():
                if effect in effect.log.unreported:
                    effect.log.unreported.remove(effect)
            case VolumeFlushEffect():
                for flush in effect.flushes:
                    self._forget(flush)
            case _:
                pass

    def _on_broken(self, effect: StorageEffect, error: DiskError) -> None:
        """The directory can't be trusted any more."""
        match effect:
            case WriteEffect() | ReadEffect() | FlushEffect() | RetireEffect():
                self._log_failed(effect.log, error)
            case SwapEffect():
                self._log_failed(effect.log, error)
                self._cleaning.on_swap_failed(effect)
            case DropCleanedEffect():
                self._log_failed(effect.log, error)
                self._cleaning.on_dropped()
            case FindRecordEffect() | OpenBatchEffect():
                raise AssertionError("a batch is opened without the disk")
            case ReplaceEffect():
                self._checkpoints.on_failed(effect)
                self._replicas.disk_failures.append((effect.replacement.path.rpartition("/")[0], error))
            case TakeBackEffect() | TruncateEffect():
                self._log_failed(effect.log, error)
            case CopyEffect():
                self._moves.on_failed(effect, error)
            case MovedEffect():
                self._replicas.disk_failures.append((effect.old_log_directory, error))
            case SpaceEffect():
                effect.is_done = effect.has_failed = True
                self._replicas.disk_failures.append((effect.log_directory, error))
            case DeleteFilesEffect() | ProbeEffect() | VolumeFlushEffect():
                self._replicas.disk_failures.append((effect.log_directory, error))
            case DeleteDirectoryEffect():
                self._replicas.disk_failures.append((effect.path.rpartition("/")[0], error))
            case _:
                assert_never(effect)
        self.act_on_failures()

    def _log_failed(self, log: PartitionLog, error: DiskError) -> None:
        is_hosted = log in self._replicas.by_log
        if not is_hosted:
            log.fail(error)
        # Files of a log that was taken away meanwhile are no longer where the effect looked for them.
        if is_hosted or error.kind is not DiskErrorKind.NOT_FOUND:
            self._replicas.disk_failed(log, error)

    def act_on_failures(self) -> None:
        """Take directories offline in which something failed, and with them every partition that they hold."""
        failures = self._replicas.disk_failures
        while failures:
            path, error = failures.pop(0)
            if error.is_lack_of_room:
                self._full_disks.ran_out(path, error)
                continue
            logs = self._directories.go_offline(path, error)
            if logs is None:
                continue
            self._outbox.report_offline(path, error)
            for log in logs:
                partition = self._replicas.by_log.get(log)
                if partition is not None:
                    partition.fail()
                    self._fail_pending(partition, ErrorCode.KAFKA_STORAGE_ERROR)
                    self._replication.partition_gone(partition)
                    self._watches.changed(partition)
