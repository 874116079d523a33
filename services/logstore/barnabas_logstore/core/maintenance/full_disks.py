"""Log directories without free space: appends to them fail with KAFKA_STORAGE_ERROR, reads continue, and no restart is
needed.

A full disk is not a failed one. What the failed write contained is answered and rolled back
(`storage.disk_full_recovery`), every other log of the directory finishes what it has begun if it can, and appends are
refused from then on. A periodic probe writes as much as a large write does; when it succeeds, all logs accept appends
again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effects import ProbeEffect, TakeBackEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.streams.outbox import Completion, Outbox

PROBE_MS = 1_000


class FullDisks:
    """Handles failed effects: a lack of space is undone, any other failure takes the log directory offline."""

    def __init__(self, replicas: Replicas, directories: Directories, outbox: Outbox) -> None:
        self._replicas = replicas
        self._directories = directories
        self._outbox = outbox
        self._probing: dict[ProbeEffect, LogDirectory] = {}
        self._to_take_back: dict[PartitionLog, int] = {}
        """Logs with something to roll back, and from when on."""
        self._now_ms = 0
        self._due_ms = 0

    def ran_out(self, path: str, error: DiskError) -> None:
        """A directory has no free space."""
        directory = self._directories.by_path[path]
        if directory.error is not None or directory.no_room is not None:
            return
        directory.no_room = error
        for log in directory.logs.values():
            log.disk_full.refuse_appends(error)
        self._outbox.report_full_disk(path, error)

    def directory_effect_failed(self, path: str, error: DiskError) -> None:
        """An effect on a log directory, not on one of its logs, has failed, and can be repeated."""
        if error.is_lack_of_room:
            self.ran_out(path, error)
        else:
            self._replicas.directory_failed(path, error)

    def log_effect_failed(self, log: PartitionLog, error: DiskError, undo: Callable[[], None]) -> None:
        """An effect on a log has failed. If space is lacking, it can be repeated later, once `undo` is called; unless
        the log was removed or is offline meanwhile, when everything has been answered.
        """
        if not error.is_lack_of_room:
            self._replicas.log_effect_failed(log, error)
        elif log not in self._replicas.by_log:
            log.fail(error)
        else:
            if log.error is None:
                undo()
            self.ran_out(self._directories.directory_of(log).path, error)

    # --- the way back ---

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + PROBE_MS
        for directory in self._directories.online:
            if directory.no_room is not None and directory not in self._probing.values():
                effect = ProbeEffect(directory.path)
                self._probing[effect] = directory
                self._outbox.add_effect(
                    effect, Completion(partial(self._on_probed, effect), partial(self._on_probe_failed, effect))
                )

    def take_back_soon(self, log: PartitionLog) -> None:
        """A write of the log has found no space, and left something on the disk that has to be undone."""
        self._to_take_back[log] = self._now_ms

    def take_back(self) -> None:
        """Begin the rollback of logs where nothing else is in progress any more."""
        if not self._to_take_back:
            return
        for log in [log for log, due_ms in self._to_take_back.items() if due_ms <= self._now_ms]:
            effect = log.begin_taking_back()
            if effect is not None:
                self._outbox.add_effect(
                    effect,
                    Completion(
                        partial(self._on_taken_back, log, effect),
                        partial(self._on_taking_back_failed, log, effect),
                        (log,),
                    ),
                )
            is_over = effect is not None or log.disk_full.is_log_whole
            if is_over or log.error is not None or log not in self._replicas.by_log:
                del self._to_take_back[log]

    def _on_taken_back(self, log: PartitionLog, effect: TakeBackEffect, result: object) -> None:
        """A log is consistent again; it accepts appends unless the disk is still full."""
        if log.error is None:
            assert result is None or isinstance(result, ProducerState)
            log.disk_full.done(effect, result)
            if log in self._replicas.by_log and self._directories.directory_of(log).no_room is None:
                log.disk_full.accept_appends()

    def _on_taking_back_failed(self, log: PartitionLog, effect: TakeBackEffect, error: DiskError) -> None:
        self.log_effect_failed(log, error, partial(self._undo_taking_back, log, effect))

    def _undo_taking_back(self, log: PartitionLog, effect: TakeBackEffect) -> None:
        log.disk_full.undo(effect)
        # As long as there is not even room for this, it would be tried as fast as workers fail.
        self._to_take_back[log] = self._now_ms + PROBE_MS

    def _on_probed(self, effect: ProbeEffect, result: object) -> None:
        """There is free space again."""
        directory = self._probing.pop(effect)
        if directory.error is not None:
            return
        directory.no_room = None
        for log in directory.logs.values():
            log.disk_full.accept_appends()
        self._outbox.report_full_disk(directory.path, None)

    def _on_probe_failed(self, effect: ProbeEffect, error: DiskError) -> None:
        if error.is_lack_of_room:
            self._probing.pop(effect)
        else:
            self._replicas.directory_failed(effect.log_directory, error)
