"""Periodic work of a logstore: flushes, checkpoints, retention, the removal of deleted partitions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice

from barnabas.containment import CONTAINING
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.log_flusher import LogFlusher
from barnabas_logstore.core.maintenance.retention import Retention
from barnabas_logstore.core.replica.containment import FLUSH
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Completion, Outbox, ignore_result

# The accuracy with which flush.ms of a topic is kept.
FLUSH_CHECK_MS = 100
# Logs that leave their flushes to the kernel (flush.ms above this, by default unlimited) are checked when they have
# been written to, and otherwise once in so many checks: ten thousand idle logs cost next to nothing.
_RARE_FLUSH_MS = 3_600_000
_CHECKS_OF_REST = 100


class Housekeeping:
    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        checkpoints: Checkpoints,
        retention: Retention,
        flusher: LogFlusher,
        outbox: Outbox,
    ) -> None:
        self._replicas = replicas
        self._directories = directories
        self._checkpoints = checkpoints
        self._retention = retention
        self._flusher = flusher
        self._outbox = outbox
        # Logs with something to flush, or to check for it.
        self._unflushed: dict[PartitionLog, None] = {}
        # Such logs with nothing due for long unless they are written to; the one to be checked next first.
        self._resting: dict[PartitionLog, None] = {}

    def found_at_start(self, log: PartitionLog) -> None:
        """After a crash, closed segments may have to be flushed again, even if the log is never written to: what is not
        durable is neither retired nor compacted.
        """
        if log.flushes.whole_segments_upto < log.segments.active.base_offset:
            self._unflushed[log] = None

    def written(self, logs: Iterable[PartitionLog]) -> None:
        """These have grown: they are flushed when that is due, and their offsets go into the next checkpoints."""
        for log in logs:
            if log in self._replicas.by_log:
                self._unflushed[log] = None
                self._checkpoints.high_watermark_moved(log)

    def written_and_flushed(self, log: PartitionLog) -> None:
        """A write has flushed its log."""
        self._checkpoints.recovery_point_moved(self._directories.directory_of(log))
        self._retention.continue_retiring(log)

    @property
    def is_at_rest(self) -> bool:
        """Whether no log waits for a flush, or for anything else that is begun."""
        return not self._unflushed and self._retention.is_at_rest

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Begin what is due."""
        self._flush(now_ms)
        self._retention.tick(now_ms, wall_ms)
        for effect in self._directories.deletions(now_ms):
            failed = partial(self._replicas.directory_failed, effect.path.rpartition("/")[0])
            self._outbox.add_effect(effect, Completion(ignore_result, failed))
        self._checkpoints.tick(now_ms)

    def _flush(self, now_ms: int) -> None:
        for log in list(islice(self._resting, -(-len(self._resting) // _CHECKS_OF_REST))):
            del self._resting[log]
            self._unflushed[log] = None
        for log in list(self._unflushed):
            if log not in self._replicas.by_log or log.error is not None:
                del self._unflushed[log]
                continue
            try:
                effect = log.begin_due_flush(now_ms)
            except Exception as error:
                with CONTAINING:
                    self._replicas.contained.log_in_doubt(FLUSH, error, log)
                continue
            if effect is not None:
                self._flusher.send(log, effect)
            elif log.recovery_point == log.next_offset:
                del self._unflushed[log]
            elif log.config.flush_ms > _RARE_FLUSH_MS and log.flushes.in_flight is None:
                del self._unflushed[log]
                self._resting[log] = None
