"""What a logstore does by the clock: flushes that are due, checkpoints, the removal of deleted partitions."""

from __future__ import annotations

from services.logstore.core.directories import Directories
from services.logstore.core.outbox import Outbox
from services.logstore.core.replicas import Replicas
from services.logstore.core.storage.effects import ReplaceEffect
from services.logstore.core.storage.log import PartitionLog

# flush.ms of a topic is kept to within this.
FLUSH_CHECK_MS = 100
# Recovery points and high watermarks. The older they are, the more a crash has to scan; nothing is lost by it.
CHECKPOINT_MS = 5_000


class Housekeeping:
    def __init__(self, replicas: Replicas, directories: Directories, outbox: Outbox) -> None:
        self._replicas = replicas
        self._directories = directories
        self._outbox = outbox
        self._flush_check_due_ms = 0
        self._checkpoint_due_ms = 0
        # Logs with something to flush. Where the topic leaves that to the kernel, a log stays here and costs a look.
        self._unflushed: dict[PartitionLog, None] = {}
        self._is_checkpoint_due = False
        # One at a time per file: an older checkpoint must not come after a newer one.
        self._checkpoints_in_flight: dict[ReplaceEffect, None] = {}

    def written(self, log: PartitionLog) -> None:
        """A log has grown: it is flushed when that is due, and its offsets go into the next checkpoints."""
        self._unflushed[log] = None
        self._is_checkpoint_due = True

    def tick(self, now_ms: int) -> None:
        """Send out what is due."""
        if now_ms >= self._flush_check_due_ms:
            self._flush_check_due_ms = now_ms + FLUSH_CHECK_MS
            self._flush(now_ms)
            for effect in self._directories.deletions(now_ms):
                self._outbox.add_effect(effect)
        if now_ms >= self._checkpoint_due_ms:
            self._checkpoint_due_ms = now_ms + CHECKPOINT_MS
            self._checkpoint()

    def _flush(self, now_ms: int) -> None:
        for log in list(self._unflushed):
            if log not in self._replicas.by_log or log.error is not None:
                del self._unflushed[log]
                continue
            effect = log.take_flush(now_ms)
            if effect is not None:
                self._outbox.add_effect(effect)
            elif log.recovery_point == log.next_offset:
                del self._unflushed[log]

    def _checkpoint(self) -> None:
        if not self._is_checkpoint_due or self._checkpoints_in_flight:
            return
        self._is_checkpoint_due = False
        for effect in self._directories.checkpoints():
            self._checkpoints_in_flight[effect] = None
            self._outbox.add_effect(effect)

    def on_replaced(self, effect: ReplaceEffect) -> None:
        """A checkpoint is in place, or its directory has failed."""
        self._checkpoints_in_flight.pop(effect, None)

    def flushed(self) -> None:
        """A recovery point has moved."""
        self._is_checkpoint_due = True
