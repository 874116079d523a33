"""A log whose disk is full: no batch is torn, nothing that is written is lost, and reads continue.

A write that fails for lack of space may have left any part of itself behind. What had been appended and is not written
is all answered KAFKA_STORAGE_ERROR, and everything that the log knows of it is rolled back: offsets, sizes, index
entries and leader epochs at once; the rest is the work of an IO worker (`TakeBackEffect`): truncate the file, durably,
or a part of a batch might come back after a crash instead of others; and read again what producers had written. Appends
are refused from then on, until the log is consistent again and `accept_appends` reports free space.

A flush that finds no space for an index or a snapshot has flushed nothing yet. It is dropped, and begun again when it
is due. A flush that *fails* is another matter: `DiskError.is_lack_of_room`.
"""

from __future__ import annotations

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.effects import NewFile, ProducersToLoad, TakeBackEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.log.state.producer_state import ProducerEntry, ProducerState
from barnabas_logstore.core.storage.log.state.transactions import NO_OFFSET
from barnabas_logstore.core.storage.segment.segment import Segment, SegmentMark


class DiskFullRecovery:
    """`in_flight` is the effect that rolls back what was not written."""

    __slots__ = ("_state", "_to_take_back", "in_flight")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.in_flight: TakeBackEffect | None = None
        self._to_take_back: list[tuple[str, int]] | None = None

    @property
    def is_log_whole(self) -> bool:
        """Nothing is left on the disk of what was rolled back, and nothing is missing in memory."""
        return self.in_flight is None and self._to_take_back is None

    def refuse_appends(self, error: DiskError) -> None:
        """Accept no appends until `accept_appends`. Queued ones are still tried."""
        self._state.no_room = error

    def accept_appends(self) -> bool:
        """There is free space again. Return False if this log has something to roll back first."""
        if not self.is_log_whole:
            return False
        self._state.no_room = None
        return True

    # --- taking back ---

    def forget_unwritten(self, segment: Segment, mark: SegmentMark, *, is_made: bool, new_files: list[NewFile]) -> None:
        """Roll back in memory what was appended since `segment`, which `is_made` if its files existed before the failed
        write, was as `mark` says. `new_files` were to be written with it, and may have been.
        """
        state = self._state
        state.segments.remove_after(segment)
        segment.take_back(mark)
        segment.is_made = is_made
        state.segments.recent.truncate_from(state.log_end_offset)
        state.next_offset = state.log_end_offset
        state.verification_guards.void_all()
        # An epoch that begins here has no batch yet, and the leader may be leading under it.
        state.leader_epochs.truncate_from(state.log_end_offset + 1)
        cuts = [(segment.log_path, segment.byte_count), *((path, 0) for path in segment.index_paths)]
        # They may describe batches that are rolled back, and be trusted when others are in their place.
        self._to_take_back = cuts + [(file.path, 0) for file in new_files]

    def begin(self) -> TakeBackEffect | None:
        """Return what has to be done on the disk; None if nothing has to be, or it is in progress."""
        if self._to_take_back is None or self.in_flight is not None:
            return None
        state = self._state
        effect = TakeBackEffect(state.directory, self._to_take_back)
        if any(entry.last_offset >= state.log_end_offset for entry in state.producers.entries()):
            files = [segment.as_file() for segment in state.segments.all()]
            effect.producers = ProducersToLoad(state.directory, files, state.log_end_offset)
        self._to_take_back = None
        self.in_flight = effect
        return effect

    def done(self, effect: TakeBackEffect, producers: ProducerState | None) -> None:
        """The log is as if what was not written had never been appended. `producers`: the effect's result."""
        assert effect is self.in_flight
        self.in_flight = None
        if producers is not None:
            self._state.producers.load(_taken_back(self._state, producers), self._state.log_end_offset)

    def undo(self, effect: TakeBackEffect) -> None:
        """There was not even space for this: to be tried again."""
        assert effect is self.in_flight
        self.in_flight = None
        self._to_take_back = effect.cuts


def _taken_back(state: LogState, loaded: ProducerState) -> list[ProducerEntry]:
    """Return the producers in memory without what was not written.

    Those that lose a batch are loaded from the log itself, which reaches back to the last snapshot; earlier batches
    known in memory are kept, because the window of duplicates must not shrink.
    """
    end_offset = state.log_end_offset
    by_id = {entry.producer_id: entry for entry in loaded.entries()}
    entries = []
    for entry in state.producers.entries():
        if entry.last_offset < end_offset:
            entries.append(entry)
            continue
        kept = [batch for batch in entry.batches if batch.last_offset < end_offset]
        rebuilt = by_id.get(entry.producer_id)
        if rebuilt is not None:
            if rebuilt.producer_epoch == entry.producer_epoch and len(kept) > len(rebuilt.batches):
                rebuilt.batches = kept
            entries.append(rebuilt)
        elif kept:
            # Its batches are no longer in the log, and it is still remembered.
            entry.batches = kept
            if entry.transaction_first_offset >= end_offset:
                entry.transaction_first_offset = NO_OFFSET
            entries.append(entry)
    return entries
