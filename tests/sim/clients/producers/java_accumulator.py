"""Batches that wait, of a producer like Java's.

Written from Kafka 4.3's `RecordAccumulator` (ready, drainBatchesForOneNode, shouldStopDrainBatchesForPartition,
reenqueue, insertInSequenceOrder, expiredBatches) and `ProducerBatch` (maybeUpdateLeaderEpoch,
hasLeaderChangedForTheOngoingRetry, reenqueued), in org.apache.kafka.clients.producer.internals.

Left out: compression, memory limits, the splitting of batches that are too large, transactions, the partitioner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.sim.clients.producers.calls import (
    NO_PRODUCER,
    NO_SEQUENCE,
    Leader,
    ProducerConfig,
    ProducerIdAndEpoch,
    TopicPartition,
)
from tests.sim.clients.producers.java_transactions import TransactionManager

_JITTER = 0.2


@dataclass(slots=True, eq=False)
class Batch:
    """A `ProducerBatch`. `is_reopened`: its sequence was rewritten, and it has not been sent since."""

    partition: TopicPartition
    created_ms: int
    values: list[bytes] = field(default_factory=list)
    producer: ProducerIdAndEpoch = NO_PRODUCER
    base_sequence: int = NO_SEQUENCE
    attempts: int = 0
    last_attempt_ms: int = 0
    backoff_ms: int = 0
    leader_epoch: int = -1
    attempts_when_leader_changed: int = 0
    is_closed: bool = False
    is_reopened: bool = False
    is_done: bool = False

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + len(self.values) - 1

    def reset_producer_state(self, producer: ProducerIdAndEpoch, base_sequence: int) -> None:
        self.producer = producer
        self.base_sequence = base_sequence
        self.is_reopened = True

    def learn_leader_epoch(self, leader_epoch: int) -> None:
        if leader_epoch > self.leader_epoch:
            self.attempts_when_leader_changed = self.attempts
            self.leader_epoch = leader_epoch

    def is_backing_off(self, now_ms: int) -> bool:
        """Whether it waits before it is sent again; a new leader is asked at once."""
        has_leader_changed = self.attempts >= 1 and self.attempts == self.attempts_when_leader_changed
        return self.attempts > 0 and not has_leader_changed and now_ms - self.last_attempt_ms < self.backoff_ms


@dataclass(slots=True)
class Ready:
    """Brokers with something to send, in the order in which they were found."""

    node_ids: dict[int, None] = field(default_factory=dict)
    has_unknown_leaders: bool = False
    next_ms: int | None = None


class RecordAccumulator:
    def __init__(self, config: ProducerConfig, transactions: TransactionManager, chance: Callable[[], float]) -> None:
        """`chance` returns a number from 0 to 1, for the jitter of backoffs."""
        self._config = config
        self._transactions = transactions
        self._chance = chance
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._drain_index: dict[int, int] = {}

    def append(self, partition: TopicPartition, value: bytes, now_ms: int) -> None:
        queue = self._queues.setdefault(partition, deque())
        last = queue[-1] if queue else None
        if last is None or last.is_closed or last.has_sequence or len(last.values) >= self._config.batch_records_max:
            last = Batch(partition, now_ms, last_attempt_ms=now_ms)
            queue.append(last)
        last.values.append(value)

    def waiting(self) -> Iterator[Batch]:
        for queue in self._queues.values():
            yield from queue

    def clear(self) -> list[Batch]:
        batches = list(self.waiting())
        self._queues.clear()
        return batches

    # --- what may be sent --------------------------------------------------------------------------------------------

    def ready(self, leaders: Mapping[TopicPartition, Leader], now_ms: int) -> Ready:
        found = Ready()
        for partition, queue in self._queues.items():
            if not queue:
                continue
            first = queue[0]
            leader = leaders.get(partition)
            if leader is None:
                found.has_unknown_leaders = True
                continue
            first.learn_leader_epoch(leader.epoch)
            is_backing_off = first.is_backing_off(now_ms)
            is_full = len(queue) > 1 or len(first.values) >= self._config.batch_records_max
            wait_ms = first.backoff_ms if is_backing_off else self._config.linger_ms
            due_ms = first.last_attempt_ms + wait_ms
            if not is_backing_off and (is_full or now_ms >= due_ms):
                found.node_ids[leader.node_id] = None
            elif now_ms < due_ms:
                found.next_ms = due_ms if found.next_ms is None else min(found.next_ms, due_ms)
        return found

    def drain(self, leaders: Mapping[TopicPartition, Leader], node_id: int, now_ms: int) -> list[Batch]:
        """At most one batch of each partition that the broker leads.

        A partition that has to wait ends the round, and the next one begins with it, as in `drainBatchesForOneNode`:
        until its first batch in flight is decided, that broker gets nothing of the others either.
        """
        partitions = sorted(partition for partition, leader in leaders.items() if leader.node_id == node_id)
        drained: list[Batch] = []
        if not partitions:
            return drained
        start = self._drain_index.get(node_id, 0) % len(partitions)
        for each in range(len(partitions)):
            index = (start + each) % len(partitions)
            partition = partitions[index]
            self._drain_index[node_id] = index
            queue = self._queues.get(partition)
            if not queue:
                continue
            first = queue[0]
            first.learn_leader_epoch(leaders[partition].epoch)
            if first.is_backing_off(now_ms):
                continue
            if self._has_to_wait(first):
                break
            queue.popleft()
            self._transactions.give_sequence(first)
            first.is_closed = True
            first.is_reopened = False
            drained.append(first)
        return drained

    def _has_to_wait(self, first: Batch) -> bool:
        """`shouldStopDrainBatchesForPartition`: while batches are sent again, one at a time."""
        transactions = self._transactions
        entry = transactions.entry(first.partition)
        if transactions.producer == NO_PRODUCER:
            return True
        if not first.has_sequence and (
            (entry.in_flight and entry.producer != transactions.producer) or first.partition in transactions.unresolved
        ):
            return True
        return bool(entry.in_flight and first.has_sequence and first.base_sequence != entry.in_flight[0].base_sequence)

    # --- what comes back, and what has waited too long ---------------------------------------------------------------

    def reenqueue(self, batch: Batch, now_ms: int) -> None:
        config = self._config
        backoff_ms = config.retry_backoff_ms * 2**batch.attempts * (1 + _JITTER * (2 * self._chance() - 1))
        batch.backoff_ms = min(int(backoff_ms), config.retry_backoff_max_ms)
        batch.attempts += 1
        batch.last_attempt_ms = now_ms
        queue = self._queues.setdefault(batch.partition, deque())
        place = 0
        while place < len(queue) and queue[place].has_sequence and queue[place].base_sequence < batch.base_sequence:
            place += 1
        queue.insert(place, batch)

    def take_expired(self, now_ms: int) -> list[Batch]:
        expired = []
        for queue in self._queues.values():
            while queue and now_ms - queue[0].created_ms >= self._config.delivery_timeout_ms:
                expired.append(queue.popleft())
        return expired

    def next_expiry_ms(self) -> int | None:
        heads = [queue[0].created_ms for queue in self._queues.values() if queue]
        return min(heads) + self._config.delivery_timeout_ms if heads else None
