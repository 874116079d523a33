"""What is on the disks, batch by batch: every replica's log, and the book of what is committed.

A batch is one object for all replicas, by its first offset and its leader epoch, so that logs are compared by identity.
The book of a partition holds what a leader's high watermark has passed; a replica's `agreed_end` is how far its log and
the book are the same. Everything is kept up as batches are written and cut, and read from the disk only when a process
opens its logs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.ports.disk import Buffer
from barnabas.wire.record_batch import HEADER_BYTES, BatchHeader, Compression, decode_payload, iterate_headers
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.compaction import CommittedKeys
from tests.sim.disk_model import DiskModel

if TYPE_CHECKING:
    from tests.sim.transactions.spans import Spans


@dataclass(slots=True, eq=False)
class Batch:
    """One batch, as it was first written, or as a cleaner has left it."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    header: BatchHeader
    payload: bytes
    is_doubtful: bool = False
    """Its write has failed: there may be another one in its place, if no other replica has it."""
    original: Batch | None = None
    """The batch as it was written, of which a cleaner has left this."""
    is_removed: bool = False
    """A cleaner has removed it from some replica's log, as it may: logs copied from there lack it too."""

    @property
    def whole(self) -> Batch:
        """As it was first written."""
        return self.original or self

    def values(self) -> dict[int, bytes]:
        """By offset; of a compressed batch nothing is known: no client whose records are compared sends one."""
        records = decode_payload(self.header, self.payload) if self.header.compression == Compression.NONE else []
        return {record.offset: record.value for record in records if record.value is not None}

    def timestamps(self) -> dict[int, int]:
        """By offset, as in `values`."""
        records = decode_payload(self.header, self.payload) if self.header.compression == Compression.NONE else []
        return {record.offset: record.timestamp_ms for record in records}


class BatchConflict(Exception):  # noqa: N818 - it names what was found
    """Two batches of the same offset and leader epoch, or one that was never written."""


class BatchRegister:
    """All batches that were ever written to any replica of one partition."""

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int], Batch] = {}
        self._cleaned: dict[tuple[int, int, int], Batch] = {}
        """What cleaners have left of them: by first offset, leader epoch and CRC."""

    def cleaned(self, batch: Batch, header: BatchHeader, payload: bytes) -> Batch:
        """Return what a cleaner has made of `batch`, which is accepted like the whole one from now on."""
        key = (header.base_offset, header.partition_leader_epoch, header.crc)
        if key not in self._cleaned:
            self._cleaned[key] = Batch(
                key[0], header.next_offset, key[1], header.crc, header, payload, original=batch.whole
            )
        return self._cleaned[key]

    def take(self, data: Buffer) -> list[Batch]:
        """Of the bytes of a write. Raises BatchConflict (I3)."""
        return [self._one(data, position, header, is_new=True) for position, header in iterate_headers(data)]

    def find(self, data: Buffer) -> list[Batch]:
        """Of the bytes of a file, all written before. Raises BatchConflict (I3)."""
        return [self._one(data, position, header, is_new=False) for position, header in iterate_headers(data)]

    def _one(self, data: Buffer, position: int, header: BatchHeader, *, is_new: bool) -> Batch:
        key = (header.base_offset, header.partition_leader_epoch)
        known = self._batches.get(key)
        if known is not None and known.is_doubtful and is_new and known.crc != header.crc:
            known = None
        if known is None:
            if not is_new:
                raise BatchConflict(f"no leader has written offset {key[0]} of epoch {key[1]}, and there it is")
            payload = bytes(data[position + HEADER_BYTES : position + header.size_bytes])
            known = Batch(key[0], header.next_offset, key[1], header.crc, header, payload)
            self._batches[key] = known
        elif (*key, header.crc) in self._cleaned:
            return self._cleaned[*key, header.crc]
        elif (known.next_offset, known.crc) != (header.next_offset, header.crc):
            raise BatchConflict(f"offset {key[0]} of epoch {key[1]} is not the same batch everywhere")
        return known


@dataclass(slots=True)
class ReplicaLog:
    """One log on one disk, dead or alive. `flushed`: offsets below it survive a loss of power.

    When the machine has lost power only what is below `kept_end` is surely there: `is_unknown` until a process opens
    the log, then `is_lossy` until it has everything that is committed. `starts_over`: its process has begun to remove
    all of it, because its leader begins later; should the process die in the midst of that, nothing need be there.
    """

    log: PartitionLog
    batches: list[Batch] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    start: int = 0
    end: int = 0
    agreed_end: int = 0
    flushed: int = 0
    is_unknown: bool = False
    is_lossy: bool = False
    kept_end: int = 0
    starts_over: bool = False
    spans: Spans | None = None
    """The transactions in `batches`, where an observer follows them."""
    forgiven_upto: int = 0
    """A process that opens a log does not know when a transaction ended below this, as Kafka's does not."""

    @classmethod
    def read(cls, disk: DiskModel, log: PartitionLog, register: BatchRegister) -> ReplicaLog:
        """As it is on its disk."""
        replica = cls(log, start=log.segments.first.base_offset, end=log.segments.first.base_offset)
        replica.agreed_end = replica.start
        for segment in log.segments.all():
            replica.add(register.find(disk.peek(segment.log_path)[: segment.byte_count]))
        replica.end = replica.forgiven_upto = max(replica.end, log.log_end_offset)
        return replica

    def add(self, batches: Iterable[Batch]) -> None:
        self.starts_over = False
        for batch in batches:
            self.batches.append(batch)
            self.bases.append(batch.base_offset)
            self.end = batch.next_offset

    def cut(self, end: int, *, truncate_fully: bool) -> None:
        """Nothing is there from `end` on; or nothing at all, and it goes on there."""
        kept = 0 if truncate_fully else bisect_left(self.bases, end)
        del self.batches[kept:]
        del self.bases[kept:]
        if truncate_fully:
            self.start = self.agreed_end = end
        self.end = end
        self.starts_over = False
        self.spans = None
        self.forgiven_upto = min(self.forgiven_upto, end)
        self.agreed_end = min(self.agreed_end, end)
        self.flushed = min(self.flushed, end)

    def follow_start(self) -> None:
        """What is below the start need not be like the book any more. An empty log begins where its leader's does, as
        soon as it hears of that: nothing of its files is cut.
        """
        start = self.log.log_start_offset
        if start > self.end:
            self.cut(start, truncate_fully=True)
        self.agreed_end = max(self.agreed_end, start)

    def replace(self, first_offset: int, end_offset: int, batches: list[Batch]) -> None:
        """A cleaner has left `batches` of those that begin in [first_offset, end_offset)."""
        replaced = slice(bisect_left(self.bases, first_offset), bisect_left(self.bases, end_offset))
        self.batches[replaced] = batches
        self.bases[replaced] = [each.base_offset for each in batches]
        self.spans = None

    def batches_from(self, offset: int, upto: int) -> list[Batch]:
        """Those that begin in [offset, upto)."""
        return self.batches[bisect_left(self.bases, offset) : bisect_left(self.bases, upto)]


class Book:
    """What is committed of one partition, in the order of its offsets."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._bases: list[int] = []
        self.end = 0
        # By leader epoch: the book's end when its leader's watermark moved last.
        self._end_by_epoch: dict[int, int] = {}
        self._decoded: tuple[Batch, dict[int, bytes]] | None = None
        self._keys = CommittedKeys()

    def keys(self) -> CommittedKeys:
        """The keys of what is in it; kept up only where they are asked for, since every record is read for it."""
        self._keys.add(self._batches[self._keys.scanned :])
        return self._keys

    def end_before(self, leader_epoch: int) -> int:
        """What leaders of earlier epochs have committed."""
        return max((end for epoch, end in self._end_by_epoch.items() if epoch < leader_epoch), default=0)

    def add(self, batches: Iterable[Batch], end: int, leader_epoch: int) -> None:
        for batch in batches:
            self._batches.append(batch)
            self._bases.append(batch.base_offset)
        self.end = end
        self._end_by_epoch[leader_epoch] = end

    def may_be_gone(self, begin: int, end: int) -> bool:
        """Whether a cleaner may have removed each record of [begin, end): a later one of its key is committed."""
        keys = self.keys()
        for offset in range(begin, end):
            batch = self._batch_at(offset)
            records = decode_payload(batch.whole.header, batch.whole.payload) if batch is not None else []
            if not any(record.offset == offset and keys.may_go(record, self.end) for record in records):
                return False
        return True

    def _batch_at(self, offset: int) -> Batch | None:
        index = bisect_left(self._bases, offset + 1) - 1
        return None if index < 0 or offset >= self.end else self._batches[index]

    def newest_of(self, producer_id: int) -> BatchHeader | None:
        """Return its last transactional batch, or the last marker of it."""
        headers = (batch.header for batch in reversed(self._batches))
        return next((each for each in headers if each.is_transactional and each.producer_id == producer_id), None)

    def value_at(self, offset: int) -> bytes | None:
        batch = self._batch_at(offset)
        if batch is None:
            return None
        if self._decoded is None or self._decoded[0] is not batch:
            self._decoded = (batch, batch.values())
        return self._decoded[1].get(offset)

    def timestamp_at(self, offset: int) -> int | None:
        """Return the timestamp of one record, as it was written; None: it is not committed."""
        batch = self._batch_at(offset)
        return None if batch is None else batch.whole.timestamps().get(offset)

    def offsets_from_time(self, timestamp_ms: int, end: int) -> Iterator[int]:
        """Yield the offsets below `end` of the records at or after a time."""
        for batch in self._batches[: bisect_left(self._bases, end)]:
            if batch.whole.header.max_timestamp >= timestamp_ms:
                for offset, record_ms in batch.whole.timestamps().items():
                    if record_ms >= timestamp_ms and offset < end:
                        yield offset

    def agree(self, replica: ReplicaLog) -> int:
        """How far `replica` is like the book, but for what was cleaned; remembered, so that it costs what is new."""
        if replica.agreed_end >= min(self.end, replica.end):
            return replica.agreed_end
        mine = bisect_left(self._bases, replica.agreed_end)
        others = bisect_left(replica.bases, replica.agreed_end)
        while mine < len(self._batches):
            batch = self._batches[mine]
            if others < len(replica.batches) and replica.batches[others].whole is batch.whole:
                others += 1
            elif not batch.whole.is_removed or batch.next_offset > replica.end:
                break
            elif others < len(replica.batches) and replica.bases[others] < batch.next_offset:
                # What is removed may be absent; another batch in its place is another history.
                break
            replica.agreed_end = batch.next_offset
            mine += 1
        if mine < len(self._batches) and others < len(replica.batches):
            return replica.agreed_end
        if mine == len(self._batches) and others <= len(replica.batches):
            # An offset that no batch has, as after a log that starts over, is agreed on by being nowhere.
            replica.agreed_end = max(replica.agreed_end, min(self.end, replica.end))
        return replica.agreed_end

    def cut(self, end: int) -> list[Batch]:
        """What is committed no more: the batches from `end` on."""
        kept = bisect_left(self._bases, end)
        lost = self._batches[kept:]
        del self._batches[kept:]
        del self._bases[kept:]
        self._keys = CommittedKeys()
        self.end = min(self.end, end)
        for epoch, upto in self._end_by_epoch.items():
            self._end_by_epoch[epoch] = min(upto, end)
        return lost
