"""Producers: idempotent ones that repeat until they know, plain ones that send everything once."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.wire.record_batch import Record, build_batch
from tests.sim.clients.client import UNKNOWN_TOPIC, Client, ClientEnvironment
from tests.sim.scheduler import MS, SECOND, InvariantViolation

IN_FLIGHT_MAX = 5
TIMEOUT_MS = 4_000
TOPIC_ID_VERSION = 13
LIST_OFFSETS_VERSION = 6

# The leader says that the batch is not in the log. Everything else that is no success leaves it open.
CERTAIN = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.INVALID_REQUIRED_ACKS,
)
REPEATABLE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)


@dataclass(slots=True)
class Behaviour:
    idempotent: bool
    acks: int
    version: int
    interval_us: int
    records_max: int


@dataclass(slots=True, eq=False)
class Batch:
    topic: str
    partition: int
    values: list[bytes]
    sequence: int = -1
    in_flight: bool = False
    acked_offset: int = -1


class Producer(Client):
    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        topics: dict[str, int],
        behaviour: Behaviour,
    ) -> None:
        super().__init__(name, environment)
        self.topics = topics
        self.behaviour = behaviour
        self.is_stopping = False
        self._produced = 0
        self._lives = 0
        self._forget()

    def _forget(self) -> None:
        self._producer_id = -1
        self._next_sequence: dict[tuple[str, int], int] = {}
        # Not answered for good, by partition, in the order of their sequences.
        self._open: dict[tuple[str, int], list[Batch]] = {}
        # Partitions whose leader has taken something of this producer id. Before that batches go one by one: a log
        # that does not know a producer takes any sequence, so the second could pass where the first was refused.
        self._known_at: dict[tuple[str, int], None] = {}
        self._repeating: dict[tuple[str, int], None] = {}

    def boot(self) -> None:
        self._lives += 1
        self._forget()
        super().boot()
        self._produce_later()

    @property
    def has_open_batches(self) -> bool:
        return any(self._open.values())

    @property
    def is_ready(self) -> bool:
        return self.is_connected and self._producer_id >= 0 and all(topic in self.topic_ids for topic in self.topics)

    # --- work --------------------------------------------------------------------------------------------------------

    def work(self) -> None:
        self.learn_topics(list(self.topics), self._ready)

    def _ready(self) -> None:
        if self.behaviour.idempotent and self._producer_id < 0:
            self.ask(
                ApiKey.INIT_PRODUCER_ID,
                InitProducerIdRequest(None, 60_000),
                4,
                InitProducerIdResponse,
                self._got_producer_id,
            )
        else:
            self._repeat_all()

    def _got_producer_id(self, response: InitProducerIdResponse | None) -> None:
        if response is None or self._producer_id >= 0:
            return
        if response.error_code:
            self.meanwhile(200 * MS, "asks for a producer id again", self._ready)
            return
        self._producer_id = response.producer_id
        self._repeat_all()

    def _produce_later(self) -> None:
        delay_us = self.scheduler.random.randrange(1, 2 * self.behaviour.interval_us)
        self.after(delay_us, "may produce", self._produce)

    def _produce(self) -> None:
        self._produce_later()
        random = self.scheduler.random
        topic = random.choice(sorted(self.topics))
        partition = random.randrange(self.topics[topic])
        is_ready = self.is_connected and topic in self.topic_ids
        if self.behaviour.idempotent:
            is_ready = (
                is_ready and self._producer_id >= 0 and len(self._open.get((topic, partition), ())) < IN_FLIGHT_MAX
            )
        if self.is_stopping or not is_ready:
            return
        values = []
        for _ in range(random.randint(1, self.behaviour.records_max)):
            self._produced += 1
            padding = "." * random.randrange(200)
            values.append(f"{self.name}.{self._lives} {self._produced} {padding}".encode())
        self.produce(topic, partition, values)

    def produce(self, topic: str, partition: int, values: list[bytes]) -> None:
        key = (topic, partition)
        batch = Batch(topic, partition, values)
        for value in values:
            self.history.sending(topic, partition, value)
        if self.behaviour.idempotent:
            batch.sequence = self._next_sequence.get(key, 0)
            self._next_sequence[key] = batch.sequence + len(values)
            self._open.setdefault(key, []).append(batch)
            if len(self._open[key]) > 1 and not self._may_follow(key):
                return  # It goes out in its turn.
        self._send_batch(batch)

    def _may_follow(self, key: tuple[str, int]) -> bool:
        """Whether the newest batch may be sent at once, behind others that are under way."""
        return key in self._known_at and all(each.in_flight for each in self._open[key][:-1])

    # --- requests ----------------------------------------------------------------------------------------------------

    def _send_batch(self, batch: Batch) -> None:
        # A millisecond apart: a time is of one record, and not of its batch.
        records = [Record(value, value, self.wall_ms + number) for number, value in enumerate(batch.values)]
        producer_id = self._producer_id if self.behaviour.idempotent else -1
        producer_epoch = 0 if self.behaviour.idempotent else -1
        encoded = build_batch(
            records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=batch.sequence
        )
        topic_id = self.topic_ids[batch.topic]
        version = self.behaviour.version
        has_id = version >= TOPIC_ID_VERSION
        topic = TopicProduceData(
            "" if has_id else batch.topic,
            topic_id if has_id else bytes(16),
            [PartitionProduceData(batch.partition, encoded)],
        )
        request = ProduceRequest(None, self.behaviour.acks, TIMEOUT_MS, [topic])
        batch.in_flight = True
        if self.behaviour.acks == 0:
            self.history.counts.unknown += len(batch.values)
            self.tell(request, version)
            return
        self.ask(
            ApiKey.PRODUCE,
            request,
            version,
            ProduceResponse,
            lambda response: self._answered(batch, response),
        )
        if self.behaviour.acks == -1 and self.scheduler.random.random() < 0.2:
            self._ask_for_end_behind(batch)

    def _ask_for_end_behind(self, batch: Batch) -> None:
        """Another request right behind the produce, on the same connection: it has to see what that has committed."""
        asked = ListOffsetsTopic(batch.topic, [ListOffsetsPartition(batch.partition, -1, LATEST_TIMESTAMP)])

        def answered(response: ListOffsetsResponse | None) -> None:
            if response is None or response.topics[0].partitions[0].error_code:
                return
            end = response.topics[0].partitions[0].offset
            if 0 <= end <= batch.acked_offset and not self.history.may_jump(batch.topic, batch.partition):
                raise InvariantViolation(
                    f"{self.name}: {batch.topic}-{batch.partition} ends at {end} for a request behind offset "
                    f"{batch.acked_offset}"
                )

        self.ask(
            ApiKey.LIST_OFFSETS,
            ListOffsetsRequest(-1, 0, [asked]),
            LIST_OFFSETS_VERSION,
            ListOffsetsResponse,
            answered,
        )

    def _answered(self, batch: Batch, response: ProduceResponse | None) -> None:
        batch.in_flight = False
        if response is None:
            self._unknown(batch)
            return
        self.history.counts.operations += 1
        answer = response.responses[0].partition_responses[0]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            for index, value in enumerate(batch.values):
                offset = answer.base_offset + index if answer.base_offset >= 0 else -1
                self.history.acknowledged(batch.topic, batch.partition, offset, value, self.behaviour.acks)
            batch.acked_offset = answer.base_offset
            self._settled(batch)
        elif self.behaviour.idempotent and code in REPEATABLE:
            if code in UNKNOWN_TOPIC:
                self.learn_again(list(self.topics))
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._check_sequence(batch)
            self._unknown(batch)
        elif code in CERTAIN:
            for value in batch.values:
                self.history.certainly_refused(value, f"the producer got {code.name}")
            self._settled(batch)
        else:
            if code in UNKNOWN_TOPIC:
                self.learn_again(list(self.topics))
            self._unknown(batch)

    def _check_sequence(self, batch: Batch) -> None:
        """Out of order with nothing open before it: the leader has forgotten what it needs to know this batch by.

        A restart may do that, as Kafka's snapshots keep one batch of a producer; or the loss of what came before, which
        is found out when everything is read. Either way it can't be determined any more, and a new producer id starts
        over.
        """
        waiting = self._open.get((batch.topic, batch.partition), [])
        if waiting and waiting[0] is batch:
            self.history.counts.unknown += sum(len(each.values) for open_ in self._open.values() for each in open_)
            self._forget()
            self._ready()

    def _settled(self, batch: Batch) -> None:
        key = (batch.topic, batch.partition)
        if batch in self._open.get(key, ()):
            self._open[key].remove(batch)
            self._known_at[key] = None
            self._repeat(key)

    def _unknown(self, batch: Batch) -> None:
        """Repeat it, or never know."""
        if not self.behaviour.idempotent:
            self.history.counts.unknown += len(batch.values)
            return
        key = (batch.topic, batch.partition)
        if key in self._repeating:
            return
        self._repeating[key] = None

        def repeat() -> None:
            self._repeating.pop(key, None)
            self._repeat(key)

        # The more often it sends, the sooner it repeats: else a quiet cluster without a leader is kept busy for hours.
        longest_us = max(120 * MS, min(self.behaviour.interval_us, SECOND))
        self.after(self.scheduler.random.randrange(20 * MS, longest_us), "repeats", repeat)

    def _repeat(self, key: tuple[str, int]) -> None:
        """When nothing of a partition is in flight any more, what is open goes out again, in order."""
        waiting = self._open.get(key, [])
        if self.is_connected and self._producer_id >= 0 and not any(each.in_flight for each in waiting):
            for batch in waiting[: IN_FLIGHT_MAX if key in self._known_at else 1]:
                self._send_batch(batch)

    def _repeat_all(self) -> None:
        for key in list(self._open):
            self._repeat(key)
