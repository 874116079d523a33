"""Truncate a log: remove what is at or past an offset, or everything if the leader has none of it.

Recovery trusts what is below the recovery point. So before anything may be appended below an old one, a lower one has
to be on the disk: `PartitionLog.begin_truncation` lowers it in memory, and no flush raises it again; the caller writes
the checkpoint (`Checkpoints.lower`) before it begins the truncation. Until then the truncation can be cancelled.

What the IO worker finds when it opens the truncated log again (`log_cut`) replaces everything that the log had in
memory.
"""

from __future__ import annotations

from barnabas_logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from barnabas_logstore.core.storage.effects import FileReplacement, SmallWrite, TruncateEffect
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.log_state import LogState


class LogTruncation:
    """`is_begun`: the log may neither grow nor be flushed. `in_flight` is the effect that truncates it.
    `is_broken_off`: the log went offline meanwhile; its files are not what is in memory.
    """

    __slots__ = ("_offset", "_state", "_truncate_fully", "in_flight", "is_begun", "is_broken_off")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.is_begun = False
        self.is_broken_off = False
        self._offset = -1
        self._truncate_fully = False
        self.in_flight: TruncateEffect | None = None

    def begin(self, offset: int, *, truncate_fully: bool) -> int:
        """Prepare to truncate at `offset`; before the log's start that means to start over. Return the offset from
        which on nothing is to be relied on after a crash, which may bring some of the segments back: recovery reads
        nothing of those below the recovery point. That is where a segment begins: the one that is to be cut may still
        have all its batches while the next one, which begins in the midst of them, is already there.
        """
        self.is_begun = True
        self._offset = offset
        self._truncate_fully = truncate_fully or offset < self._state.log_start_offset
        return 0 if self._truncate_fully else self._state.segments.containing(offset).base_offset

    def give_up(self) -> None:
        """Nothing has been truncated, and nothing will be."""
        assert self.in_flight is None
        self.is_begun = False

    def begin_cut(self) -> TruncateEffect:
        """Truncate as `begin` prepared, once the recovery point is written.

        A batch that reaches past the offset is removed completely.
        """
        assert self.is_begun
        assert self.in_flight is None
        state, offset = self._state, self._offset
        epochs = LeaderEpochs()
        writes: list[SmallWrite] = []
        if not self._truncate_fully:
            for epoch, start_offset in state.leader_epochs.entries():
                if start_offset < offset:
                    epochs.assign(epoch, start_offset)
            for segment in state.segments.all():
                if segment.base_offset <= offset:
                    writes += segment.take_unsaved_indexes()
        self.in_flight = TruncateEffect(
            state.directory,
            state.topic_partition,
            state.config,
            offset,
            self._truncate_fully,
            recovery_point=state.recovery_point,
            log_start_offset=offset if self._truncate_fully else state.log_start_offset,
            leader_epochs=FileReplacement(f"{state.directory}/{LEADER_EPOCH_CHECKPOINT}", epochs.format()),
            index_writes=writes,
        )
        return self.in_flight

    def end(self, effect: TruncateEffect) -> None:
        """The log is truncated."""
        assert effect is self.in_flight
        self.in_flight = None
        self.is_begun = False

    def undo(self, effect: TruncateEffect) -> None:
        """There was no space for what has to be written first: nothing has been truncated."""
        self.end(effect)
        self._state.leader_epochs.unsaved = True
        for segment in self._state.segments.all():
            segment.save_whole_indexes()

    def abandon(self) -> None:
        """The log is offline."""
        if self.in_flight is not None:
            self.is_broken_off = True
        self.in_flight = None
        self.is_begun = False
