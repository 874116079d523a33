"""An idempotent producer like Java's: what its I/O thread does with answers, losses and time.

Written from Kafka 4.3's `Sender` (runOnce, sendProducerData, handleProduceResponse, completeBatch, canRetry, failBatch,
getExpiredInflightBatches) in org.apache.kafka.clients.producer.internals, and from what `NetworkClient` does around it:
up to five requests in flight per broker, each with at most one batch of every partition that the broker leads; a lost
connection is NETWORK_EXCEPTION and a timed-out one REQUEST_TIMED_OUT for every request that was in flight on it; a
leader that an answer names (KIP-951) is known at once, and Metadata asked for all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.wire.errors import ErrorCode
from tests.sim.clients.producers.calls import (
    IN_FLIGHT_MAX,
    NO_OFFSET,
    NO_PRODUCER,
    Answer,
    Leader,
    ProduceCall,
    ProducerConfig,
    ProducerIdAndEpoch,
    Report,
    SentBatch,
    Step,
    TopicPartition,
)
from tests.sim.clients.producers.java_accumulator import Batch, RecordAccumulator
from tests.sim.clients.producers.java_transactions import TransactionManager

# Errors whose exception is an InvalidMetadataException.
_INVALID_METADATA = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_TIMEOUT = "TimeoutException"


class JavaProducer:
    def __init__(self, config: ProducerConfig, chance: Callable[[], float]) -> None:
        self.reports: list[Report] = []
        self._config = config
        self._transactions = TransactionManager()
        self._accumulator = RecordAccumulator(config, self._transactions, chance)
        self._leaders: dict[TopicPartition, Leader] = {}
        # The calls under way at every broker that is connected, each with its batches.
        self._calls: dict[int, dict[ProduceCall, list[Batch]]] = {}
        self._in_flight: dict[Batch, None] = {}
        self._needs_metadata = True
        self._appended = 0
        self._reported = 0

    @property
    def is_fatal(self) -> bool:
        return self._transactions.is_fatal

    @property
    def unreported(self) -> int:
        return self._appended - self._reported

    def append(self, partition: TopicPartition, value: bytes, now_ms: int) -> None:
        self._appended += 1
        self._accumulator.append(partition, value, now_ms)

    def learn(self, leaders: Mapping[TopicPartition, Leader | None], now_ms: int) -> None:
        """`Metadata.updateLatestMetadata`: an older leader epoch than the known one is not believed."""
        for partition, leader in leaders.items():
            known = self._leaders.get(partition)
            if leader is None:
                self._leaders.pop(partition, None)
            elif known is None or leader.epoch >= known.epoch:
                self._leaders[partition] = leader

    def producer_id_assigned(self, producer: ProducerIdAndEpoch) -> None:
        self._transactions.producer = producer

    def connected(self, node_id: int, now_ms: int) -> None:
        self._calls.setdefault(node_id, {})

    def disconnected(self, node_id: int, now_ms: int, *, is_timeout: bool) -> None:
        self._needs_metadata = True
        error = ErrorCode.REQUEST_TIMED_OUT if is_timeout else ErrorCode.NETWORK_EXCEPTION
        for batches in self._calls.pop(node_id, {}).values():
            for batch in batches:
                self._complete(batch, Answer(error), now_ms)

    def answered(self, call: ProduceCall, answers: Mapping[TopicPartition, Answer], now_ms: int) -> None:
        hints: dict[TopicPartition, Leader | None] = {}
        for batch in self._calls[call.node_id].pop(call):
            answer = answers[batch.partition]
            self._complete(batch, answer, now_ms)
            if answer.current_leader is not None and answer.error_code in (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.FENCED_LEADER_EPOCH,
            ):
                hints[batch.partition] = answer.current_leader
        for partition, leader in list(hints.items()):
            # `Metadata.updatePartitionLeadership`: only what is newer.
            known = self._leaders.get(partition)
            if leader is None or (known is not None and leader.epoch <= known.epoch):
                del hints[partition]
        self.learn(hints, now_ms)

    def _complete(self, batch: Batch, answer: Answer, now_ms: int) -> None:
        """`completeBatch`."""
        error_code = answer.error_code
        if error_code == ErrorCode.NONE:
            self._succeed(batch, answer.base_offset)
            return
        is_late = now_ms - batch.created_ms >= self._config.delivery_timeout_ms
        if not is_late and not batch.is_done and self._transactions.can_retry(batch, answer):
            self._accumulator.reenqueue(batch, now_ms)
            self._in_flight.pop(batch, None)
        elif error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._succeed(batch, NO_OFFSET)
        else:
            self._fail(batch, _exception(error_code), error_code, adjust_sequences=True)
        self._needs_metadata = self._needs_metadata or error_code in _INVALID_METADATA

    def _succeed(self, batch: Batch, base_offset: int) -> None:
        self._transactions.completed(batch, base_offset)
        self._in_flight.pop(batch, None)
        self._report(batch, "", base_offset)

    def _fail(self, batch: Batch, error: str, error_code: int, *, adjust_sequences: bool) -> None:
        self._in_flight.pop(batch, None)
        if not batch.is_done:
            self._transactions.failed(batch, error_code, adjust_sequences=adjust_sequences)
            self._report(batch, error, NO_OFFSET)

    def _report(self, batch: Batch, error: str, base_offset: int) -> None:
        if batch.is_done:
            return  # It has expired; the answer comes too late for the application.
        batch.is_done = True
        for index, value in enumerate(batch.values):
            offset = base_offset + index if base_offset != NO_OFFSET else NO_OFFSET
            self.reports.append(Report(batch.partition, value, error, offset))
        self._reported += len(batch.values)

    # --- a turn of the I/O thread ------------------------------------------------------------------------------------

    def step(self, now_ms: int) -> Step:
        step = Step()
        while True:
            transactions = self._transactions
            transactions.resolve_sequences()
            if transactions.is_fatal:
                for batch in self._accumulator.clear():
                    self._fail(batch, "KafkaException", ErrorCode.UNKNOWN_SERVER_ERROR, adjust_sequences=False)
                break
            transactions.bump_if_needed()
            if transactions.producer == NO_PRODUCER:
                step.needs_producer_id = True
                break
            if not self._send(step, now_ms):
                break
        step.needs_metadata, self._needs_metadata = self._needs_metadata, False
        return step

    def _send(self, step: Step, now_ms: int) -> bool:
        """`sendProducerData`: one request to every broker that is ready. Whether there was any."""
        ready = self._accumulator.ready(self._leaders, now_ms)
        self._needs_metadata = self._needs_metadata or ready.has_unknown_leaders
        calls = []
        for node_id in ready.node_ids:
            calls_there = self._calls.get(node_id)
            if calls_there is None:
                if node_id not in step.connect:
                    step.connect.append(node_id)
            elif len(calls_there) < IN_FLIGHT_MAX:
                batches = self._accumulator.drain(self._leaders, node_id, now_ms)
                if batches:
                    call = ProduceCall(node_id, [_sent(batch) for batch in batches])
                    calls_there[call] = batches
                    self._in_flight.update(dict.fromkeys(batches))
                    calls.append(call)
        self._expire(now_ms)
        step.calls += calls
        wakes = [ready.next_ms, self._accumulator.next_expiry_ms()]
        wakes += [batch.created_ms + self._config.delivery_timeout_ms for batch in self._in_flight]
        step.wake_ms = min((each for each in wakes if each is not None), default=None)
        return bool(calls)

    def _expire(self, now_ms: int) -> None:
        expired = self._accumulator.take_expired(now_ms)
        timeout_ms = self._config.delivery_timeout_ms
        expired += [batch for batch in self._in_flight if now_ms - batch.created_ms >= timeout_ms]
        for batch in expired:
            self._fail(batch, _TIMEOUT, ErrorCode.REQUEST_TIMED_OUT, adjust_sequences=False)
            if batch.attempts > 0:
                self._transactions.mark_unresolved(batch)


def _exception(error_code: int) -> str:
    """Its class, as Kafka names it."""
    return "".join(word.capitalize() for word in ErrorCode(error_code).name.split("_")) + "Exception"


def _sent(batch: Batch) -> SentBatch:
    return SentBatch(batch.partition, batch.producer, batch.base_sequence, tuple(batch.values))
