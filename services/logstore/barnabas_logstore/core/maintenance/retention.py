"""Retention: every log is checked each `log.retention.check.interval.ms`, and its expired segments are deleted.

The files of a segment are renamed at once, which takes them out of the log for good, and removed
`file.delete.delay.ms` later, as in Kafka. A tick checks some logs and retires some segments of them; a log with more of
them that have expired waits until the others have been checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import assert_never

from barnabas.containment import CONTAINING
from barnabas.ports.disk import DiskError
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.expired_segments import ExpiredSegments
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.maintenance.log_flusher import LogFlusher
from barnabas_logstore.core.replica.containment import RETENTION
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.effects import DeleteFilesEffect, RetireEffect
from barnabas_logstore.core.storage.log.features.log_retention import RetentionOutcome
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Completion, Outbox, ignore_result

# Checking a log takes some microseconds, and sometimes a read of a file.
LOGS_PER_TICK = 128
SEGMENTS_PER_TICK = 128
# Kafka's initial delay: a logstore that has just started has more urgent things to do.
FIRST_CHECK_MS_MAX = 30_000


class Retention:
    def __init__(
        self,
        replicas: Replicas,
        checkpoints: Checkpoints,
        full_disks: FullDisks,
        flusher: LogFlusher,
        expired: ExpiredSegments,
        outbox: Outbox,
        check_interval_ms: int,
        moved: Callable[[Partition], None],
    ) -> None:
        """`moved` gets partitions whose log start has changed, to notify watches and followers."""
        self._replicas = replicas
        self._checkpoints = checkpoints
        self._full_disks = full_disks
        self._flusher = flusher
        self._expired = expired
        self._outbox = outbox
        self._moved = moved
        self._check_interval_ms = check_interval_ms
        self._now_ms = self._wall_ms = 0
        self._due_ms = -1
        self._to_check: deque[Partition] = deque()
        # Logs with retired segments whose files are not renamed yet; a dict for its order.
        self._retiring: dict[PartitionLog, None] = {}
        # Logs that were rolled so that all of their records can be deleted; a dict for its order.
        self._to_flush: dict[PartitionLog, None] = {}
        self._deletions: deque[tuple[int, DeleteFilesEffect]] = deque()

    def tick(self, now_ms: int, wall_ms: int) -> None:
        self._now_ms, self._wall_ms = now_ms, wall_ms
        if self._due_ms < 0:
            self._due_ms = now_ms + min(self._check_interval_ms, FIRST_CHECK_MS_MAX)
        if now_ms >= self._due_ms and not self._to_check:
            self._due_ms = now_ms + self._check_interval_ms
            self._to_check.extend(self._replicas.by_key.values())
        segments_left = SEGMENTS_PER_TICK
        for _ in range(min(len(self._to_check), LOGS_PER_TICK)):
            partition = self._to_check.popleft()
            segments_left -= len(partition.log.segments)
            self.check(partition, wall_ms)
            segments_left += len(partition.log.segments)
            if segments_left <= 0:
                break
        for log in [*self._retiring, *self._to_flush]:
            try:
                self.continue_retiring(log)
            except Exception as error:
                with CONTAINING:
                    self._replicas.contained.log_in_doubt(RETENTION, error, log)
        self._delete(now_ms)

    @property
    def is_at_rest(self) -> bool:
        return not (self._to_check or self._retiring or self._to_flush)

    def check_soon(self, partition: Partition) -> None:
        """Check it before all others, by the next tick: records were deleted, perhaps to free space."""
        self._to_check.appendleft(partition)

    def check(self, partition: Partition, wall_ms: int) -> None:
        """Apply retention to one partition now."""
        log = partition.log
        is_here = partition.online and self._replicas.by_log.get(log) is partition
        if not is_here or not partition.is_config_known:
            return
        try:
            outcome = log.apply_retention(partition.high_watermark, wall_ms)
            self._expired.read(partition, self._check_again)
            match outcome:
                case RetentionOutcome.NOTHING:
                    return
                case RetentionOutcome.RETIRED:
                    pass
                case RetentionOutcome.MORE:
                    self._to_check.append(partition)
                case RetentionOutcome.ROLLED:
                    self._to_flush[log] = None
                case _:
                    assert_never(outcome)
            self._retiring[log] = None
            self.log_start_moved(partition)
            self.continue_retiring(log)
        except DiskError as error:
            self._replicas.disk_failed(log, error)
        except Exception as fault:
            with CONTAINING:
                self._replicas.contained.log_in_doubt(RETENTION, fault, log)

    def _check_again(self, partition: Partition) -> None:
        """More is known of its first segment."""
        self.check(partition, self._wall_ms)

    def log_start_moved(self, partition: Partition) -> None:
        """The log start was moved by retention or by DeleteRecords: report it, and write it to the next checkpoint."""
        self._moved(partition)
        self._checkpoints.log_start_moved(partition.log)

    def log_start_followed(self, partition: Partition) -> None:
        """The log start was moved by the leader. If the disk is full, the files are deleted as soon as they would be at
        the leader itself.
        """
        self.log_start_moved(partition)
        if partition.log.no_room is not None:
            self.check_soon(partition)

    def continue_retiring(self, log: PartitionLog) -> None:
        """Rename what is left to rename, as soon as no flush is in progress."""
        if log in self._to_flush:
            self._flush_rolled(log)
        if log not in self._retiring:
            return
        if log.error is not None or log not in self._replicas.by_log:
            # Its files have lost their names; another log may have these names by now.
            del self._retiring[log]
        elif (effect := log.begin_retirement()) is not None:
            del self._retiring[log]
            self._outbox.add_effect(
                effect,
                Completion(
                    partial(self._on_retired, log, effect), partial(self._on_retiring_failed, log, effect), (log,)
                ),
            )

    def _flush_rolled(self, log: PartitionLog) -> None:
        """Check again as soon as the segment that was rolled for retention is flushed."""
        partition = self._replicas.by_log.get(log)
        if partition is None or log.error is not None:
            del self._to_flush[log]
        elif log.recovery_point >= log.segments.active.base_offset:
            del self._to_flush[log]
            self.check_soon(partition)
        elif (effect := log.begin_due_flush(self._now_ms)) is not None:
            self._flusher.send(log, effect)

    def _on_retired(self, log: PartitionLog, effect: RetireEffect, result: object) -> None:
        """The files are renamed; they are removed after file.delete.delay.ms."""
        log.retirement.done(effect)
        self.delete_later(log, effect.retired_paths)
        if not log.retirement.is_idle:
            self._retiring[log] = None
            self.continue_retiring(log)

    def _on_retiring_failed(self, log: PartitionLog, effect: RetireEffect, error: DiskError) -> None:
        self._full_disks.log_effect_failed(log, error, partial(self._retire_later, log, effect))

    def _retire_later(self, log: PartitionLog, effect: RetireEffect) -> None:
        """A rename found no space: it is tried again at the next tick."""
        log.retirement.undo(effect)
        self._retiring[log] = None

    def delete_later(self, log: PartitionLog, paths: list[str]) -> None:
        """Remove files that do not belong to the log any more, in file.delete.delay.ms."""
        removal = DeleteFilesEffect(log.state.log_directory, paths)
        self._deletions.append((self._now_ms + log.config.file_delete_delay_ms, removal))

    def _delete(self, now_ms: int) -> None:
        waiting = deque[tuple[int, DeleteFilesEffect]]()
        for due_ms, effect in self._deletions:
            if due_ms <= now_ms:
                failed = partial(self._replicas.directory_failed, effect.log_directory)
                self._outbox.add_effect(effect, Completion(ignore_result, failed))
            else:
                waiting.append((due_ms, effect))
        self._deletions = waiting
