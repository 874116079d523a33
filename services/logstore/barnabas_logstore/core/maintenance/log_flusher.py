"""Flushes of logs and their completion, for whatever reason they were begun."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.directories.log_directory import ClosingFlush
from barnabas_logstore.core.storage.effects import FlushEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Completion, Outbox


class FlushOwner(Protocol):
    """Waits for flushes to end."""

    def log_flushed(self, log: PartitionLog) -> None:
        """The log needs no scan below its recovery point."""
        ...

    def flush_ended(self, log: PartitionLog) -> None:
        """A flush is over, successfully or because space is lacking; a write with its own flush may have waited for
        it.
        """
        ...


class LogFlusher:
    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        checkpoints: Checkpoints,
        full_disks: FullDisks,
        outbox: Outbox,
        owner: FlushOwner,
    ) -> None:
        self._replicas = replicas
        self._directories = directories
        self._checkpoints = checkpoints
        self._full_disks = full_disks
        self._outbox = outbox
        self._owner = owner

    def send(self, log: PartitionLog, effect: FlushEffect) -> None:
        """Send a flush that `log` has begun to the disk."""
        self._outbox.add_effect(
            effect, Completion(partial(self._on_flushed, log, effect), partial(self._on_failed, log, effect), (log,))
        )

    def expect(self, closing: ClosingFlush) -> None:
        """Expect the outcome of a flush of a clean stop, which the host gets directly."""
        self._outbox.expect_outcome(
            closing.effect,
            Completion(
                partial(self._on_closing_flushed, closing),
                partial(self._on_closing_failed, closing),
                tuple([log for log, _ in closing.flushes]),
            ),
        )

    def _on_flushed(self, log: PartitionLog, effect: FlushEffect, result: object) -> None:
        log.on_flushed(effect)
        self._checkpoints.recovery_point_moved(self._directories.directory_of(log))
        self._owner.log_flushed(log)
        self._owner.flush_ended(log)

    def _on_failed(self, log: PartitionLog, effect: FlushEffect, error: DiskError) -> None:
        self._undo(log, effect, error)
        if error.is_lack_of_room:
            self._owner.flush_ended(log)

    def _undo(self, log: PartitionLog, effect: FlushEffect, error: DiskError) -> None:
        self._full_disks.log_effect_failed(log, error, partial(log.on_flush_without_room, effect, error))

    def _on_closing_flushed(self, closing: ClosingFlush, result: object) -> None:
        for log, effect in closing.flushes:
            self._on_flushed(log, effect, result)

    def _on_closing_failed(self, closing: ClosingFlush, error: DiskError) -> None:
        if isinstance(closing.effect, FlushEffect) or error.is_lack_of_room:
            for log, effect in closing.flushes:
                self._undo(log, effect, error)
        else:
            self._replicas.directory_failed(closing.effect.log_directory, error)
