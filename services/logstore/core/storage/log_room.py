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

from typing import TYPE_CHECKING

from barnabas.ports.disk import Disk, DiskError
from services.logstore.core.storage.effects import FlushEffect, TakeBackEffect, WriteEffect
from services.logstore.core.storage.producer_recovery import load_producers
from services.logstore.core.storage.producer_state import SNAPSHOT_SUFFIX, ProducerEntry, ProducerState
from services.logstore.core.storage.segment import offsets_of

if TYPE_CHECKING:
    from services.logstore.core.storage.log import PartitionLog


class LogRoom:
    """`error` says why appends are refused for now. `in_flight` is the effect that takes back what was not written."""

    __slots__ = ("_log", "_to_take_back", "error", "in_flight")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.error: DiskError | None = None
        self.in_flight: TakeBackEffect | None = None
        self._to_take_back: TakeBackEffect | None = None

    @property
    def is_log_whole(self) -> bool:
        """Nothing is left on the disk of what was taken back, and nothing is missing in memory."""
        return self.in_flight is None and self._to_take_back is None

    def refuse(self, error: DiskError) -> None:
        """Take no appends until `accept`. What is queued already is still tried."""
        self.error = error

    def accept(self) -> bool:
        """There is room again. False: not for this log yet, which has something to take back first."""
        if not self.is_log_whole:
            return False
        self.error = None
        return True

    # --- failures ---

    def flush_failed(self, effect: FlushEffect, error: DiskError) -> None:
        """A flush on its own: it is begun anew when it is due."""
        self.refuse(error)
        self._log.flushes.undo(effect)

    def write_failed(self, effect: WriteEffect, error: DiskError) -> list[object]:
        """Forget what is not written; the tokens of its appends, for a KAFKA_STORAGE_ERROR each."""
        self.refuse(error)
        log = self._log
        if effect.flush is not None:
            log.flushes.undo(effect.flush)
        if not effect.byte_count:
            # A flush for somebody who repeated a batch: nothing is to be taken back.
            log.writes.done(effect)
            return effect.tokens
        tokens = log.writes.abandon()
        segment = effect.segment
        log.segments.remove_after(segment)
        segment.take_back(effect.mark)
        if effect.creates:
            segment.is_made = False
        log.segments.recent.truncate_from(log.log_end_offset)
        log.next_offset = log.log_end_offset
        log.flushes.take_back(log.log_end_offset)
        # An epoch that begins here has no batch yet, and the leader may be leading by it.
        log.leader_epochs.truncate_from(log.log_end_offset + 1)
        cuts = [(segment.log_path, segment.byte_count), *((path, 0) for path in segment.paths[1:])]
        if effect.flush is not None:
            # They may tell of batches that are taken back, and be believed when others are in their place.
            cuts += [(snapshot.path, 0) for snapshot in effect.flush.new_files]
        self._to_take_back = TakeBackEffect(log, cuts)
        return tokens

    # --- taking back ---

    def take(self) -> TakeBackEffect | None:
        """What has to be done on the disk, once nothing else is under way there. Its outcome goes to `done`."""
        effect = self._to_take_back
        if effect is None or self.in_flight is not None or not self._log.is_idle:
            return None
        log = self._log
        end_offset = log.log_end_offset
        if any(_reaches(entry, end_offset) for entry in log.producers.entries()):
            directory, segments = log.directory, log.segments.all()

            def load(disk: Disk) -> ProducerState:
                files = [entry.name for entry in disk.list(directory)]
                return load_producers(disk, directory, offsets_of(files, SNAPSHOT_SUFFIX), segments, end_offset)[0]

            effect.load_producers = load
        self._to_take_back = None
        self.in_flight = effect
        return effect

    def done(self, effect: TakeBackEffect) -> None:
        """The log is as if what was not written had never been appended."""
        assert effect is self.in_flight
        self.in_flight = None
        if effect.producers is not None:
            self._log.producers.load(_taken_back(self._log, effect.producers))

    def undo(self, effect: TakeBackEffect) -> None:
        """Not even for this was there room: to be tried again."""
        assert effect is self.in_flight
        self.in_flight = None
        self._to_take_back = TakeBackEffect(effect.log, effect.cuts)


def _reaches(entry: ProducerEntry, end_offset: int) -> bool:
    return bool(entry.batches) and entry.batches[-1].last_offset >= end_offset


def _taken_back(log: PartitionLog, loaded: ProducerState) -> list[ProducerEntry]:
    """The producers in memory without what was not written.

    Those that lose a batch are what the log itself says of them, which reaches back to the last snapshot; what memory
    knows of their batches before it is kept, as the window of duplicates must not shrink.
    """
    end_offset = log.log_end_offset
    by_id = {entry.producer_id: entry for entry in loaded.entries()}
    entries = []
    for entry in log.producers.entries():
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
