"""What a logstore does by the clock: flushes, checkpoints, retention, the removal of deleted partitions."""

from __future__ import annotations

from functools import partial
from itertools import islice

from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.log_flusher import LogFlusher
from barnabas_logstore.core.maintenance.retention import Retention
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.effects import WriteEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.completion import Completion, ignore_result
from barnabas_logstore.core.streams.outbox import Outbox

# flush.ms of a topic is kept to within this.
FLUSH_CHECK_MS = 100
# Logs that leave their flushes to the kernel (flush.ms of more than this, by default no end) are looked at when they
# have been written to, and besides once in so many checks: ten thousand idle logs cost next to nothing.
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
        # Logs with something to flush, or to look at for that.
        self._unflushed: dict[PartitionLog, None] = {}
        # Likewise, with nothing due for long unless they are written to; the one to be looked at next first.
        self._resting: dict[PartitionLog, None] = {}

    def found_at_start(self, log: PartitionLog) -> None:
        """After a crash closed segments may have to be flushed again, whether or not the log is ever written to: what
        is not durable is neither retired nor compacted.
        """
        if log.flushes.whole_segments_upto < log.segments.active.base_offset:
            self._unflushed[log] = None

    def on_written(self, log: PartitionLog, effect: WriteEffect) -> None:
        """A log has grown: it is flushed when that is due, and its offsets go into the next checkpoints."""
        self._unflushed[log] = None
        directory = self._directories.directory_of(log)
        self._checkpoints.high_watermark_moved(directory)
        if effect.flush is not None:
            self._checkpoints.recovery_point_moved(directory)
            self._retention.go_on(log)

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Send out what is due."""
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
            effect = log.begin_due_flush(now_ms)
            if effect is not None:
                self._flusher.send(log, effect)
            elif log.recovery_point == log.next_offset:
                del self._unflushed[log]
            elif log.config.flush_ms > _RARE_FLUSH_MS and log.flushes.in_flight is None:
                del self._unflushed[log]
                self._resting[log] = None
