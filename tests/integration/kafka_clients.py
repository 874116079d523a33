"""Real clients behind one face, with assigned partitions throughout: groups are not asked for."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

SECONDS_MAX = 30.0


@dataclass(slots=True, frozen=True)
class Mode:
    """How to produce."""

    acks: int = -1
    idempotent: bool = False
    compression: str = "none"


MODES = {
    "acks-0": Mode(acks=0),
    "acks-1": Mode(acks=1),
    "acks-all": Mode(),
    "idempotent": Mode(idempotent=True),
    "gzip": Mode(compression="gzip"),
    "snappy": Mode(compression="snappy"),
    "lz4": Mode(compression="lz4"),
    "zstd": Mode(compression="zstd"),
}


class Client(Protocol):
    def create_topic(self, topic: str, partitions: int) -> None: ...

    def produce(self, topic: str, partition: int, values: list[bytes], mode: Mode) -> None:
        """Return when all are delivered; with acks=0, when all are sent."""

    def consume(self, topic: str, partition: int, count: int) -> list[bytes]:
        """The first `count` values in order; fewer only when they did not come in time."""

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first offset at or after a time; None if every record is earlier."""


class Confluent:
    """librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}

    def create_topic(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient(self._bootstrap)
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(timeout=SECONDS_MAX)

    def produce(self, topic: str, partition: int, values: list[bytes], mode: Mode) -> None:
        from confluent_kafka import Producer

        settings = {
            "acks": mode.acks,
            "enable.idempotence": mode.idempotent,
            "compression.type": mode.compression,
            "linger.ms": 2,
        }
        errors: list[Any] = []
        producer = Producer({**self._bootstrap, **settings})
        for value in values:
            producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(SECONDS_MAX) == 0
        assert errors == [None] * len(values)

    def consume(self, topic: str, partition: int, count: int) -> list[bytes]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({**self._bootstrap, "group.id": "assigned", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        values: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(values) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(values), timeout=0.2):
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        consumer.close()
        return values

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        from confluent_kafka import OFFSET_END, Consumer, TopicPartition

        consumer = Consumer({**self._bootstrap, "group.id": "assigned"})
        (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], timeout=SECONDS_MAX)
        consumer.close()
        return None if found.offset == OFFSET_END else int(found.offset)


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create_topic(self, topic: str, partitions: int) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        admin.create_topics([NewTopic(topic, partitions, 1)])
        admin.close()

    def produce(self, topic: str, partition: int, values: list[bytes], mode: Mode) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=mode.acks if mode.acks >= 0 else "all",
            enable_idempotence=mode.idempotent,
            compression_type=None if mode.compression == "none" else mode.compression,
        )
        futures = [producer.send(topic, value, partition=partition) for value in values]
        producer.flush(SECONDS_MAX)
        for future in futures:
            future.get(timeout=SECONDS_MAX)
        producer.close()

    def consume(self, topic: str, partition: int, count: int) -> list[bytes]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap)
        assigned = TopicPartition(topic, partition)
        consumer.assign([assigned])
        consumer.seek_to_beginning(assigned)
        values: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(values) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200).values():
                values += [record.value for record in records]
        consumer.close()
        return values[:count]

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap)
        assigned = TopicPartition(topic, partition)
        found = consumer.offsets_for_times({assigned: timestamp_ms})[assigned]
        consumer.close()
        return None if found is None else int(found.offset)


class Aiokafka:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create_topic(self, topic: str, partitions: int) -> None:
        asyncio.run(self._create_topic(topic, partitions))

    def produce(self, topic: str, partition: int, values: list[bytes], mode: Mode) -> None:
        asyncio.run(self._produce(topic, partition, values, mode))

    def consume(self, topic: str, partition: int, count: int) -> list[bytes]:
        return asyncio.run(self._consume(topic, partition, count))

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        return asyncio.run(self._offset_for_time(topic, partition, timestamp_ms))

    async def _create_topic(self, topic: str, partitions: int) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(topic, partitions, 1)])
        await admin.close()

    async def _produce(self, topic: str, partition: int, values: list[bytes], mode: Mode) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=mode.acks if mode.acks >= 0 else "all",
            enable_idempotence=mode.idempotent,
            compression_type=None if mode.compression == "none" else mode.compression,
        )
        await producer.start()
        futures = [await producer.send(topic, value, partition=partition) for value in values]
        await producer.flush()
        await asyncio.gather(*futures)
        await producer.stop()

    async def _consume(self, topic: str, partition: int, count: int) -> list[bytes]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap)
        await consumer.start()
        assigned = TopicPartition(topic, partition)
        consumer.assign([assigned])
        await consumer.seek_to_beginning(assigned)
        values: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(values) < count and time.monotonic() < deadline:
            found = await consumer.getmany(assigned, timeout_ms=200)
            values += [record.value for records in found.values() for record in records]
        await consumer.stop()
        return values[:count]

    async def _offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap)
        await consumer.start()
        assigned = TopicPartition(topic, partition)
        found = (await consumer.offsets_for_times({assigned: timestamp_ms}))[assigned]
        await consumer.stop()
        return None if found is None else int(found.offset)


class Kcat:
    """Creates topics as its users do: by producing to them."""

    def __init__(self, bootstrap: str) -> None:
        if shutil.which("kcat") is None:
            pytest.skip("kcat is not on PATH")
        self._bootstrap = bootstrap

    def create_topic(self, topic: str, partitions: int) -> None:
        self._run("-P", "-t", topic, "-p", "0", stdin=b"")

    def produce(self, topic: str, partition: int, values: list[bytes], mode: Mode) -> None:
        settings = {
            "acks": mode.acks,
            "enable.idempotence": str(mode.idempotent).lower(),
            "compression.codec": mode.compression,
        }
        options = [option for key, value in settings.items() for option in ("-X", f"{key}={value}")]
        stdin = b"".join(value + b"\n" for value in values)
        self._run("-P", "-t", topic, "-p", str(partition), *options, stdin=stdin)

    def consume(self, topic: str, partition: int, count: int) -> list[bytes]:
        output = self._run("-C", "-q", "-t", topic, "-p", str(partition), "-o", "beginning", "-c", str(count))
        return output.splitlines()

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        output = self._run("-Q", "-t", f"{topic}:{partition}:{timestamp_ms}")
        offset = int(output.split()[-1])
        return None if offset < 0 else offset

    def _run(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        done = subprocess.run(
            ["kcat", "-b", self._bootstrap, *arguments],
            input=stdin,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


CLIENTS: dict[str, type[Confluent] | type[KafkaPython] | type[Aiokafka] | type[Kcat]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "kcat": Kcat,
}
