"""Reads the whole log of a topic as a consumer does."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

READ_SECONDS_MAX: Final = 180.0
_REQUEST_SECONDS_MAX: Final = 20.0
_RECORDS_PER_CALL: Final = 10_000


class UnreadableError(Exception):
    """A partition that can't be read from its beginning to its end; the message says where it stopped."""


def read_log(bootstrap: str, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """The values of each partition by offset, which begins at 0 and has no gap. Raises UnreadableError."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "moving-leaders",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "broker.address.family": "v4",
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        return _read(consumer, topic, partitions)
    except KafkaException as error:
        raise UnreadableError(f"{topic}: {error.args[0]}") from None
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, partitions: int) -> dict[int, list[bytes]]:
    ends = {}
    for partition in range(partitions):
        wanted = TopicPartition(topic, partition)
        _, ends[partition] = consumer.get_watermark_offsets(wanted, timeout=_REQUEST_SECONDS_MAX)
    log: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    deadline = time.monotonic() + READ_SECONDS_MAX
    while any(len(log[partition]) < end for partition, end in ends.items()):
        if time.monotonic() > deadline:
            short = {each: f"{len(log[each])} of {end}" for each, end in ends.items() if len(log[each]) < end}
            raise UnreadableError(f"{topic} was not read to its end within {READ_SECONDS_MAX:.0f} s: {short}")
        for message in consumer.consume(_RECORDS_PER_CALL, timeout=1.0):
            error = message.error()
            if error is not None:
                if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                    continue
                raise KafkaException(error)
            its_partition, offset = message.partition(), message.offset()
            assert its_partition is not None
            values = log[its_partition]
            if offset != len(values):
                raise UnreadableError(f"{topic}-{its_partition}: offset {offset} follows {len(values) - 1}")
            values.append(message.value() or b"")
    return log
