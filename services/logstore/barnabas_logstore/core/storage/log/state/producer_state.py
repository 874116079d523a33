"""A partition's idempotent producers, and the `.snapshot` files that store them.

Kafka's rules (ProducerStateManager, ProducerAppendInfo, ProducerStateEntry of 4.3):

- A batch equal to one of the last ones is a duplicate and gets its first offset back. UNKNOWN_PRODUCER_ID is no longer
  answered.
- Sequences are gapless inside an epoch and wrap from 2^31-1 to 0. A new epoch starts at 0. An older one is
  INVALID_PRODUCER_EPOCH.
- A producer never heard of may start anywhere: its state may have expired, or its records may have been deleted. So of
  several batches that a *new* producer has in flight, a later one may be taken after earlier ones were refused; those
  are out of order from then on, and the client starts over with another epoch (KIP-360). Kafka insists on 0 only for
  transactions of version 2 (KIP-890).
- A snapshot keeps of each producer its last batch: after a restart only that one is known as a duplicate, and those
  that have been read back since the snapshot. It keeps no transactions that have ended: only a marker that has been
  read back is waited for. (In Kafka after a truncation as well; here the others are recalled.)
- A producer expires by the timestamp of its last batch, which is the client's own where the topic has CreateTime.

It differs in two points. Kafka reads a connection only when the request before is answered, so a batch that comes again
is among the last five, and an older one is OUT_OF_ORDER_SEQUENCE_NUMBER. Here the batches in flight of one connection
may all be in the log while a client continues at the next leader. So the last BATCHES_KEPT_MAX are known, or the last
five of each if more than PRODUCERS_WITH_MANY_BATCHES producers write. One that is even older, and is within the
unbroken run of sequences that this log is known to contain, is a repetition without a known offset (`ForgottenBatch`):
once it is committed its producer is answered DUPLICATE_SEQUENCE_NUMBER, a success without an offset (for which
librdkafka reports offsets from -1 on). With OUT_OF_ORDER_SEQUENCE_NUMBER Java sends it until its delivery timeout, and
librdkafka ends with a fatal error.

In Kafka, only that expiry bounds the number of producers, and a client may invent their ids. Here a partition keeps at
most PRODUCERS_MAX, and drops those that have not written for longest, as if they had expired.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.storage.log.state.transactions import NO_OFFSET, EndedTransaction, Transactions

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1
EPOCH_MAX = 2**15 - 1
EPOCH_BUMP_VERSION = 2
"""The first transaction version with an epoch for each transaction."""
BATCHES_KEPT = 5
BATCHES_KEPT_MAX = 64
PRODUCERS_WITH_MANY_BATCHES = 500
"""With 64 batches each they use 8 MB."""
PRODUCERS_MAX = 20_000
"""Producers of one partition: 8 MB of memory with one batch each, 20 MB with five."""
_SECOND_CHANCES = 16
SEQUENCE_MAX = 2**31 - 1
_RUN_LENGTH_MAX = 2**30
"""Half of all sequences: in a longer run, earlier sequences could not be distinguished from later ones."""

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hI")
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class ProducedBatch(NamedTuple):
    """One batch of a producer in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ForgottenBatch(NamedTuple):
    """A batch that the log contains, older than those whose offsets are known."""

    end_offset_max: int
    """It ends at or before this offset."""


@dataclass(slots=True)
class ProducerEntry:
    """One producer's last batches, oldest first. All belong to `producer_epoch`."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_timestamp_ms: int = -1
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    transaction_first_offset: int = NO_OFFSET
    batches: list[ProducedBatch] = field(default_factory=list)
    offset_when_passed_over: int = NO_OFFSET
    """Its last offset when it was last spared from removal."""
    run_length: int = 0
    """Sequences up to the last one that are known to be in the log without a gap; at most `_RUN_LENGTH_MAX`."""
    marker_offset: int = NO_OFFSET
    """The offset of its last marker, if that was appended since the log was opened."""

    def begin_epoch(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.batches.clear()
        self.run_length = 0

    @property
    def last_offset(self) -> int:
        """The last offset that it, or the marker of its transaction, is known to have."""
        return max(self.batches[-1].last_offset if self.batches else NO_OFFSET, self.marker_offset)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def forgotten(self, last_sequence: int, last_offset_delta: int) -> ForgottenBatch | None:
        """Return the batch that ends with `last_sequence`, if it is in the log before `batches`."""
        if not self.batches:
            return None
        oldest = self.batches[0]
        kept = ((self.last_sequence - oldest.last_sequence) & SEQUENCE_MAX) + oldest.offset_delta + 1
        behind = (self.last_sequence - last_sequence) & SEQUENCE_MAX
        if kept <= behind < self.run_length - last_offset_delta:
            return ForgottenBatch(oldest.first_offset)
        return None


def sequence_after(sequence: int, increment: int) -> int:
    """Return the sequence `increment` after `sequence`; after 2^31-1 comes 0."""
    return (sequence + increment) & SEQUENCE_MAX


class ProducerState:
    """All producers of one partition, as of its last assigned offset."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerEntry] = {}
        self._removable: OrderedDict[int, None] = OrderedDict()
        """Those without an open transaction, in the order in which they are considered for removal."""
        self.transactions = Transactions()
        """Their transactions; changed only by this."""

    def __len__(self) -> int:
        return len(self._producers)

    def entries(self) -> list[ProducerEntry]:
        return list(self._producers.values())

    def entry_of(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def check(
        self, producer_id: int, producer_epoch: int, base_sequence: int, last_offset_delta: int
    ) -> ProducedBatch | ForgottenBatch | ErrorCode:
        """Return NONE if the batch may be appended, the batch that it repeats, or why it is refused."""
        entry = self._producers.get(producer_id)
        if entry is None:
            return ErrorCode.NONE
        if producer_epoch == entry.producer_epoch:
            if base_sequence == sequence_after(entry.last_sequence, 1):
                return ErrorCode.NONE
            last_sequence = sequence_after(base_sequence, last_offset_delta)
            for batch in entry.batches:
                if batch.last_sequence == last_sequence and batch.offset_delta == last_offset_delta:
                    return batch
            return entry.forgotten(last_sequence, last_offset_delta) or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if base_sequence != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def update(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        last_offset_delta: int,
        last_offset: int,
        timestamp_ms: int,
    ) -> None:
        """Record a batch that is in the log. Never refuses: what a leader accepted is valid."""
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._add(producer_id)
        if producer_epoch != entry.producer_epoch:
            entry.begin_epoch(producer_epoch)
        elif base_sequence != sequence_after(entry.last_sequence, 1):
            entry.run_length = 0
        entry.run_length = min(entry.run_length + last_offset_delta + 1, _RUN_LENGTH_MAX)
        kept_max = BATCHES_KEPT_MAX if len(self._producers) <= PRODUCERS_WITH_MANY_BATCHES else BATCHES_KEPT
        if len(entry.batches) >= kept_max:
            del entry.batches[: len(entry.batches) - kept_max + 1]
        last_sequence = sequence_after(base_sequence, last_offset_delta) if base_sequence >= 0 else NO_SEQUENCE
        entry.batches.append(ProducedBatch(last_sequence, last_offset, last_offset_delta, timestamp_ms))
        entry.last_timestamp_ms = timestamp_ms

    def begin_transaction(self, producer_id: int, first_offset: int) -> None:
        """A batch of a transaction was recorded: it begins one, unless the producer has one open."""
        entry = self._producers[producer_id]
        if entry.transaction_first_offset == NO_OFFSET:
            entry.transaction_first_offset = first_offset
            self._removable.pop(producer_id, None)
            self.transactions.begin(first_offset, producer_id)

    def end_transaction(self, header: BatchHeader, marker: Marker) -> EndedTransaction | None:
        """Record a marker that is in the log. None: the producer had no transaction open here.

        A marker of a later epoch begins that epoch (KIP-890). Never refuses.
        """
        producer_id = header.producer_id
        entry = self._producers.get(producer_id) or self._add(producer_id)
        if header.producer_epoch != entry.producer_epoch:
            entry.begin_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = header.max_timestamp
        entry.marker_offset = header.base_offset
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        self._removable[producer_id] = None
        return self.transactions.end(first_offset, producer_id, header.base_offset, is_aborted=not marker.is_commit)

    def _add(self, producer_id: int) -> ProducerEntry:
        if len(self._producers) >= PRODUCERS_MAX:
            self._let_one_go()
        entry = self._producers[producer_id] = ProducerEntry(producer_id)
        self._removable[producer_id] = None
        return entry

    def _let_one_go(self) -> None:
        """Remove the producer that has been known for longest, unless it has written since it was last checked for
        this, or has a transaction open.

        No order has to be maintained for it while batches arrive. While transactions of all of them are open, none can
        go: the coordinator ends each in time.
        """
        removable = self._removable
        for _ in range(min(_SECOND_CHANCES, len(removable))):
            producer_id = next(iter(removable))
            entry = self._producers[producer_id]
            last_offset = entry.batches[-1].last_offset if entry.batches else NO_OFFSET
            if last_offset == entry.offset_when_passed_over:
                break
            entry.offset_when_passed_over = last_offset
            removable.move_to_end(producer_id)
        if removable:
            producer_id, _ = removable.popitem(last=False)
            del self._producers[producer_id]

    def remove_expired(self, wall_ms: int, expiration_ms: int) -> None:
        """Remove producers without an open transaction whose last timestamp is `expiration_ms` ago or more."""
        expired_upto_ms = wall_ms - expiration_ms
        expired = [
            producer_id
            for producer_id, entry in self._producers.items()
            if entry.last_timestamp_ms <= expired_upto_ms and entry.transaction_first_offset == NO_OFFSET
        ]
        for producer_id in expired:
            del self._producers[producer_id]
            del self._removable[producer_id]

    def clear(self) -> None:
        self._producers.clear()
        self._removable.clear()
        self.transactions = Transactions()

    def load(self, entries: Iterable[ProducerEntry], end_offset: int | None = None) -> None:
        """Start from a snapshot, or from what is left of these producers below `end_offset`."""
        self._producers = {entry.producer_id: entry for entry in entries}
        opened = [
            (entry.transaction_first_offset, entry.producer_id)
            for entry in self._producers.values()
            if entry.transaction_first_offset != NO_OFFSET
        ]
        with_transaction = {producer_id for _, producer_id in opened}
        self._removable = OrderedDict((each, None) for each in self._producers if each not in with_transaction)
        self.transactions.restart(opened, end_offset)

    def recall(self, earlier: ProducerState, end_offset: int) -> None:
        """Recall what `earlier` knew of the same log, before that was truncated at `end_offset`: the snapshot from
        which this state was loaded has only the last batch of each producer, and no transactions that have ended.
        """
        self.transactions.recall(earlier.transactions, end_offset)
        for entry in self._producers.values():
            known = earlier._producers.get(entry.producer_id)
            if known is None or known.producer_epoch != entry.producer_epoch or not entry.batches:
                continue
            last = entry.batches[-1]
            if last not in known.batches:
                continue
            truncated = (known.last_sequence - last.last_sequence) & SEQUENCE_MAX
            entry.batches = known.batches[: known.batches.index(last) + 1]
            entry.run_length = max(entry.run_length, known.run_length - truncated)

    def snapshot(self) -> bytes:
        """Return the content of a `.snapshot` file (version 1): the last batch of each producer."""
        body = bytearray(_SNAPSHOT_COUNT.pack(len(self._producers)))
        for entry in self._producers.values():
            last = entry.batches[-1] if entry.batches else None
            body += _SNAPSHOT_ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                last.last_sequence if last else NO_SEQUENCE,
                last.last_offset if last else NO_OFFSET,
                last.offset_delta if last else 0,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        return _SNAPSHOT_HEADER.pack(_SNAPSHOT_VERSION, crc32c(body)) + body


def check_marker(
    entry: ProducerEntry | None, producer_epoch: int, marker: Marker, transaction_version: int
) -> ErrorCode:
    """Return whether a marker for the transaction of `entry` may be appended.

    Before version 2 it has the epoch of the transaction's batches, or a later one. In version 2 its coordinator has
    raised the epoch for it (KIP-890, KIP-1228): one of the same epoch is late, and ends nothing that it was meant for,
    unless no transaction is open, where it only comes again. No client has the last epoch, so that a marker of it is
    never late: earlier releases gave that epoch to clients, and its coordinator can't raise it.
    """
    if entry is None:
        return ErrorCode.NONE
    if producer_epoch < entry.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    is_open = entry.transaction_first_offset != NO_OFFSET
    is_raised = producer_epoch > entry.producer_epoch or producer_epoch == EPOCH_MAX
    if transaction_version >= EPOCH_BUMP_VERSION and is_open and not is_raised:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    is_fenced = marker.coordinator_epoch < entry.coordinator_epoch
    return ErrorCode.TRANSACTION_COORDINATOR_FENCED if is_fenced else ErrorCode.NONE


def note_producer(producers: ProducerState, header: BatchHeader, marker: Marker | None) -> EndedTransaction | None:
    """Record a batch that is in the log, with the marker that it contains. Return the transaction that it ends.

    A batch that compaction has emptied begins no transaction: only what is over is compacted.
    """
    if header.producer_id < 0:
        return None
    if marker is not None:
        return producers.end_transaction(header, marker)
    if not header.is_control and (header.base_sequence >= 0 or header.is_transactional):
        producers.update(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_offset_delta,
            header.last_offset,
            header.max_timestamp,
        )
        if header.is_transactional and header.records_count:
            producers.begin_transaction(header.producer_id, header.base_offset)
    return None


def parse_snapshot(content: bytes) -> list[ProducerEntry] | None:
    """Parse the producers of a `.snapshot` file; None if it is torn, of another version, or not one at all."""
    body_start = _SNAPSHOT_HEADER.size
    entries_start = body_start + _SNAPSHOT_COUNT.size
    if len(content) < entries_start:
        return None
    version, crc = _SNAPSHOT_HEADER.unpack_from(content)
    if version != _SNAPSHOT_VERSION or crc != crc32c(memoryview(content)[body_start:]):
        return None
    count = _SNAPSHOT_COUNT.unpack_from(content, body_start)[0]
    if count < 0 or len(content) - entries_start != count * _SNAPSHOT_ENTRY.size:
        return None
    entries = []
    for fields in _SNAPSHOT_ENTRY.iter_unpack(memoryview(content)[entries_start:]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first = fields
        batch = ProducedBatch(last_sequence, last_offset, offset_delta, timestamp_ms)
        batches = [batch] if last_offset >= 0 else []
        entries.append(ProducerEntry(producer_id, epoch, timestamp_ms, coordinator_epoch, first, batches))
    return entries


def stray_snapshots(snapshot_offsets: Collection[int], segment_base_offsets: Collection[int]) -> list[int]:
    """Return those that no segment begins with, such as clean shutdowns leave at the log's end. The newest is kept if
    it is ahead of all segments: it avoids a scan of the last one.
    """
    strays = sorted(set(snapshot_offsets) - set(segment_base_offsets))
    if strays and strays[-1] > max(segment_base_offsets, default=-1):
        strays.pop()
    return strays
