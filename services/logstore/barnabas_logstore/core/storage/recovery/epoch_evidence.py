"""Hold `leader-epoch-checkpoint` against the batches, by reading only.

A digit with a flipped bit is another digit, and Kafka's file has no checksum. An epoch that seems to begin too early
makes a leader tell its followers to remove committed records. So every start looks at the batches where the newest
epochs begin, for each one entry of an index and a few headers; after a clean stop as well, since a file rots while no
process looks at it. Where the two disagree, the epochs are taken from the headers of all batches. No record is removed
for that: what is wrong is the file, or one header.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.storage.log.state.leader_epochs import NO_EPOCH, LeaderEpochs
from barnabas_logstore.core.storage.segment.offset_index import OffsetIndex
from barnabas_logstore.core.storage.segment.scan import scan_batches
from barnabas_logstore.core.storage.segment.segment import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, file_name

EPOCHS_CHECKED_MAX = 64
"""The newest ones: a follower asks for the end of its own last epoch, and one that is 64 elections behind has most
likely no records that its leader lacks. A log may have thousands, and a start thousands of logs."""
_PROBE_BYTES = 4096


class EpochsOfBatches:
    """Leader epochs, collected from the batches of a log in order.

    An epoch whose first batches have been compacted away begins where `hints`, the checkpoint, has it, if that is
    between two batches.
    """

    def __init__(self, epochs: LeaderEpochs, hints: list[tuple[int, int]], next_offset: int) -> None:
        """`epochs` are those of the batches below `next_offset`, `hints` (epoch, start_offset), ascending."""
        self.epochs = epochs
        self._hints = hints
        self._next_hint = 0
        self._next_offset = next_offset

    def add(self, header: BatchHeader) -> None:
        hints = self._hints
        while self._next_hint < len(hints) and hints[self._next_hint][1] <= header.base_offset:
            epoch, start_offset = hints[self._next_hint]
            self._next_hint += 1
            if start_offset >= self._next_offset and epoch <= header.partition_leader_epoch:
                self.epochs.assign(epoch, start_offset)
        self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        self._next_offset = header.next_offset


def supported_epochs(
    disk: Disk,
    directory: str,
    segments: list[tuple[int, int]],
    checkpoint: LeaderEpochs,
    log_start_offset: int,
    *,
    may_begin_below: int,
) -> LeaderEpochs | None:
    """Return None unless the batches show that the checkpoint is wrong, and their own epochs then. Raises DiskError.

    `segments` are (base offset, bytes), at least one; entries past them are returned unchanged. `may_begin_below`: a
    crash may have moved the log start back, from anywhere below this offset; 0: it can't.
    """
    start = max(log_start_offset, segments[0][0])
    epochs = LeaderEpochs()
    for epoch, start_offset in checkpoint.entries():
        epochs.assign(epoch, start_offset)
    epochs.trim_to(start)
    batches = _Batches(disk, directory, segments)
    if _Comparison(batches, epochs, start, may_begin_below).is_free_of_contradiction():
        return None
    collected = batches.collect_epochs(epochs.entries())
    collected.trim_to(start)
    collected.unsaved = True
    # A single header may be wrong, too.
    return collected if collected.entries() != epochs.entries() else None


class _Comparison:
    def __init__(self, batches: _Batches, epochs: LeaderEpochs, start: int, may_begin_below: int) -> None:
        self._batches = batches
        self._epochs = epochs
        self._entries = epochs.entries()
        self._start = start
        self._may_begin_below = may_begin_below

    def is_free_of_contradiction(self) -> bool:
        newest = self._entries[-EPOCHS_CHECKED_MAX:]
        return self._is_start_right() and all(
            self._is_begin_right(epoch, start_offset) for epoch, start_offset in newest if start_offset > self._start
        )

    def _is_start_right(self) -> bool:
        first = self._batches.containing_or_after(self._start)
        if first is None:
            return True
        known = self._epochs.epoch_of(max(first.base_offset, self._start))
        return known == first.partition_leader_epoch or (
            known == NO_EPOCH and len(self._entries) > 0 and self._entries[0][1] < self._may_begin_below
        )

    def _is_begin_right(self, epoch: int, start_offset: int) -> bool:
        if start_offset == self._entries[0][1] < self._may_begin_below:
            # The log start that the crash has moved back may have been inside a batch.
            first = self._batches.containing_or_after(start_offset)
            return first is None or self._is_known(first, start_offset)
        before, after = self._batches.around(start_offset)
        if before is not None and before.next_offset > start_offset:
            return False
        if after is None:
            # Past the last batch an epoch without records may begin, but not the one of that batch.
            return before is None or before.partition_leader_epoch != epoch
        is_first = before is None or before.partition_leader_epoch < epoch
        return is_first and self._is_known(after, start_offset)

    def _is_known(self, header: BatchHeader, start_offset: int) -> bool:
        return self._epochs.epoch_of(max(header.base_offset, start_offset)) == header.partition_leader_epoch


class _Batches:
    """The batches of segments, found by their indexes. Asked for ascending offsets, it reads a segment without an index
    about once.
    """

    def __init__(self, disk: Disk, directory: str, segments: list[tuple[int, int]]) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._base_offsets = [base_offset for base_offset, _ in segments]
        # (segment, position) of the batch before the last offset that was asked for.
        self._passed = (-1, 0)

    def around(self, offset: int) -> tuple[BatchHeader | None, BatchHeader | None]:
        """Return the last batch that begins before `offset`, and the first that begins there or later."""
        containing = bisect_right(self._base_offsets, offset - 1) - 1
        before: BatchHeader | None = None
        at = containing
        while at >= 0 and before is None:
            for position, header in self._scan(at, self._position_before(at, offset)):
                if header.base_offset >= offset:
                    return before or self._last_before(at), header
                before = header
                self._passed = (at, position)
            at -= 1
        for index in range(containing + 1, len(self._segments)):
            for _, header in self._scan(index, 0):
                return before, header
        return before, None

    def _last_before(self, index: int) -> BatchHeader | None:
        """Return the last batch of the segments before this one."""
        return self.around(self._base_offsets[index])[0] if index > 0 else None

    def containing_or_after(self, offset: int) -> BatchHeader | None:
        before, after = self.around(offset)
        return before if before is not None and before.next_offset > offset else after

    def collect_epochs(self, hints: list[tuple[int, int]]) -> LeaderEpochs:
        """Take the epochs from the headers of all batches. Of two that contradict each other one is passed over, as
        `batch_order` decides.
        """
        collected = EpochsOfBatches(LeaderEpochs(), hints, self._base_offsets[0])
        last: BatchHeader | None = None
        epoch = NO_EPOCH
        for index in range(len(self._segments)):
            for _, header in self._scan(index, 0):
                if header.partition_leader_epoch < epoch:
                    continue
                if last is not None and last.partition_leader_epoch <= header.partition_leader_epoch:
                    collected.add(last)
                    epoch = last.partition_leader_epoch
                last = header
        if last is not None:
            collected.add(last)
        for later_epoch, start_offset in hints:
            if last is None or start_offset >= last.next_offset:
                collected.epochs.assign(later_epoch, start_offset)
        return collected.epochs

    def _scan(self, index: int, position: int) -> Iterator[tuple[int, BatchHeader]]:
        base_offset, byte_count = self._segments[index]
        file = self._disk.open(f"{self._directory}/{file_name(base_offset, LOG_SUFFIX)}")
        return scan_batches(self._disk, file, position, byte_count, chunk_bytes=_PROBE_BYTES)

    def _position_before(self, index: int, offset: int) -> int:
        """Return where a batch of the segment begins that is before `offset`, near it if its index tells; 0 if that
        can't be the segment's.
        """
        passed = self._passed[1] if self._passed[0] == index else 0
        base_offset, byte_count = self._segments[index]
        path = f"{self._directory}/{file_name(base_offset, OFFSET_INDEX_SUFFIX)}"
        try:
            offsets = OffsetIndex(path, base_offset, self._disk.map(self._disk.open(path)))
        except DiskError as error:
            if error.kind is not DiskErrorKind.NOT_FOUND:
                raise
            return passed
        if not offsets.belongs_to(byte_count):
            return passed
        position = offsets.position_before(offset - 1)
        first = next(self._scan(index, position), None)
        is_before = first is not None and first[1].next_offset <= offset
        return max(position, passed) if is_before else passed
