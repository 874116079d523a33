"""Track what of one log is not durable yet, and the flush that makes it so: one in progress at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from barnabas_logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from barnabas_logstore.core.storage.effects import FileReplacement, FlushEffect, NewFile, SmallWrite
from barnabas_logstore.core.storage.log.state.log_state import LogState, UnflushedFiles
from barnabas_logstore.core.storage.segment.segment import Segment


class LogFlushes:
    """`in_flight` is the flush in progress, in a write or on its own."""

    __slots__ = ("_begun", "_last_flush_ms", "_state", "in_flight")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.in_flight: FlushEffect | None = None
        self._begun: _Begun | None = None
        self._last_flush_ms = -1

    @property
    def are_all_names_durable(self) -> bool:
        return not self._state.unflushed.has_new_names

    @property
    def snapshot_offset(self) -> int:
        """The offset of the newest snapshot of producers; 0: none is needed."""
        return self._state.unflushed.snapshot_offset

    @property
    def whole_segments_upto(self) -> int:
        """Segments that end here or before are durable, including their snapshots."""
        under_way = self._begun.closed_segments if self.in_flight is not None and self._begun is not None else []
        waiting = [segment.base_offset for segment, _ in (*under_way, *self._state.unflushed.closed_segments)]
        return min([self._state.recovery_point, *waiting])

    def log_opened(self, opened: UnflushedFiles) -> None:
        """The log was truncated and opened again, and that is what is not durable of it."""
        opened.other_files = self._state.unflushed.other_files
        # Its own name may be as new as its first segment's.
        opened.has_new_names = True
        self._state.unflushed = opened

    def lower_recovery_point(self, offset: int) -> None:
        """Records past `offset` must not be relied on after a crash."""
        self._state.recovery_point = min(self._state.recovery_point, offset)

    # --- what is to be flushed ---

    def relocate(self) -> None:
        """The log is in another directory; files that wait to be flushed are created there."""
        assert self.in_flight is None
        directory, unflushed = self._state.directory, self._state.unflushed
        unflushed.snapshots = [
            (offset, NewFile(f"{directory}/{snapshot.path.rpartition('/')[2]}", snapshot.content))
            for offset, snapshot in unflushed.snapshots
        ]
        unflushed.other_files = [
            replace(other, path=f"{directory}/{other.path.rpartition('/')[2]}") for other in unflushed.other_files
        ]

    def add_file(self, path: str, content: bytes) -> None:
        """Add a new file that contains no batches."""
        self._state.unflushed.other_files.append(SmallWrite(path, 0, content))
        self.names_changed()

    def add_snapshot(self, snapshot: NewFile, offset: int) -> None:
        """Add a snapshot of the producers as of `offset`."""
        self._state.unflushed.add_snapshot(snapshot, offset)

    def add_closed_segment(self, segment: Segment, end_offset: int) -> None:
        """Add a segment that has a successor from now on; it is flushed once all of it is written."""
        self._state.unflushed.closed_segments.append((segment, end_offset))

    def names_changed(self) -> None:
        """Files were created, which no flush has to write to, but whose names have to be durable."""
        self._state.unflushed.has_new_names = True

    def forget_segments(self, retired: list[Segment]) -> None:
        """They are not in the log any more: nothing of them has to be durable."""
        unflushed = self._state.unflushed
        unflushed.closed_segments = [each for each in unflushed.closed_segments if each[0] not in retired]

    # --- flushes ---

    def due_upto(self, now_ms: int) -> int:
        """Return up to which offset a flush is due; -1: none is."""
        state = self._state
        if self._last_flush_ms < 0:
            self._last_flush_ms = now_ms
        end_offset = state.log_end_offset
        unflushed_messages = end_offset - state.recovery_point
        flush_ms_passed = now_ms - self._last_flush_ms >= state.config.flush_ms
        if unflushed_messages >= state.config.flush_messages or (unflushed_messages > 0 and flush_ms_passed):
            return end_offset
        return max((end for _, end in state.unflushed.closed_segments if end <= end_offset), default=-1)

    def begin_due(self, upto_offset: int, now_ms: int) -> FlushEffect:
        """Begin a flush that is due because of the clock or a closed segment."""
        self._last_flush_ms = now_ms
        return self.begin(upto_offset)

    def begin(self, upto_offset: int) -> FlushEffect:
        """Closed segments are flushed first and completely: recovery drops what follows a damaged batch, durable or
        not.
        """
        state, unflushed = self._state, self._state.unflushed
        effect = self.in_flight = FlushEffect(state.directory, upto_offset)
        if state.leader_epochs.unsaved:
            path = f"{state.directory}/{LEADER_EPOCH_CHECKPOINT}"
            effect.replacements.append(FileReplacement(path, state.leader_epochs.format()))
            state.leader_epochs.unsaved = False
        snapshots = [(offset, snapshot) for offset, snapshot in unflushed.snapshots if offset <= upto_offset]
        closed = [(segment, end) for segment, end in unflushed.closed_segments if end <= upto_offset]
        self._begun = _Begun(
            closed, snapshots, unflushed.other_files, unflushed.has_new_names, bool(effect.replacements)
        )
        unflushed.closed_segments = unflushed.closed_segments[len(closed) :]
        unflushed.snapshots = unflushed.snapshots[len(snapshots) :]
        open_segments = state.segments.overlapping(state.recovery_point, upto_offset)
        if upto_offset == state.next_offset and state.segments.active.is_made:
            # Also an empty one: recovery has truncated its files, and a power cut must not bring back what was in them.
            open_segments.append(state.segments.active)
        for segment in dict.fromkeys([segment for segment, _ in closed] + open_segments):
            effect.writes += segment.take_unsaved_indexes()
            effect.files += segment.paths
        effect.new_files = [snapshot for _, snapshot in snapshots]
        effect.files += [snapshot.path for _, snapshot in snapshots] + [other.path for other in unflushed.other_files]
        effect.writes += unflushed.other_files
        unflushed.other_files = []
        if unflushed.has_new_names or any(write.creates for write in effect.writes):
            effect.directories = [state.directory, state.directory.rpartition("/")[0]]
            unflushed.has_new_names = False
        return effect

    def done(self, effect: FlushEffect) -> None:
        """Everything below `effect.upto_offset` is durable."""
        assert effect is self.in_flight
        assert self._begun is not None
        self.in_flight = None
        for segment, _ in self._begun.closed_segments:
            segment.release_indexes()
        self._state.recovery_point = max(self._state.recovery_point, effect.upto_offset)

    def undo(self, effect: FlushEffect) -> None:
        """There was no space for what has to be written before anything is flushed: as if it had never begun."""
        assert effect is self.in_flight
        assert self._begun is not None
        self.in_flight = None
        begun, state, unflushed = self._begun, self._state, self._state.unflushed
        unflushed.closed_segments = begun.closed_segments + unflushed.closed_segments
        unflushed.snapshots = begun.snapshots + unflushed.snapshots
        unflushed.other_files = begun.other_files + unflushed.other_files
        unflushed.has_new_names = unflushed.has_new_names or begun.has_new_names
        state.leader_epochs.unsaved = state.leader_epochs.unsaved or begun.had_leader_epochs
        open_segments = state.segments.overlapping(state.recovery_point, effect.upto_offset)
        for segment in [*(segment for segment, _ in begun.closed_segments), *open_segments]:
            segment.save_whole_indexes()

    def take_back(self, end_offset: int) -> None:
        """What is past `end_offset` was never written: no segment was closed there."""
        unflushed = self._state.unflushed
        unflushed.closed_segments = [each for each in unflushed.closed_segments if each[1] <= end_offset]
        kept = [(offset, snapshot) for offset, snapshot in unflushed.snapshots if offset <= end_offset]
        if len(kept) < len(unflushed.snapshots):
            unflushed.snapshots = kept
            # Unless a snapshot is older than it could be, it is not missed: another one is written when the log is
            # closed.
            unflushed.snapshot_offset = kept[-1][0] if kept else 0


@dataclass(slots=True, frozen=True)
class _Begun:
    """What the flush in progress contains."""

    closed_segments: list[tuple[Segment, int]]
    snapshots: list[tuple[int, NewFile]]
    other_files: list[SmallWrite]
    has_new_names: bool
    had_leader_epochs: bool
