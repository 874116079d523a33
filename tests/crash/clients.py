"""Producers as clients see themselves: what they have sent, what was answered, what they will send again.

An idempotent producer repeats what was not answered, in order, for as long as it lives: it must end up in the log once.
When it learns that the log has lost what was acknowledged, it begins a new epoch, as KIP-360 has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    assemble_batch,
    build_batch,
    parse_header,
    patch_offsets,
)
from tests.crash.truth import WINDOW_BATCHES, TrueBatch, TruePartition, TrueRecord

UNANSWERED_MAX = 5
KEYS = 12
LEFT_OUT_EVERY = 4
"""Every so many batches a producer leaves the largest timestamp out of the header, as Sarama does, or writes a wrong
one.
"""
MIRRORED_EVERY = 5
MIRRORED_MS = 6_000
"""Every so many batches are that old already, as those of a mirrored topic."""


@dataclass(slots=True, eq=False)
class Sent:
    """One batch as it leaves a client."""

    content: bytes
    header: BatchHeader
    records: tuple[TrueRecord, ...]
    right: bytes
    """The same with the largest timestamp of the records in its header."""

    def placed(self, base_offset: int, leader_epoch: int) -> TrueBatch:
        """As it has to be in the log."""
        content = bytearray(self.right)
        patch_offsets(content, 0, base_offset, leader_epoch)
        return TrueBatch(bytes(content), parse_header(content), self.records)

    def is_in(self, truth: TruePartition) -> TrueBatch | None:
        """The batch of the log that this is a repetition of."""
        ours = self.header
        for batch in reversed(truth.batches):
            theirs = batch.header
            if (theirs.producer_id, theirs.producer_epoch) == (ours.producer_id, ours.producer_epoch) and (
                theirs.base_sequence == ours.base_sequence and theirs.last_offset_delta == ours.last_offset_delta
            ):
                return batch
        return None


@dataclass(slots=True, eq=False)
class Producer:
    """Writes to one partition. The id is -1 for one that is not idempotent."""

    producer_id: int
    truth: TruePartition
    epoch: int = 0
    next_sequence: int = 0
    unanswered: list[Sent] = field(default_factory=list)
    must_repeat: bool = False
    """A batch may have been lost: nothing new is sent before those that were not answered."""
    batches_made: int = 0

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0

    @property
    def first_batch_is_undecided(self) -> bool:
        """Gateways send nothing behind the first batch of an epoch before that is decided: a log that knows nothing of
        the producer takes any sequence, so a first batch that finds no room must not be overtaken.
        """
        return bool(self.unanswered) and self.unanswered[0].header.base_sequence == 0

    def next_batch(
        self, records_count: int, value_bytes: int, timestamp_ms: int, key: int, *, are_tombstones: bool
    ) -> Sent:
        """A batch that was never sent before; its records are a millisecond apart, and tell who made them."""
        self.batches_made += 1
        if self.batches_made % MIRRORED_EVERY == 0:
            timestamp_ms -= MIRRORED_MS
        tag = f"{self.producer_id}/{self.epoch}/{self.batches_made}".encode()
        value = None if are_tombstones else tag + b"." * value_bytes
        records = tuple(
            TrueRecord(b"key %d" % ((key + index) % KEYS), value, timestamp_ms + index)
            for index in range(records_count)
        )
        plain = [Record(record.key, record.value, record.timestamp_ms) for record in records]
        if self.is_idempotent:
            made = build_batch(
                plain, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=self.next_sequence
            )
            self.next_sequence += records_count
        else:
            made = build_batch(plain)
        header = parse_header(made)
        content = made
        if self.batches_made % LEFT_OUT_EVERY == 0:
            largest_ms = (-1, 0, header.base_timestamp - 1)[self.batches_made // LEFT_OUT_EVERY % 3]
            content = assemble_batch(header._replace(max_timestamp=largest_ms), made[HEADER_BYTES:])
        return Sent(content, header, records, made)

    def log_was_cut(self, lost: list[TrueBatch]) -> None:
        """A crash has taken batches. Those that were not answered will be repeated; others can't be."""
        ours = [batch for batch in lost if batch.header.producer_id == self.producer_id]
        if self.is_idempotent and any(batch.is_acknowledged for batch in ours):
            self.start_over()

    def start_over(self) -> None:
        """A new epoch: what was not answered is given up."""
        self.epoch += 1
        self.next_sequence = 0
        self.unanswered.clear()


def is_within_window(batch: TrueBatch, truth: TruePartition) -> bool:
    """Whether its producer may repeat a batch."""
    return batch in truth.produced_by(batch.header.producer_id)[-WINDOW_BATCHES:]


def is_surely_remembered(batch: TrueBatch, truth: TruePartition) -> bool:
    """A snapshot of producers keeps the last batch of each (Kafka's format): after a restart the four before it are
    only known where recovery has read them, and their repetition may be refused as out of order. It never lands in
    the log a second time.
    """
    produced = truth.produced_by(batch.header.producer_id)
    if batch is produced[-1]:
        return batch.base_offset >= truth.files_begin
    return is_within_window(batch, truth) and batch.base_offset >= truth.recovered_end
