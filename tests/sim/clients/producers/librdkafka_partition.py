"""Messages and partitions of a producer like librdkafka's.

Written from librdkafka 2.16: `rdkafka_partition.c` (rd_kafka_toppar_retry_msgq, rd_kafka_retry_msgq,
rd_kafka_toppar_pid_change), `rdkafka_msg.c` (rd_kafka_msgq_allow_wakeup_at, rd_kafka_msgq_age_scan,
rd_kafka_msgq_move_acked, rd_kafka_msgbatch_set_first_msg) and `rdkafka_msgset_writer.c`
(rd_kafka_msgset_writer_write_msgq).

A partition has one queue here: librdkafka's two, of the application and of the broker's thread, are one in order.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.sim.clients.producers.calls import (
    NO_PRODUCER,
    ProducerConfig,
    ProducerIdAndEpoch,
    SentBatch,
    TopicPartition,
)


class InconsistentError(Exception):
    """A batch that was sent can't be built again: the messages of two batches were regrouped as one timed out."""


class Status(Enum):
    """`rd_kafka_msg_status_t`."""

    NOT_PERSISTED = auto()
    POSSIBLY_PERSISTED = auto()
    PERSISTED = auto()


@dataclass(slots=True, eq=False)
class Message:
    """`message_id` counts from 1 in each partition. `last_message_id`: of the batch that begins with it and was sent.

    A batch that is sent again is built again, of the very same messages: its first one knows the last.
    """

    message_id: int
    value: bytes
    created_ms: int
    retries: int = 0
    backoff_until_ms: int = 0
    last_message_id: int = 0
    status: Status = Status.NOT_PERSISTED


@dataclass(slots=True, eq=False)
class Request:
    """A Produce request, always of one batch of one partition, at the broker `node_id`."""

    node_id: int
    partition: Partition
    producer: ProducerIdAndEpoch
    base_sequence: int
    messages: list[Message]
    was_sent: bool = False

    @property
    def next_sequence(self) -> int:
        return self.base_sequence + len(self.messages)

    def batch(self) -> SentBatch:
        values = tuple(message.value for message in self.messages)
        return SentBatch(self.partition.key, self.producer, self.base_sequence, values)


@dataclass(slots=True, eq=False)
class Partition:
    """A toppar. `messages_in_flight` counts messages, of which five are as many as five requests to librdkafka."""

    key: TopicPartition
    config: ProducerConfig
    node_id: int | None = None
    leader_epoch: int = -1
    queue: list[Message] = field(default_factory=list)
    messages_in_flight: int = 0
    producer: ProducerIdAndEpoch = NO_PRODUCER
    base_message_id: int = 0
    acked_message_id: int = 0
    next_ack_sequence: int = 0
    next_error_sequence: int = 0
    waits_for_drain: bool = False
    _last_message_id: int = 0

    def append(self, value: bytes, now_ms: int) -> None:
        self._last_message_id += 1
        self.queue.append(Message(self._last_message_id, value, now_ms))

    def change_producer(self, producer: ProducerIdAndEpoch) -> bool:
        """Start with sequence 0 at the first message that waits; not while anything is in flight."""
        if self.messages_in_flight:
            return False
        self.producer = producer
        self.next_ack_sequence = self.next_error_sequence = 0
        self.base_message_id = self.queue[0].message_id
        return True

    def ready_at_ms(self) -> int:
        """When the first message that waits may be sent: the end of its backoff, or of its linger."""
        first = self.queue[0]
        linger_until_ms = first.created_ms + self.config.linger_ms
        return max(first.backoff_until_ms, linger_until_ms)

    def is_ready(self, now_ms: int) -> bool:
        return len(self.queue) >= self.config.batch_records_max or now_ms >= self.ready_at_ms()

    def build(self, node_id: int, now_ms: int) -> Request | None:
        """Return the next batch of what waits; None when its first message backs off. Raises InconsistentError."""
        first = self.queue[0]
        count = 0
        for message in self.queue:
            is_beyond = 0 < first.last_message_id < message.message_id
            if is_beyond or count == self.config.batch_records_max or message.backoff_until_ms > now_ms:
                break
            count += 1
        if not count:
            return None
        messages = self.queue[:count]
        if first.last_message_id not in (0, messages[-1].message_id):
            raise InconsistentError
        del self.queue[:count]
        self.messages_in_flight += count
        return Request(node_id, self, self.producer, first.message_id - self.base_message_id, messages)

    def retry(self, messages: Iterable[Message], increment: int, status: Status, now_ms: int, jitter: float) -> None:
        """Put messages back in order. Nothing that may be persisted is taken for not persisted again."""
        config = self.config
        for message in messages:
            message.retries += increment
            backoff_ms = config.retry_backoff_ms * 2 ** max(0, message.retries - 1) * jitter
            message.backoff_until_ms = now_ms + int(min(backoff_ms, config.retry_backoff_max_ms))
            if status is not Status.NOT_PERSISTED or message.status is Status.NOT_PERSISTED:
                message.status = status
            insort(self.queue, message, key=lambda each: each.message_id)

    def take_acked(self, last_message_id: int) -> list[Message]:
        """What a later batch's success acknowledges of what waits."""
        count = sum(message.message_id <= last_message_id for message in self.queue)
        acked = self.queue[:count]
        del self.queue[:count]
        return acked

    def take_expired(self, now_ms: int) -> list[Message]:
        """What has waited too long, up to the first that has not."""
        count = 0
        while count < len(self.queue) and now_ms - self.queue[count].created_ms >= self.config.delivery_timeout_ms:
            count += 1
        expired = self.queue[:count]
        del self.queue[:count]
        return expired
