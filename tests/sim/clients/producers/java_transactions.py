"""Sequences and epochs, of a producer like Java's.

Written from Kafka 4.3's `TransactionManager` (bumpIdempotentProducerEpoch, canRetry, handleCompletedBatch,
handleFailedBatch, markSequenceUnresolved, maybeResolveSequences, maybeUpdateProducerIdAndEpoch) and
`TxnPartitionEntry`, in org.apache.kafka.clients.producer.internals: of an idempotent producer without transactions.

```
in flight --- success ------------------------------------------------------> acknowledged
     |------- retriable, or OUT_OF_ORDER that is not the next to be acknowledged --> waits, in order of sequences
     |------- OUT_OF_ORDER that is the next: epoch + 1, the partition's batches from sequence 0 --> waits
     |------- else, or the delivery timeout: failed, and epoch + 1 unless it waited: then unresolved
unresolved --- nothing in flight: the next sequence was acknowledged, or epoch + 1
```
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.wire.errors import ErrorCode
from tests.sim.clients.producers.calls import NO_OFFSET, NO_PRODUCER, Answer, ProducerIdAndEpoch, TopicPartition

if TYPE_CHECKING:
    from tests.sim.clients.producers.java_accumulator import Batch

# Errors whose exception is a RetriableException.
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
FATAL = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
NO_LAST_ACKED_SEQUENCE = -1


@dataclass(slots=True)
class PartitionEntry:
    """A `TxnPartitionEntry`. `in_flight` has every batch that was given a sequence and is not decided, in order."""

    producer: ProducerIdAndEpoch = NO_PRODUCER
    next_sequence: int = 0
    last_acked_sequence: int = NO_LAST_ACKED_SEQUENCE
    last_acked_offset: int = NO_OFFSET
    in_flight: list[Batch] = field(default_factory=list)

    def start_sequences_at_beginning(self, producer: ProducerIdAndEpoch) -> None:
        sequence = 0
        for batch in self.in_flight:
            batch.reset_producer_state(producer, sequence)
            sequence += len(batch.values)
        self.producer = producer
        self.next_sequence = sequence
        self.last_acked_sequence = NO_LAST_ACKED_SEQUENCE


def _order(batch: Batch) -> tuple[ProducerIdAndEpoch, int]:
    return batch.producer, batch.base_sequence


class TransactionManager:
    def __init__(self) -> None:
        self.producer = NO_PRODUCER
        self.is_fatal = False
        self.unresolved: dict[TopicPartition, int] = {}
        """By partition: the sequence behind the last batch that expired, after it had been sent."""
        self._entries: dict[TopicPartition, PartitionEntry] = {}
        self._to_rewrite: dict[TopicPartition, None] = {}

    def entry(self, partition: TopicPartition) -> PartitionEntry:
        return self._entries.setdefault(partition, PartitionEntry())

    def give_sequence(self, batch: Batch) -> None:
        """When it is drained for the first time; a batch that is sent again keeps what it has."""
        if batch.has_sequence:
            return
        entry = self.entry(batch.partition)
        if entry.producer != self.producer and not entry.in_flight:
            entry.start_sequences_at_beginning(self.producer)
        batch.producer = self.producer
        batch.base_sequence = entry.next_sequence
        entry.next_sequence += len(batch.values)
        insort(entry.in_flight, batch, key=_order)

    # --- epochs ------------------------------------------------------------------------------------------------------

    def request_bump(self, partition: TopicPartition) -> None:
        self._to_rewrite[partition] = None

    def bump_if_needed(self) -> None:
        """KIP-360: the epoch is the whole producer's, what is numbered again is only the partition that asked."""
        if not self._to_rewrite:
            return
        self.producer = ProducerIdAndEpoch(self.producer.producer_id, self.producer.epoch + 1)
        for partition in self._to_rewrite:
            self.entry(partition).start_sequences_at_beginning(self.producer)
            self.unresolved.pop(partition, None)
        self._to_rewrite.clear()

    def mark_unresolved(self, batch: Batch) -> None:
        next_sequence = batch.last_sequence + 1
        self.unresolved[batch.partition] = max(self.unresolved.get(batch.partition, next_sequence), next_sequence)

    def resolve_sequences(self) -> None:
        for partition in list(self.unresolved):
            entry = self.entry(partition)
            if entry.in_flight:
                continue
            if not self._is_next(partition, entry.next_sequence):
                self.request_bump(partition)
            del self.unresolved[partition]

    def _is_next(self, partition: TopicPartition, sequence: int) -> bool:
        return sequence - self.entry(partition).last_acked_sequence == 1

    # --- answers -----------------------------------------------------------------------------------------------------

    def can_retry(self, batch: Batch, answer: Answer) -> bool:
        partition = batch.partition
        match answer.error_code:
            case ErrorCode.UNKNOWN_PRODUCER_ID:
                if answer.log_start_offset != -1 and not batch.is_reopened:
                    self.request_bump(partition)
                return True
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                is_unresolved = partition in self.unresolved
                is_next = self._is_next(partition, batch.base_sequence)
                if not is_unresolved and (batch.is_reopened or not is_next):
                    return True
                if not is_unresolved or self.unresolved[partition] == batch.base_sequence:
                    self.request_bump(partition)
                return True
        return answer.error_code in RETRIABLE

    def completed(self, batch: Batch, base_offset: int) -> None:
        entry = self.entry(batch.partition)
        entry.last_acked_sequence = max(entry.last_acked_sequence, batch.last_sequence)
        if base_offset != NO_OFFSET:
            entry.last_acked_offset = max(entry.last_acked_offset, base_offset + len(batch.values) - 1)
        self.forget(batch)

    def failed(self, batch: Batch, error_code: int, *, adjust_sequences: bool) -> None:
        self.is_fatal = self.is_fatal or error_code in FATAL
        self.forget(batch)
        if self.is_fatal:
            return
        if adjust_sequences or error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self.request_bump(batch.partition)

    def forget(self, batch: Batch) -> None:
        """It is in flight no more: whichever batch has its producer and sequence, as the sorted set of Java has it."""
        in_flight = self.entry(batch.partition).in_flight
        for index, each in enumerate(in_flight):
            if _order(each) == _order(batch):
                del in_flight[index]
                return
