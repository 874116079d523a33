"""The start offset of each leader epoch (KIP-101): the key to truncating a follower without losing committed records.

Kept in `leader-epoch-checkpoint`, one line `<epoch> <start offset>`. The file is written before the recovery point
passes an entry; entries past the recovery point come back from the batches themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from barnabas_logstore.core.storage.checkpoints import format_checkpoint, parse_checkpoint, whole_number

NO_EPOCH = -1


class LeaderEpochs:
    """Epochs and their start offsets, both ascending."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self.latest = NO_EPOCH
        """The newest epoch."""
        self.unsaved = False

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start_offset), oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records of `epoch` begin at `start_offset`. An epoch that is not newer than the latest one is ignored."""
        if epoch <= self.latest:
            return
        # Epochs without a record are dropped: a later epoch at the same offset replaces them.
        while self._start_offsets and self._start_offsets[-1] >= start_offset:
            self._epochs.pop()
            self._start_offsets.pop()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.latest = epoch
        self.unsaved = True

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; NO_EPOCH before the first known one."""
        index = bisect_right(self._start_offsets, offset)
        return self._epochs[index - 1] if index else NO_EPOCH

    def end_offset_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (the largest known epoch at or below `epoch`, where it ends), or (-1, -1) if unknown.

        Kafka's `LeaderEpochFileCache.endOffsetFor`. For an epoch before all that are known the answer is itself and the
        start of the first: its records and those of all epochs before it are below. One after all that are known is
        unknown.
        """
        if epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, -1
        if epoch == self.latest:
            return epoch, log_end_offset
        index = bisect_right(self._epochs, epoch)
        return self._epochs[index - 1] if index else epoch, self._start_offsets[index]

    def truncate_from(self, offset: int) -> None:
        """Remove epochs that begin at or past `offset`."""
        while self._start_offsets and self._start_offsets[-1] >= offset:
            self._epochs.pop()
            self._start_offsets.pop()
            self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
            self.unsaved = True

    def trim_to(self, log_start_offset: int) -> None:
        """Remove epochs that ended at or before the log start; the one that contains it begins there."""
        index = bisect_right(self._start_offsets, log_start_offset) - 1
        if index < 0 or (index == 0 and self._start_offsets[0] == log_start_offset):
            return
        del self._epochs[:index]
        del self._start_offsets[:index]
        self._start_offsets[0] = log_start_offset
        self.unsaved = True

    def format(self) -> bytes:
        return format_checkpoint([f"{epoch} {start_offset}" for epoch, start_offset in self.entries()])

    @classmethod
    def parse(cls, content: bytes) -> LeaderEpochs | None:
        """Parse the checkpoint's content; None if it is torn or not ascending."""
        entries = parse_checkpoint(content, 2)
        if entries is None:
            return None
        epochs = cls()
        for epoch_text, offset_text in entries:
            epoch, start_offset = whole_number(epoch_text), whole_number(offset_text)
            if epoch is None or start_offset is None or epoch <= epochs.latest:
                return None
            if epochs._start_offsets and start_offset <= epochs._start_offsets[-1]:
                return None
            epochs.assign(epoch, start_offset)
        epochs.unsaved = False
        return epochs

    @staticmethod
    def legible_entries(content: bytes) -> list[tuple[int, int]]:
        """Return (epoch, start_offset) of the lines of a damaged checkpoint that can be read and are in order with the
        others.
        """
        entries: list[tuple[int, int]] = []
        for line in content.decode("utf-8", "replace").splitlines():
            words = line.split()
            if len(words) == 2:
                epoch, start_offset = whole_number(words[0]), whole_number(words[1])
                if epoch is not None and start_offset is not None:
                    entries.append((epoch, start_offset))
        wrong: set[int] = set()
        for at, (entry, following) in enumerate(pairwise(entries)):
            if not _ascends(entry, following):
                # The one without which the rest is in order; both if that is either.
                is_first_wrong = at == 0 or _ascends(entries[at - 1], following)
                is_second_wrong = at + 2 == len(entries) or _ascends(entry, entries[at + 2])
                wrong |= {at} if is_first_wrong or not is_second_wrong else set()
                wrong |= {at + 1} if is_second_wrong or not is_first_wrong else set()
        return [entry for at, entry in enumerate(entries) if at not in wrong]


def _ascends(entry: tuple[int, int], following: tuple[int, int]) -> bool:
    return entry[0] < following[0] and entry[1] < following[1]
