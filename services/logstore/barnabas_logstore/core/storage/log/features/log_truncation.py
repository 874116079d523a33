"""Cutting a log: what is at or past an offset goes, or all of it where the leader has none of it.

Recovery takes what is below the recovery point on trust. So before anything may be appended below an old one, a lower
one has to be on the disk: `PartitionLog.begin_truncation` lowers it in memory, and no flush raises it again; the caller
has it written down (`Checkpoints.lower`) before it asks for the cut. Until then the cut can be given up.

What the IO worker finds when it opens the cut log again (`log_cut`) takes the place of all that the log had in memory.
"""

from __future__ import annotations

from barnabas_logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from barnabas_logstore.core.storage.effects import FileReplacement, SmallWrite, TruncateEffect
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.log_state import LogState


class LogTruncation:
    """`is_begun`: the log may neither grow nor be flushed. `in_flight` is the effect that cuts it."""

    __slots__ = ("_begins_anew", "_offset", "_state", "in_flight", "is_begun")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.is_begun = False
        self._offset = -1
        self._begins_anew = False
        self.in_flight: TruncateEffect | None = None

    def begin(self, offset: int, *, begin_anew: bool) -> int:
        """Get ready to cut at `offset`; before the log's start that is to begin anew. Returns the offset from which on
        nothing is to be relied on after a crash, which may bring some of the segments back: of those below the recovery
        point nothing is read.
        """
        self.is_begun = True
        self._offset = offset
        self._begins_anew = begin_anew or offset < self._state.log_start_offset
        return 0 if self._begins_anew else offset

    def give_up(self) -> None:
        """Nothing has been cut, and nothing is going to be."""
        assert self.in_flight is None
        self.is_begun = False

    def begin_cut(self) -> TruncateEffect:
        """Cut as `begin` said, once the recovery point is written down.

        A batch that reaches past the offset is cut as a whole.
        """
        assert self.is_begun
        assert self.in_flight is None
        state, offset = self._state, self._offset
        epochs = LeaderEpochs()
        writes: list[SmallWrite] = []
        if not self._begins_anew:
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
            self._begins_anew,
            recovery_point=state.recovery_point,
            log_start_offset=offset if self._begins_anew else state.log_start_offset,
            leader_epochs=FileReplacement(f"{state.directory}/{LEADER_EPOCH_CHECKPOINT}", epochs.format()),
            index_writes=writes,
        )
        return self.in_flight

    def end(self, effect: TruncateEffect) -> None:
        """The log is cut."""
        assert effect is self.in_flight
        self.abandon()

    def undo(self, effect: TruncateEffect) -> None:
        """There was no room for what has to be written first: nothing has been cut."""
        self.end(effect)
        self._state.leader_epochs.unsaved = True
        for segment in self._state.segments.all():
            segment.save_indexes_anew()

    def abandon(self) -> None:
        """The log is offline, or cut."""
        self.in_flight = None
        self.is_begun = False
