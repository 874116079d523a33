"""Readers of a topic's results, of committed transactions alone or of all: they see what a killed process left open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

_POLL_SECONDS: Final = 0.1
_MESSAGES_MAX: Final = 2000
_REQUEST_SECONDS_MAX: Final = 20.0


class Numbered(Protocol):
    """What a result tells at least: the number of the record that it comes of."""

    @property
    def number(self) -> int: ...


Result = TypeVar("Result", bound=Numbered)


class Reader(Generic[Result]):
    """Reads the results of all partitions, from the first; `isolation` is as Kafka names it."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, isolation: str, parse: Callable[[Message], Result]
    ) -> None:
        self.results: list[Result] = []
        self.numbers: set[int] = set()
        self._parse = parse
        self._ends: dict[int, int] = {}
        self._partitions = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)]
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "never committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "log_level": "0",
            }
        )
        self._consumer.assign(self._partitions)

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> None:
        """Read what has arrived. Raises KafkaException."""
        for message in self._consumer.consume(_MESSAGES_MAX, _POLL_SECONDS):
            error = message.error()
            if error is None:
                result = self._parse(message)
                self.results.append(result)
                self.numbers.add(result.number)
            elif error.code() == KafkaError._PARTITION_EOF:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self._ends[partition] = offset
            elif not error.retriable():
                raise KafkaException(error)

    def has_read_to(self, ends: dict[int, int]) -> bool:
        """Of a reader of committed transactions: whether no transaction before these offsets is open."""
        return all(self._ends.get(partition, -1) >= end for partition, end in ends.items())

    def log_ends(self) -> dict[int, int]:
        """Return the offset after the last record of each partition; of a reader of all. Raises KafkaException."""
        return {
            each.partition: self._consumer.get_watermark_offsets(each, timeout=_REQUEST_SECONDS_MAX)[1]
            for each in self._partitions
        }


def read_to_the_end(committed: Reader[Result], everything: Reader[Result], seconds_max: float) -> None:
    """Read until no transaction is open. Raises TimeoutError."""
    deadline = time.monotonic() + seconds_max
    while True:
        everything.read()
        committed.read()
        ends = everything.log_ends()
        if committed.has_read_to(ends) and everything.has_read_to(ends):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"a transaction is open {seconds_max:.0f} s after its producer was killed")
