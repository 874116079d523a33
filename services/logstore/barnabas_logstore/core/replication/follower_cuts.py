"""Cuts of logs that follow: what the leader's log does not have is taken off ours.

A truncation has two parts: lowered offsets are written to the checkpoints first (`Checkpoints.lower`), and until that
is done a new leader epoch cancels the truncation. Then an IO worker truncates, and commands for the partition wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.effects import TruncateEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.streams.outbox import Completion, Outbox

CutEnded = Callable[[Partition, bool], None]
"""Is called with True when the log has been cut, with False when there was no room for that."""


class FollowerCuts:
    def __init__(
        self,
        replicas: Replicas,
        checkpoints: Checkpoints,
        full_disks: FullDisks,
        outbox: Outbox,
        before_cut: Callable[[Partition], bool],
    ) -> None:
        """`before_cut` ends whatever else is at work on a partition, and returns whether it has ended."""
        self._replicas = replicas
        self._checkpoints = checkpoints
        self._full_disks = full_disks
        self._outbox = outbox
        self._before_cut = before_cut

    def begin(self, partition: Partition, offset: int, *, truncate_fully: bool) -> bool:
        """Write down that the log goes back to `offset`. False: not now, something else is under way."""
        log = partition.log
        is_free = self._before_cut(partition) and log.no_room is None
        if not is_free or not log.begin_truncation(offset, truncate_fully=truncate_fully):
            return False
        partition.high_watermark = min(partition.high_watermark, offset)
        self._checkpoints.lower(log)
        return True

    def carry_out_if_due(self, log: PartitionLog, ended: CutEnded) -> None:
        """Cut a log if that has begun, and the checkpoints know of it."""
        is_waiting = log.truncation.is_begun and log.truncation.in_flight is None
        if is_waiting and self._checkpoints.is_lowered(log):
            effect = log.truncation.begin_cut()
            done = partial(self._on_truncated, log, effect, ended)
            failed = partial(self._on_truncation_failed, log, effect, ended)
            self._outbox.add_effect(effect, Completion(done, failed, (log,)))

    def give_up(self, partition: Partition) -> None:
        """Another leader may think otherwise. A cut that is under way is finished first: see `ControlCommands`."""
        truncation = partition.log.truncation
        if truncation.is_begun and truncation.in_flight is None:
            truncation.give_up()
            self._checkpoints.first_dirty_offset_moved(partition.log)
            partition.high_watermark = max(partition.high_watermark, partition.log.log_start_offset)

    def _on_truncated(self, log: PartitionLog, effect: TruncateEffect, ended: CutEnded, result: object) -> None:
        if log.error is None:
            assert isinstance(result, LogState)
            log.on_truncated(effect, result)
            self._end(log, ended, is_cut=True)

    def _on_truncation_failed(
        self, log: PartitionLog, effect: TruncateEffect, ended: CutEnded, error: DiskError
    ) -> None:
        self._full_disks.log_effect_failed(log, error, partial(self._undo_truncation, log, effect, ended))

    def _undo_truncation(self, log: PartitionLog, effect: TruncateEffect, ended: CutEnded) -> None:
        log.truncation.undo(effect)
        self._end(log, ended, is_cut=False)

    def _end(self, log: PartitionLog, ended: CutEnded, *, is_cut: bool) -> None:
        partition = self._replicas.by_log.get(log)
        if partition is None:
            return
        partition.high_watermark = max(min(partition.high_watermark, log.log_end_offset), log.log_start_offset)
        self._checkpoints.first_dirty_offset_moved(log)
        ended(partition, is_cut)
