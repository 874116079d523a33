"""Log directories without room: appends are refused with KAFKA_STORAGE_ERROR there, reads go on, and no restart is
needed.

A full disk is not a broken one. What the failed write had taken is answered and taken back (`storage.log_room`), every
other log of the directory finishes what it has begun if it can, and appends are refused from then on. A probe now and
then writes as much as a large write does; when that works, all logs take appends again.
"""

from __future__ import annotations

from barnabas.ports.disk import DiskError
from services.logstore.core.appends import Appends
from services.logstore.core.checkpoints import Checkpoints
from services.logstore.core.directories import Directories
from services.logstore.core.outbox import Outbox
from services.logstore.core.replicas import Replicas
from services.logstore.core.replication.replication import Replication
from services.logstore.core.retention import Retention
from services.logstore.core.storage.effects import (
    FlushEffect,
    ProbeEffect,
    ReplaceEffect,
    RetireEffect,
    StorageEffect,
    TakeBackEffect,
    TruncateEffect,
    VolumeFlushEffect,
    WriteEffect,
)
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.log_directory import LogDirectory
from services.logstore.core.watches import Watches

PROBE_MS = 1_000


class FullDisks:
    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        checkpoints: Checkpoints,
        retention: Retention,
        appends: Appends,
        replication: Replication,
        watches: Watches,
        outbox: Outbox,
    ) -> None:
        self._replicas = replicas
        self._directories = directories
        self._checkpoints = checkpoints
        self._retention = retention
        self._appends = appends
        self._replication = replication
        self._watches = watches
        self._outbox = outbox
        self._probing: dict[ProbeEffect, LogDirectory] = {}
        # Logs with something to take back; a dict for its order.
        self._to_take_back: dict[PartitionLog, None] = {}
        self._due_ms = 0

    def ran_out(self, path: str, error: DiskError) -> None:
        """There is no room in a directory."""
        directory = self._directories.by_path[path]
        if directory.error is not None or directory.no_room is not None:
            return
        directory.no_room = error
        for log in directory.logs.values():
            log.room.refuse(error)
        self._outbox.report_room(path, error)

    def on_failed(self, effect: StorageEffect, error: DiskError) -> bool:
        """An effect found no room. False: it is none of those that can be done again later."""
        match effect:
            case WriteEffect() | FlushEffect() | RetireEffect() | TakeBackEffect() | TruncateEffect():
                if effect.log not in self._replicas.by_log:
                    effect.log.fail(error)
                    return True
                self._undo(effect, error)
                self.ran_out(self._directories.directory_of(effect.log).path, error)
            case VolumeFlushEffect():
                for flush in effect.flushes:
                    self.on_failed(flush, error)
            case ReplaceEffect():
                self._checkpoints.on_failed(effect)
                self.ran_out(effect.replacement.path.rpartition("/")[0], error)
            case ProbeEffect():
                self._probing.pop(effect)
            case _:
                return False
        return True

    def _undo(
        self, effect: WriteEffect | FlushEffect | RetireEffect | TakeBackEffect | TruncateEffect, error: DiskError
    ) -> None:
        log = effect.log
        if log.error is not None:
            return  # Offline meanwhile: everything has been answered, nothing is to be taken back.
        match effect:
            case WriteEffect():
                partition = self._replicas.by_log[log]
                self._appends.fail_unwritten(partition, log.room.write_failed(effect, error))
                partition.epoch_start_offset = min(partition.epoch_start_offset, log.next_offset)
                self._to_take_back[log] = None
                self._replication.wrote(partition, log.log_end_offset)
                self._watches.changed(partition)
            case FlushEffect():
                log.room.flush_failed(effect, error)
            case RetireEffect():
                log.retirement.undo(effect)
                self._retention.go_on_later(log)
            case TakeBackEffect():
                log.room.undo(effect)
                self._to_take_back[log] = None
            case TruncateEffect():
                self._replication.following.on_truncated(effect)

    # --- the way back ---

    def tick(self, now_ms: int) -> None:
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + PROBE_MS
        for directory in self._directories.online:
            if directory.no_room is not None and directory not in self._probing.values():
                effect = ProbeEffect(directory.path)
                self._probing[effect] = directory
                self._outbox.add_effect(effect)

    def take_back(self) -> None:
        """Send out what has to be undone, of logs where nothing else is under way any more."""
        for log in list(self._to_take_back):
            effect = log.room.take()
            if effect is not None:
                self._outbox.add_effect(effect)
            is_over = effect is not None or log.room.is_log_whole
            if is_over or log.error is not None or log not in self._replicas.by_log:
                del self._to_take_back[log]

    def on_taken_back(self, effect: TakeBackEffect) -> None:
        """A log is whole again; it takes appends unless the disk is full still."""
        log = effect.log
        if log.error is None:
            log.room.done(effect)
            if log in self._replicas.by_log and self._directories.directory_of(log).no_room is None:
                log.room.accept()

    def on_probed(self, effect: ProbeEffect) -> None:
        """There is room again."""
        directory = self._probing.pop(effect)
        if directory.error is not None:
            return
        directory.no_room = None
        for log in directory.logs.values():
            log.room.accept()
        self._outbox.report_room(directory.path, None)
