"""Hold `leader-epoch-checkpoint` against the batches, by reading only.

A digit with a flipped bit is another digit, and Kafka's file has no checksum. An epoch that seems to begin too early
makes a leader tell its followers to remove committed records. So every start looks at the batches where the newest
epochs begin, for each one entry of an index and a few headers; after a clean stop as well, since a file rots while no
process looks at it.

A batch's base offset and leader epoch have no checksum either. One flipped bit is in the file or in one header, and the
evidence of one header moves no epoch: the entry of the file stays, as in Kafka. It stays where the headers around it
contradict each other, or the name of the next segment; where they would agree with it if one of them had another base
offset or epoch; and so where an epoch has a single batch. Otherwise the file is wrong, and the epochs are taken from
the headers of all batches. No record is removed for what is found here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

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
_OFFSET_MAX = 2**63 - 1
_WITNESSES = 3
"""How many batches on each side of an entry are asked where the next ones contradict it."""


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
    legible: list[tuple[int, int]],
    log_start_offset: int,
    *,
    may_begin_below: int,
) -> LeaderEpochs | None:
    """Return None unless the batches show that the checkpoint is wrong, and their own epochs then. Raises DiskError.

    `segments` are (base offset, bytes), at least one; entries past them are returned unchanged. `legible` are what can
    be read of a damaged checkpoint. `may_begin_below`: where the segment after these begins; a crash may have moved
    the log start back, from anywhere below. 0: neither.
    """
    start = max(log_start_offset, segments[0][0])
    epochs = LeaderEpochs()
    for epoch, start_offset in checkpoint.entries():
        epochs.assign(epoch, start_offset)
    epochs.trim_to(start)
    batches = _Batches(disk, directory, segments, may_begin_below or _OFFSET_MAX)
    if _Comparison(epochs, start, may_begin_below).is_checkpoint_believed(batches):
        return None
    collected = batches.collect_epochs(epochs.entries() or legible, epochs.latest)
    collected.trim_to(start)
    collected.unsaved = True
    return collected if collected.entries() != epochs.entries() else None


class _Batch(NamedTuple):
    """What a header says, and between which offsets the names of the segments allow it to be."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    offset_min: int
    offset_max: int

    def moved_to(self, base_offset: int) -> _Batch:
        return self._replace(base_offset=base_offset, next_offset=base_offset + self.next_offset - self.base_offset)


class _Comparison:
    def __init__(self, epochs: LeaderEpochs, start: int, may_begin_below: int) -> None:
        self._epochs = epochs
        self._entries = epochs.entries()
        self._start_offsets = [start_offset for _, start_offset in self._entries]
        self._start = start
        # A log start that a crash has moved back may have been inside a batch.
        self._known_from = start
        if self._entries and self._start_offsets[0] < may_begin_below:
            self._known_from = max(start, self._start_offsets[0])

    def is_checkpoint_believed(self, batches: _Batches) -> bool:
        """Whether, at the log start and at each of the newest entries, the batches agree or one header is wrong."""
        newest = [offset for offset in self._start_offsets[-EPOCHS_CHECKED_MAX:] if offset > self._start]
        return all(
            self._agree(batches.around(offset, 1)) or self._is_one_wrong(batches.around(offset, _WITNESSES))
            for offset in [self._start, *newest]
        )

    def _agree(self, batches: list[_Batch]) -> bool:
        return _are_in_order(batches) and all(
            self._is_of_its_epoch(batch) for batch in batches if batch.next_offset > self._known_from
        )

    def _is_of_its_epoch(self, batch: _Batch) -> bool:
        begin = max(batch.base_offset, self._known_from)
        return self._epochs.epoch_of(begin) == self._epochs.epoch_of(batch.next_offset - 1) == batch.leader_epoch

    def _is_one_wrong(self, batches: list[_Batch]) -> bool:
        """Whether the batches contradict each other, or would agree if one of them had another base offset or epoch.

        Without any entry there is nothing to agree with.
        """
        if not self._entries or not _are_in_order(batches):
            return len(self._entries) > 0
        return any(
            self._agree([*batches[:at], other, *batches[at + 1 :]])
            for at, batch in enumerate(batches)
            for other in self._others(batch, batches[at - 1].next_offset if at else 0)
        )

    def _others(self, batch: _Batch, end_before: int) -> list[_Batch]:
        """Return what the batch may have been: of another epoch, or at the first place that there is in some epoch."""
        epoch = self._epochs.epoch_of(max(batch.base_offset, self._known_from))
        first = max(batch.offset_min, end_before)
        at = bisect_right(self._start_offsets, first)
        begins = [first, *self._start_offsets[at : at + EPOCHS_CHECKED_MAX]]
        return [batch._replace(leader_epoch=epoch), *(batch.moved_to(offset) for offset in begins)]


def _are_in_order(batches: list[_Batch]) -> bool:
    end, epoch = 0, NO_EPOCH
    for batch in batches:
        if batch.base_offset < max(end, batch.offset_min) or batch.next_offset > batch.offset_max:
            return False
        if batch.leader_epoch < epoch:
            return False
        end, epoch = batch.next_offset, batch.leader_epoch
    return True


class _Batches:
    """The batches of segments, found by their indexes. Asked for ascending offsets, it reads a segment without an index
    about once.
    """

    def __init__(self, disk: Disk, directory: str, segments: list[tuple[int, int]], offset_max: int) -> None:
        """`offset_max`: where the segment after them begins."""
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._base_offsets = [base_offset for base_offset, _ in segments]
        self._offset_max = offset_max
        # (segment, position) of the batch before the last offset that was asked for.
        self._passed = (-1, 0)

    def around(self, offset: int, count: int) -> list[_Batch]:
        """Return up to `count` batches that begin before `offset`, and as many that begin there or later, in order."""
        before: deque[_Batch] = deque(maxlen=count)
        after: list[_Batch] = []
        index = bisect_right(self._base_offsets, offset - 1) - 1
        if index >= 0:
            for position, header in self._scan(index, self._position_before(index, offset, count)):
                if after or header.base_offset >= offset:
                    after.append(self._batch(index, header))
                    if len(after) == count:
                        break
                else:
                    before.append(self._batch(index, header))
                    self._passed = (index, position)
        for later in range(index + 1, len(self._segments)):
            for _, header in self._scan(later, 0):
                if len(after) == count:
                    break
                after.append(self._batch(later, header))
            if len(after) == count:
                break
        while len(before) < count and index > 0:
            index -= 1
            missing = count - len(before)
            position = self._position_before(index, self._base_offsets[index + 1], missing)
            last = deque((self._batch(index, header) for _, header in self._scan(index, position)), maxlen=missing)
            before.extendleft(reversed(last))
        return [*before, *after]

    def _batch(self, index: int, header: BatchHeader) -> _Batch:
        end = self._base_offsets[index + 1] if index + 1 < len(self._base_offsets) else self._offset_max
        return _Batch(
            header.base_offset, header.next_offset, header.partition_leader_epoch, self._base_offsets[index], end
        )

    def collect_epochs(self, hints: list[tuple[int, int]], latest: int) -> LeaderEpochs:
        """Take the epochs from the headers of all batches. Of two that contradict each other one is passed over, as
        `batch_order` decides, and so is the last one if it alone has an epoch later than `latest`, the
        checkpoint's; NO_EPOCH: unknown.
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
        if last is not None and not (latest != NO_EPOCH and epoch <= latest < last.partition_leader_epoch):
            collected.add(last)
        for later_epoch, start_offset in hints:
            if last is None or start_offset >= last.next_offset:
                collected.epochs.assign(later_epoch, start_offset)
        return collected.epochs

    def _scan(self, index: int, position: int) -> Iterator[tuple[int, BatchHeader]]:
        base_offset, byte_count = self._segments[index]
        file = self._disk.open(f"{self._directory}/{file_name(base_offset, LOG_SUFFIX)}")
        return scan_batches(self._disk, file, position, byte_count, chunk_bytes=_PROBE_BYTES)

    def _position_before(self, index: int, offset: int, count: int) -> int:
        """Return where a batch of the segment begins that has `count` batches from there to `offset`, near it if its
        index tells; otherwise where it is known that one begins.
        """
        passed = self._passed[1] if self._passed[0] == index and count == 1 else 0
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
        # Either the index or one header may be wrong.
        for entries_back in (count - 1, count):
            position = offsets.position_before(offset - 1, entries_back)
            first = next(self._scan(index, position), None)
            if first is not None and first[1].next_offset <= offset:
                return max(position, passed)
        return passed
