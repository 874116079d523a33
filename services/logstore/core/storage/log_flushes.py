"""What of one log is not durable yet, and the flush that makes it so: one under way at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from services.logstore.core.storage.effects import FileReplacement, FlushEffect, NewFile
from services.logstore.core.storage.segment import Segment

if TYPE_CHECKING:
    from services.logstore.core.storage.log import PartitionLog


class LogFlushes:
    """Everything below `recovery_point` is durable. `in_flight` is the flush under way, in a write or on its own."""

    __slots__ = (
        "_begun",
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
        self._begun: _Begun | None = None
        self._last_flush_ms = -1
        self._snapshots: list[tuple[int, NewFile]] = []
        self._other_paths: list[str] = []
        self._directory_changed = not is_durable
        self._closed_segments = closed_segments

    @property
    def are_all_names_durable(self) -> bool:
        return not self._directory_changed

    @property
    def whole_segments_upto(self) -> int:
        """Segments that end here or before are durable with all that belongs to them, snapshots included."""
        under_way = self._begun.closed_segments if self.in_flight is not None and self._begun is not None else []
        waiting = [segment.base_offset for segment, _ in (*under_way, *self._closed_segments)]
        return min([self.recovery_point, *waiting])

    def take_over(self, log: PartitionLog) -> None:
        """Be the flushes of `log` from now on, in the place of those that it has; it was opened again."""
        self._log = log
        self._other_paths = log.flushes._other_paths
        self._last_flush_ms = log.flushes._last_flush_ms
        # Its own name may be as new as its first segment's.
        self._directory_changed = True
        log.flushes = self

    # --- what is to be flushed ---

    def relocate(self) -> None:
        """The log is in another directory; what waits to be flushed is made there."""
        assert self.in_flight is None
        directory = self._log.directory
        self._snapshots = [
            (offset, NewFile(f"{directory}/{snapshot.path.rpartition('/')[2]}", snapshot.content))
            for offset, snapshot in self._snapshots
        ]
        self._other_paths = [f"{directory}/{path.rpartition('/')[2]}" for path in self._other_paths]

    def add_file(self, path: str) -> None:
        """A new file that holds no batches."""
        self._other_paths.append(path)
        self._directory_changed = True

    def add_snapshot(self, snapshot: NewFile, offset: int) -> None:
        """The producers as of `offset`."""
        self._snapshots.append((offset, snapshot))
        self.snapshot_offset = offset
        self._directory_changed = True

    def add_closed_segment(self, segment: Segment, end_offset: int) -> None:
        """A segment that has a successor from now on; it is flushed once all of it is written."""
        self._closed_segments.append((segment, end_offset))

    def names_changed(self) -> None:
        """Files were made, which no flush has to write to, but whose names have to last."""
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
        snapshots = [(offset, snapshot) for offset, snapshot in self._snapshots if offset <= upto_offset]
        closed = [(segment, end) for segment, end in self._closed_segments if end <= upto_offset]
        self._begun = _Begun(closed, snapshots, self._other_paths, self._directory_changed, bool(effect.replacements))
        self._closed_segments = self._closed_segments[len(closed) :]
        self._snapshots = self._snapshots[len(snapshots) :]
        effect.closed_segments = [segment for segment, _ in closed]
        open_segments = log.segments.overlapping(self.recovery_point, upto_offset)
        if upto_offset == log.next_offset and log.segments.active.is_made:
            # Also an empty one: recovery has cut its files, and a power cut must not bring back what was in them.
            open_segments.append(log.segments.active)
        for segment in dict.fromkeys(effect.closed_segments + open_segments):
            effect.writes += segment.take_unsaved_indexes()
            effect.files += segment.paths
        effect.new_files = [snapshot for _, snapshot in snapshots]
        effect.files += [snapshot.path for _, snapshot in snapshots] + self._other_paths
        self._other_paths = []
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

    def undo(self, effect: FlushEffect) -> None:
        """There was no room for what has to be written before anything is flushed: as if it had never been begun."""
        assert effect is self.in_flight
        assert self._begun is not None
        self.in_flight = None
        begun = self._begun
        self._closed_segments = begun.closed_segments + self._closed_segments
        self._snapshots = begun.snapshots + self._snapshots
        self._other_paths = begun.other_paths + self._other_paths
        self._directory_changed = self._directory_changed or begun.directory_changed
        log = self._log
        log.leader_epochs.unsaved = log.leader_epochs.unsaved or begun.had_leader_epochs
        for segment in [*effect.closed_segments, *log.segments.overlapping(self.recovery_point, effect.upto_offset)]:
            segment.save_indexes_anew()

    def take_back(self, end_offset: int) -> None:
        """What is past `end_offset` was never written: no segment was closed there."""
        self._closed_segments = [(segment, end) for segment, end in self._closed_segments if end <= end_offset]
        kept = [(offset, snapshot) for offset, snapshot in self._snapshots if offset <= end_offset]
        if len(kept) < len(self._snapshots):
            self._snapshots = kept
            # Unless a snapshot is older than it could be, nobody misses it: another one is made when the log is closed.
            self.snapshot_offset = kept[-1][0] if kept else 0


@dataclass(slots=True, frozen=True)
class _Begun:
    """What the flush under way has taken along."""

    closed_segments: list[tuple[Segment, int]]
    snapshots: list[tuple[int, NewFile]]
    other_paths: list[str]
    directory_changed: bool
    had_leader_epochs: bool
