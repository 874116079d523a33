"""What of one log is not durable yet, and the flush that makes it so: one under way at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from services.logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from services.logstore.core.storage.effects import FileReplacement, FlushEffect, NewFile
from services.logstore.core.storage.segment import Segment

if TYPE_CHECKING:
    from services.logstore.core.storage.log import PartitionLog


class LogFlushes:
    """Everything below `recovery_point` is durable. `in_flight` is the flush under way, in a write or on its own."""

    __slots__ = (
        "_closed_segments",
        "_directory_changed",
        "_last_flush_ms",
        "_log",
        "_other_paths",
        "_snapshots",
        "in_flight",
        "recovery_point",
        "snapshot_offset",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        recovery_point: int,
        snapshot_offset: int,
        is_durable: bool,
        closed_segments: list[tuple[Segment, int]],
    ) -> None:
        """See `PartitionLog`."""
        self._log = log
        self.recovery_point = recovery_point
        self.snapshot_offset = snapshot_offset
        self.in_flight: FlushEffect | None = None
        self._last_flush_ms = -1
        self._snapshots: list[NewFile] = []
        self._other_paths: list[str] = []
        self._directory_changed = not is_durable
        self._closed_segments = closed_segments

    @property
    def are_all_names_durable(self) -> bool:
        return not self._directory_changed

    # --- what is to be flushed ---

    def add_file(self, path: str) -> None:
        """A new file that holds no batches."""
        self._other_paths.append(path)
        self._directory_changed = True

    def add_snapshot(self, snapshot: NewFile, offset: int) -> None:
        """The producers as of `offset`."""
        self._snapshots.append(snapshot)
        self.snapshot_offset = offset
        self._directory_changed = True

    def add_closed_segment(self, segment: Segment, end_offset: int) -> None:
        """A segment that has a successor from now on; it is flushed once all of it is written."""
        self._closed_segments.append((segment, end_offset))
        self._directory_changed = True

    def forget_segments(self, retired: list[Segment]) -> None:
        """Not in the log any more: nothing of them has to last."""
        self._closed_segments = [(segment, end) for segment, end in self._closed_segments if segment not in retired]

    # --- flushes ---

    def due_upto(self, now_ms: int) -> int:
        """Up to which offset a flush is due; -1: none is."""
        log = self._log
        if self._last_flush_ms < 0:
            self._last_flush_ms = now_ms
        unflushed_messages = log.log_end_offset - self.recovery_point
        flush_ms_passed = now_ms - self._last_flush_ms >= log.config.flush_ms
        if unflushed_messages >= log.config.flush_messages or (unflushed_messages > 0 and flush_ms_passed):
            return log.log_end_offset
        return max((end for _, end in self._closed_segments if end <= log.log_end_offset), default=-1)

    def begin_due(self, upto_offset: int, now_ms: int) -> FlushEffect:
        """Begin a flush that came due by the clock or by a closed segment."""
        self._last_flush_ms = now_ms
        return self.begin(upto_offset)

    def begin(self, upto_offset: int) -> FlushEffect:
        """Closed segments go first and whole: recovery drops what follows a damaged batch, durable or not."""
        log = self._log
        effect = self.in_flight = FlushEffect(log, upto_offset)
        if log.leader_epochs.unsaved:
            path = f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}"
            effect.replacements.append(FileReplacement(path, log.leader_epochs.format()))
            log.leader_epochs.unsaved = False
        while self._closed_segments and self._closed_segments[0][1] <= upto_offset:
            effect.closed_segments.append(self._closed_segments.pop(0)[0])
        open_segments = log.segments.overlapping(self.recovery_point, upto_offset)
        for segment in dict.fromkeys(effect.closed_segments + open_segments):
            effect.writes += segment.take_unsaved_indexes()
            effect.files += segment.paths
        effect.new_files = self._snapshots
        effect.files += [snapshot.path for snapshot in self._snapshots] + self._other_paths
        self._snapshots, self._other_paths = [], []
        if self._directory_changed:
            effect.directories = [log.directory, log.directory.rpartition("/")[0]]
            self._directory_changed = False
        return effect

    def done(self, effect: FlushEffect) -> None:
        """Everything below `effect.upto_offset` is durable."""
        assert effect is self.in_flight
        self.in_flight = None
        for segment in effect.closed_segments:
            segment.release_indexes()
        self.recovery_point = max(self.recovery_point, effect.upto_offset)
