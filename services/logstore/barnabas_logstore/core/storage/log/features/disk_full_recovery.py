"""What a log does when its disk has no room: no batch is torn, nothing that is written is lost, and reads go on.

A write that fails for lack of room may have left any part of itself behind. What had been appended and is not written
is answered KAFKA_STORAGE_ERROR, all of it, and everything that the log knows of it is taken back: offsets, sizes, index
entries, leader epochs at once, and what an IO worker has to do for that (`TakeBackEffect`): cut the file, durably, or
a part of a batch might come back after a crash in the place of others; and read again what producers had written.
Appends are refused from then on, until the log is as it was and `accept` says that there is room again.

A flush that finds no room for an index or a snapshot has flushed nothing yet. It is forgotten, and begun anew when it
is due. A flush that *fails* is another matter: `DiskError.is_lack_of_room`.
"""

from __future__ import annotations

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.effects import NewFile, ProducersToLoad, TakeBackEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.log.state.producer_state import ProducerEntry, ProducerState
from barnabas_logstore.core.storage.segment.segment import Segment, SegmentMark


class DiskFullRecovery:
    """`in_flight` is the effect that takes back what was not written."""

    __slots__ = ("_state", "_to_take_back", "in_flight")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.in_flight: TakeBackEffect | None = None
        self._to_take_back: list[tuple[str, int]] | None = None

    @property
    def is_log_whole(self) -> bool:
        """Nothing is left on the disk of what was taken back, and nothing is missing in memory."""
        return self.in_flight is None and self._to_take_back is None

    def refuse_appends(self, error: DiskError) -> None:
        """Take no appends until `accept_appends`. What is queued already is still tried."""
        self._state.no_room = error

    def accept_appends(self) -> bool:
        """There is room again. False: not for this log yet, which has something to take back first."""
        if not self.is_log_whole:
            return False
        self._state.no_room = None
        return True

    # --- taking back ---

    def forget_unwritten(self, segment: Segment, mark: SegmentMark, *, is_made: bool, new_files: list[NewFile]) -> None:
        """Take back in memory what was appended since `segment`, which `is_made` if its files were there before the
        failed write, was as `mark` says. `new_files` were to be written with it, and may have been.
        """
        state = self._state
        state.segments.remove_after(segment)
        segment.take_back(mark)
        segment.is_made = is_made
        state.segments.recent.truncate_from(state.log_end_offset)
        state.next_offset = state.log_end_offset
        # An epoch that begins here has no batch yet, and the leader may be leading by it.
        state.leader_epochs.truncate_from(state.log_end_offset + 1)
        cuts = [(segment.log_path, segment.byte_count), *((path, 0) for path in segment.paths[1:])]
        # They may tell of batches that are taken back, and be believed when others are in their place.
        self._to_take_back = cuts + [(file.path, 0) for file in new_files]

    def begin(self) -> TakeBackEffect | None:
        """What has to be done on the disk; None where nothing has, or it is under way."""
        if self._to_take_back is None or self.in_flight is not None:
            return None
        state = self._state
        effect = TakeBackEffect(state.directory, self._to_take_back)
        if any(_reaches(entry, state.log_end_offset) for entry in state.producers.entries()):
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
            self._state.producers.load(_taken_back(self._state, producers))

    def undo(self, effect: TakeBackEffect) -> None:
        """Not even for this was there room: to be tried again."""
        assert effect is self.in_flight
        self.in_flight = None
        self._to_take_back = effect.cuts


def _reaches(entry: ProducerEntry, end_offset: int) -> bool:
    return bool(entry.batches) and entry.batches[-1].last_offset >= end_offset


def _taken_back(state: LogState, loaded: ProducerState) -> list[ProducerEntry]:
    """The producers in memory without what was not written.

    Those that lose a batch are what the log itself says of them, which reaches back to the last snapshot; what memory
    knows of their batches before it is kept, as the window of duplicates must not shrink.
    """
    end_offset = state.log_end_offset
    by_id = {entry.producer_id: entry for entry in loaded.entries()}
    entries = []
    for entry in state.producers.entries():
        if not _reaches(entry, end_offset):
            entries.append(entry)
            continue
        kept = [batch for batch in entry.batches if batch.last_offset < end_offset]
        rebuilt = by_id.get(entry.producer_id)
        if rebuilt is not None:
            if rebuilt.producer_epoch == entry.producer_epoch and len(kept) > len(rebuilt.batches):
                rebuilt.batches = kept
            entries.append(rebuilt)
        elif kept:
            # Its batches are no longer in the log, and it is remembered all the same.
            entry.batches = kept
            entries.append(entry)
    return entries
