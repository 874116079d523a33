"""An idempotent producer like librdkafka's.

Written from librdkafka 2.16: `rdkafka_broker.c` (rd_kafka_toppar_producer_serve, rd_kafka_broker_produce_toppars,
rd_kafka_broker_fail, PARTITION_LEAVE and PARTITION_JOIN in rd_kafka_broker_op_serve, rd_kafka_dr_implicit_ack),
`rdkafka_request.c` (rd_kafka_msgbatch_handle_Produce_result, rd_kafka_handle_Produce_error,
rd_kafka_handle_idempotent_Produce_error, rd_kafka_handle_idempotent_Produce_success) and `rdkafka_idempotence.c`
(rd_kafka_idemp_drain_epoch_bump, rd_kafka_idemp_drain_done).

- One request has one batch of one partition, and up to five requests are in flight per broker; one more may wait there
  (queue.buffering.backpressure.threshold).
- After any error, and after a change of leader, a partition waits until nothing of it is in flight.
- A gap (OUT_OF_ORDER_SEQUENCE_NUMBER that is not the next to be acknowledged), and messages that expire while they
  wait, let *all* partitions drain; then the epoch goes up, and each partition begins with sequence 0 at its first
  message that waits. What a leader had appended and answered with an error is appended again under the new epoch.
- OUT_OF_ORDER_SEQUENCE_NUMBER for the very next batch is fatal.
- The success of a batch acknowledges what waits before it, without an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

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
    Step,
    TopicPartition,
)
from tests.sim.clients.producers.librdkafka_errors import (
    MSG_TIMED_OUT,
    PURGE_QUEUE,
    RETRY,
    TIMED_OUT,
    TIMED_OUT_QUEUE,
    TRANSPORT,
    Actions,
    actions_for,
    name_of,
)
from tests.sim.clients.producers.librdkafka_partition import InconsistentError, Message, Partition, Request, Status

_TIMEOUT_SCAN_MS = 1_000
_JITTER = 0.2
# `rd_kafka_handle_Produce_error` counts these as tries although it looks for the leader.
_COUNTED = (TRANSPORT, ErrorCode.KAFKA_STORAGE_ERROR)


@dataclass(slots=True, eq=False)
class _Broker:
    """`unsent` waits for the connection, `in_flight` for an answer; `next_partition`: which one is served first."""

    node_id: int
    is_up: bool = False
    unsent: list[Request] = field(default_factory=list)
    in_flight: dict[ProduceCall, Request] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)
    next_partition: int = 0
    scan_ms: int = 0


class LibrdkafkaProducer:
    def __init__(self, config: ProducerConfig, chance: Callable[[], float]) -> None:
        """`chance` returns a number from 0 to 1, for the jitter of backoffs."""
        self.reports: list[Report] = []
        self._config = config
        self._chance = chance
        self._producer = NO_PRODUCER
        self._is_draining = False
        self._partitions: dict[TopicPartition, Partition] = {}
        self._brokers: dict[int, _Broker] = {}
        self._needs_metadata = True
        self._fatal = ""
        self._appended = 0
        self._reported = 0

    @property
    def is_fatal(self) -> bool:
        return bool(self._fatal)

    @property
    def unreported(self) -> int:
        return self._appended - self._reported

    def append(self, partition: TopicPartition, value: bytes, now_ms: int) -> None:
        self._appended += 1
        self._partition(partition).append(value, now_ms)

    def _partition(self, key: TopicPartition) -> Partition:
        return self._partitions.setdefault(key, Partition(key, self._config))

    def _broker(self, node_id: int) -> _Broker:
        return self._brokers.setdefault(node_id, _Broker(node_id))

    def producer_id_assigned(self, producer: ProducerIdAndEpoch) -> None:
        self._producer = producer

    def connected(self, node_id: int, now_ms: int) -> None:
        broker = self._broker(node_id)
        broker.is_up = True
        broker.scan_ms = now_ms

    # --- leaders -----------------------------------------------------------------------------------------------------

    def learn(self, leaders: Mapping[TopicPartition, Leader | None], now_ms: int) -> None:
        """`rd_kafka_toppar_leader_update`: an older epoch is not believed; who has no leader stays where it is."""
        for key, leader in leaders.items():
            partition = self._partition(key)
            if leader is None or leader.epoch < partition.leader_epoch:
                self._needs_metadata = True
                continue
            partition.leader_epoch = leader.epoch
            if leader.node_id != partition.node_id:
                self._migrate(partition, leader.node_id, now_ms)

    def _migrate(self, partition: Partition, node_id: int, now_ms: int) -> None:
        if partition.node_id is not None:
            old = self._broker(partition.node_id)
            self._take_back_unsent(old, partition, now_ms)
            old.partitions.remove(partition)
            old.next_partition = 0
        partition.node_id = node_id
        self._broker(node_id).partitions.append(partition)
        partition.waits_for_drain = True

    def _take_back_unsent(self, broker: _Broker, partition: Partition, now_ms: int) -> None:
        mine = [request for request in broker.unsent if request.partition is partition]
        broker.unsent = [request for request in broker.unsent if request.partition is not partition]
        for request in mine:
            self._finish(request, RETRY, NO_OFFSET, now_ms)

    # --- a turn of the threads ---------------------------------------------------------------------------------------

    def step(self, now_ms: int) -> Step:
        step = Step()
        wakes: list[int] = []
        if self._fatal:
            self._purge()
        for broker in list(self._brokers.values()):
            if broker.is_up:
                self._scan(broker, now_ms)
                self._serve(broker, step, wakes, now_ms)
                wakes += [broker.scan_ms] if broker.partitions else []
            elif any(partition.queue for partition in broker.partitions):
                step.connect.append(broker.node_id)
        step.needs_producer_id = self._producer == NO_PRODUCER and not self._fatal
        step.needs_metadata, self._needs_metadata = self._needs_metadata, False
        step.wake_ms = min(wakes, default=None)
        return step

    def _scan(self, broker: _Broker, now_ms: int) -> None:
        """`rd_kafka_broker_toppar_msgq_scan`: what expires leaves a gap."""
        if now_ms < broker.scan_ms:
            return
        broker.scan_ms = now_ms + _TIMEOUT_SCAN_MS
        for partition in broker.partitions:
            expired = partition.take_expired(now_ms)
            if expired:
                self._report(partition, expired, MSG_TIMED_OUT, None)
                if self._producer != NO_PRODUCER:
                    self._bump_when_drained()

    def _serve(self, broker: _Broker, step: Step, wakes: list[int], now_ms: int) -> None:
        has_progress = True
        while has_progress:
            has_progress = False
            count = len(broker.partitions)
            start = broker.next_partition
            for index in range(count):
                partition = broker.partitions[(start + index) % count]
                has_progress = self._serve_partition(broker, partition, wakes, now_ms) or has_progress
            broker.next_partition = (start + 1) % count if count else 0
            while broker.unsent and len(broker.in_flight) < IN_FLIGHT_MAX:
                request = broker.unsent.pop(0)
                request.was_sent = True
                call = ProduceCall(broker.node_id, [request.batch()])
                broker.in_flight[call] = request
                step.calls.append(call)
                has_progress = True

    def _serve_partition(self, broker: _Broker, partition: Partition, wakes: list[int], now_ms: int) -> bool:
        """`rd_kafka_toppar_producer_serve`: build the next request, where one may be. Whether one was."""
        if self._is_draining or self._producer == NO_PRODUCER or self._fatal:
            return False
        if partition.producer != self._producer:
            self._take_back_unsent(broker, partition, now_ms)
        if partition.waits_for_drain:
            if partition.messages_in_flight:
                self._take_back_unsent(broker, partition, now_ms)
                return False
            partition.waits_for_drain = False
        has_room = not broker.unsent and partition.messages_in_flight < IN_FLIGHT_MAX
        if not has_room or not partition.queue:
            return False
        if partition.producer != self._producer and not partition.change_producer(self._producer):
            return False
        if not partition.is_ready(now_ms):
            wakes.append(partition.ready_at_ms())
            return False
        try:
            request = partition.build(broker.node_id, now_ms)
        except InconsistentError:
            self._give_up("_INCONSISTENT")
            return False
        if request is None:
            wakes.append(partition.ready_at_ms())
            return False
        broker.unsent.append(request)
        return True

    # --- answers -----------------------------------------------------------------------------------------------------

    def disconnected(self, node_id: int, now_ms: int, *, is_timeout: bool) -> None:
        """`rd_kafka_broker_fail`."""
        broker = self._broker(node_id)
        broker.is_up = False
        in_flight, broker.in_flight = list(broker.in_flight.values()), {}
        unsent, broker.unsent = broker.unsent, []
        for request in in_flight:
            self._finish(request, TIMED_OUT if is_timeout else TRANSPORT, NO_OFFSET, now_ms)
        for request in unsent:
            self._finish(request, TIMED_OUT_QUEUE if is_timeout else TRANSPORT, NO_OFFSET, now_ms)
        self._needs_metadata = True

    def answered(self, call: ProduceCall, answers: Mapping[TopicPartition, Answer], now_ms: int) -> None:
        request = self._broker(call.node_id).in_flight.pop(call)
        answer = answers[request.partition.key]
        self._finish(request, answer.error_code, answer.base_offset, now_ms)
        if answer.current_leader is not None:
            self.learn({request.partition.key: answer.current_leader}, now_ms)

    def _finish(self, request: Request, error_code: int, base_offset: int, now_ms: int) -> None:
        """`rd_kafka_msgbatch_handle_Produce_result`."""
        partition = request.partition
        partition.messages_in_flight -= len(request.messages)
        if error_code == ErrorCode.NONE:
            self._succeed(request, base_offset)
        else:
            self._fail(request, error_code, base_offset, now_ms)
        self._check_drained()

    def _succeed(self, request: Request, base_offset: int) -> None:
        """`rd_kafka_handle_idempotent_Produce_success`."""
        partition = request.partition
        first_id, last_id = request.messages[0].message_id, request.messages[-1].message_id
        if partition.acked_message_id < first_id - 1:
            self._report(partition, partition.take_acked(last_id), "", None)
        elif partition.next_ack_sequence != request.base_sequence == partition.next_error_sequence:
            self._give_up("_INCONSISTENT")
            partition.next_error_sequence = request.next_sequence
        if not self._fatal:
            if partition.next_error_sequence == partition.next_ack_sequence:
                partition.next_error_sequence = request.next_sequence
            partition.next_ack_sequence = request.next_sequence
        partition.acked_message_id = max(partition.acked_message_id, last_id)
        self._report(partition, request.messages, "", base_offset)

    def _fail(self, request: Request, error_code: int, base_offset: int, now_ms: int) -> None:
        """`rd_kafka_handle_Produce_error`."""
        partition = request.partition
        request.messages[0].last_message_id = request.messages[-1].message_id
        actions, increment, error = actions_for(error_code), 1, name_of(error_code)
        match error_code:
            case ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                # Success. The returned offsets count on from that of the answer, which is -1: only the first of them is
                # what stands for none.
                partition.next_ack_sequence = partition.next_error_sequence = request.next_sequence
                self._report(partition, request.messages, "", base_offset)
                return
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                if request.base_sequence > partition.next_ack_sequence:
                    actions, increment = Actions(Status.NOT_PERSISTED, retries=True), 0
                    self._bump_when_drained()
                else:
                    self._give_up(error)
                    actions = Actions(Status.POSSIBLY_PERSISTED, is_permanent=True)
            case ErrorCode.UNKNOWN_PRODUCER_ID:
                if not request.messages[0].retries and partition.next_error_sequence == request.base_sequence:
                    actions, increment = Actions(Status.NOT_PERSISTED, retries=True), 0
                    self._bump_when_drained()
                else:
                    self._give_up(error)
                    actions = Actions(Status.POSSIBLY_PERSISTED, is_permanent=True)
        if error_code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or request.base_sequence >= partition.next_ack_sequence:
            partition.next_error_sequence = request.next_sequence
        if actions.refreshes or actions.retries:
            self._retry(request, error_code, actions, increment, now_ms)
            return
        self._bump_when_drained()
        self._report(partition, request.messages, error, None)

    def _retry(self, request: Request, error_code: int, actions: Actions, increment: int, now_ms: int) -> None:
        partition, status = request.partition, actions.status
        if actions.refreshes:
            self._needs_metadata = True
            if error_code not in _COUNTED:
                increment = 0
        if not request.was_sent:
            increment = 0
        if not increment:
            status = Status.NOT_PERSISTED
        partition.waits_for_drain = True
        jitter = 1 + _JITTER * (2 * self._chance() - 1)
        partition.retry(request.messages, increment, status, now_ms, jitter)

    # --- epochs, and the end of everything ---------------------------------------------------------------------------

    def _bump_when_drained(self) -> None:
        self._is_draining = True
        self._check_drained()

    def _check_drained(self) -> None:
        """`rd_kafka_idemp_drain_done`: a producer of its own may raise its epoch."""
        if self._is_draining and not any(each.messages_in_flight for each in self._partitions.values()):
            self._is_draining = False
            self._producer = ProducerIdAndEpoch(self._producer.producer_id, self._producer.epoch + 1)

    def _give_up(self, error: str) -> None:
        self._fatal = self._fatal or error

    def _purge(self) -> None:
        for partition in self._partitions.values():
            messages, partition.queue = partition.queue, []
            self._report(partition, messages, PURGE_QUEUE, None)

    def _report(self, partition: Partition, messages: Iterable[Message], error: str, base_offset: int | None) -> None:
        for index, message in enumerate(messages):
            offset = NO_OFFSET if base_offset is None else base_offset + index
            self.reports.append(Report(partition.key, message.value, error, offset))
            self._reported += 1
