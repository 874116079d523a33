"""The loads, by librdkafka in this process: what is sent, and how long it took.

Nothing of the client is measured but its clock: every message is made of one shared payload, and delivery reports are
asked for errors only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 6
FLUSH_SECONDS_MAX = 120.0

Settings = dict[str, str | int | float | bool]


@dataclass(slots=True, frozen=True)
class Load:
    name: str
    title: str
    record_bytes: int
    settings: Settings
    is_consume: bool = False
    is_one_record_a_request: bool = False
    replication_factor: int = 1


_QUIET: Settings = {"log_level": 5}
"""Warnings and worse."""

_BATCHED: Settings = {"acks": 1, "linger.ms": 5, "queue.buffering.max.messages": 200_000}

LOADS = [
    Load(
        "single",
        "single-record requests, 100 B, acks=1, pipelined",
        100,
        {"acks": 1, "linger.ms": 0, "batch.num.messages": 1, "queue.buffering.max.messages": 20_000},
        is_one_record_a_request=True,
    ),
    Load("batched-100", "produce 100 B, linger.ms=5, acks=1", 100, _BATCHED),
    Load("batched-1000", "produce 1,000 B, linger.ms=5, acks=1", 1000, _BATCHED),
    Load("consume", "consume 1,000 B", 1000, {"enable.auto.commit": False, "group.id": "bench"}, is_consume=True),
]

_BATCHED_ALL: Settings = _BATCHED | {"acks": -1, "enable.idempotence": True}

REPLICATED_LOADS = [
    Load(
        "replicated-single",
        "single-record requests, 100 B, RF 3, acks=all, pipelined",
        100,
        {"acks": -1, "linger.ms": 0, "batch.num.messages": 1, "queue.buffering.max.messages": 2_000},
        is_one_record_a_request=True,
        replication_factor=3,
    ),
    Load(
        "replicated-100",
        "produce 100 B, linger.ms=5, RF 3, acks=all, idempotent",
        100,
        _BATCHED_ALL,
        replication_factor=3,
    ),
    Load(
        "replicated-1000",
        "produce 1,000 B, linger.ms=5, RF 3, acks=all, idempotent",
        1000,
        # 50 MB wait at most: the rest of a sample is the wait for their answers, on six brokers that share a machine.
        _BATCHED_ALL | {"queue.buffering.max.messages": 50_000},
        replication_factor=3,
    ),
]


@dataclass(slots=True, frozen=True)
class Outcome:
    records: int
    seconds: float


def create_topic(bootstrap: str, topic: str, replication_factor: int = 1, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    admin.create_topics([NewTopic(topic, partitions, replication_factor)])[topic].result(timeout=30)


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    admin.delete_topics([topic])[topic].result(timeout=30)


class ProduceLoad:
    """A producer that is kept busy for a time."""

    def __init__(self, bootstrap: str, load: Load) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "delivery.report.only.error": True, **_QUIET, **load.settings}
        )
        self._payload = b"x" * load.record_bytes
        self._errors: list[KafkaError] = []

    def run(self, topic: str, seconds: float) -> Outcome:
        """Send for so long, then wait for the last answer; that wait is part of the time."""
        produce, poll = self._producer.produce, self._producer.poll
        began = time.perf_counter()
        end = began + seconds
        records = 0
        while time.perf_counter() < end:
            try:
                for _ in range(100):
                    produce(topic, self._payload, on_delivery=self._delivered)
                    records += 1
            except BufferError:
                poll(0.005)
        left = self._producer.flush(FLUSH_SECONDS_MAX)
        taken = time.perf_counter() - began
        if left or self._errors:
            raise RuntimeError(f"{left} records undelivered, {len(self._errors)} failed: {self._errors[:1]}")
        return Outcome(records, taken)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._errors.append(error)


def consume(bootstrap: str, load: Load, topic: str, records: int) -> Outcome:
    """Read so many records from the beginning of all partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, **_QUIET, **load.settings})
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        began = time.perf_counter()
        taken = 0
        while taken < records:
            messages = consumer.consume(min(10_000, records - taken), timeout=10)
            if not messages:
                raise RuntimeError(f"nothing for 10 s after {taken} of {records} records")
            error = messages[-1].error()
            if error is not None:
                raise RuntimeError(f"after {taken} of {records} records: {error}")
            taken += len(messages)
        return Outcome(taken, time.perf_counter() - began)
    finally:
        consumer.close()
