"""Clients that speak as they did before 0.11, with messages of magic 0 and 1, beside those of today."""

from __future__ import annotations

import time
import uuid
from typing import Any, Protocol

import pytest

from tests.integration.kafka_clients import CLIENTS, MODES

pytestmark = [
    pytest.mark.integration,
    pytest.mark.deep,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

RECORDS = 300
FIRST_TIMESTAMP_MS = 1_700_000_000_000
SECONDS_MAX = 20.0

Consumed = tuple[bytes, bytes, int | None]
"""Key, value and timestamp, which messages of magic 0 have not."""


class OldClient(Protocol):
    def produce(self, topic: str, codec: str) -> None: ...

    def consume(self, topic: str) -> list[Consumed]: ...


def key(number: int) -> bytes:
    return b"key-%d" % number


def value(number: int) -> bytes:
    return b"value-%d " % number * (number % 50)


class OldLibrdkafka:
    def __init__(self, bootstrap: str, broker_version: str) -> None:
        self._config: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "api.version.request": False,
            "broker.version.fallback": broker_version,
            "log_level": 0,
        }

    def produce(self, topic: str, codec: str) -> None:
        from confluent_kafka import Producer

        failures: list[str] = []
        producer = Producer({**self._config, "compression.type": codec, "linger.ms": 20})
        for number in range(RECORDS):
            producer.produce(
                topic,
                value(number),
                key(number),
                0,
                timestamp=FIRST_TIMESTAMP_MS + number,
                on_delivery=lambda error, _: failures.append(str(error)) if error else None,
            )
        assert producer.flush(SECONDS_MAX) == 0
        assert failures == []

    def consume(self, topic: str) -> list[Consumed]:
        from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, TopicPartition

        consumer = Consumer({**self._config, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Consumed] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(found) < RECORDS and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            assert message.error() is None, message.error()
            kind, timestamp_ms = message.timestamp()
            timestamp = None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
            found.append((message.key() or b"", message.value() or b"", timestamp))
        consumer.close()
        return found


class OldKafkaPython:
    def __init__(self, bootstrap: str, api_version: tuple[int, ...]) -> None:
        self._config: dict[str, Any] = {"bootstrap_servers": bootstrap, "api_version": api_version}

    def produce(self, topic: str, codec: str) -> None:
        from kafka import KafkaProducer

        compression = None if codec == "none" else codec
        producer = KafkaProducer(**self._config, compression_type=compression, enable_idempotence=False, linger_ms=20)
        futures = [
            producer.send(topic, value(number), key(number), partition=0, timestamp_ms=FIRST_TIMESTAMP_MS + number)
            for number in range(RECORDS)
        ]
        for future in futures:
            future.get(SECONDS_MAX)
        producer.close(SECONDS_MAX)

    def consume(self, topic: str) -> list[Consumed]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            **self._config, group_id=None, enable_auto_commit=False, consumer_timeout_ms=int(SECONDS_MAX * 1000)
        )
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        found: list[Consumed] = []
        for record in consumer:
            found.append((record.key, record.value, record.timestamp))
            if len(found) == RECORDS:
                break
        consumer.close()
        return found


OLD_CLIENTS = {
    "librdkafka 0.9": (lambda bootstrap: OldLibrdkafka(bootstrap, "0.9.0"), 0),
    "librdkafka 0.10": (lambda bootstrap: OldLibrdkafka(bootstrap, "0.10.0"), 1),
    "kafka-python 0.9": (lambda bootstrap: OldKafkaPython(bootstrap, (0, 9)), 0),
    "kafka-python 0.10": (lambda bootstrap: OldKafkaPython(bootstrap, (0, 10)), 1),
}
CODECS = ("none", "gzip", "snappy", "lz4")
# kafka-python needs another package for the lz4 frames of magic 0.
WITHOUT = {("kafka-python 0.9", "lz4")}


def new_topic(bootstrap: str) -> str:
    topic = f"old-{uuid.uuid4().hex[:8]}"
    CLIENTS["confluent-kafka"](bootstrap).create_topic(topic, 1)
    return topic


def expected(magic: int) -> list[Consumed]:
    """What a client of this magic sees of what one of magic 1 or later has produced."""
    return [(key(number), value(number), FIRST_TIMESTAMP_MS + number if magic else None) for number in range(RECORDS)]


@pytest.mark.parametrize(
    ("name", "codec"),
    [(name, codec) for name in OLD_CLIENTS for codec in CODECS if (name, codec) not in WITHOUT],
    ids=lambda value: str(value).replace(" ", "-"),
)
def test_an_old_client_reads_back_what_it_produced(bootstrap: str, name: str, codec: str) -> None:
    make, magic = OLD_CLIENTS[name]
    client = make(bootstrap)
    topic = new_topic(bootstrap)
    client.produce(topic, codec)
    assert client.consume(topic) == expected(magic)


@pytest.mark.parametrize("codec", CODECS)
def test_clients_of_today_read_what_old_ones_wrote(bootstrap: str, codec: str) -> None:
    topic = new_topic(bootstrap)
    OldLibrdkafka(bootstrap, "0.9.0").produce(topic, codec)
    for name, make in CLIENTS.items():
        if name != "kcat":  # It can't tell where an empty value ends.
            assert make(bootstrap).consume(topic, 0, RECORDS) == [value(number) for number in range(RECORDS)]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (name, mode)
        for name in OLD_CLIENTS
        for mode in ("idempotent", "gzip", "snappy", "lz4")
        if (name, mode) not in WITHOUT
    ],
    ids=lambda value: str(value).replace(" ", "-"),
)
def test_old_clients_read_what_those_of_today_write(bootstrap: str, name: str, mode: str) -> None:
    make, _ = OLD_CLIENTS[name]
    topic = new_topic(bootstrap)
    values = [value(number) for number in range(RECORDS)]
    CLIENTS["confluent-kafka"](bootstrap).produce(topic, 0, values, MODES[mode])
    assert [found for _, found, _ in make(bootstrap).consume(topic)] == values
