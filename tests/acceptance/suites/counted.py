"""What a stream processor has counted: the results that a reader sees, and what is wrong with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

_NAMED_MAX: Final = 5
_POLL_SECONDS: Final = 0.1
_MESSAGES_MAX: Final = 2000
_REQUEST_SECONDS_MAX: Final = 20.0


@dataclass(slots=True, frozen=True)
class Counted:
    """A result: the number of a record, and how many of its key had been counted with it."""

    key: str
    number: int
    count: int


def problems_of_records(results: Iterable[Counted], records: int) -> list[str]:
    """Say which of the records, numbered from 0, were not counted exactly once."""
    times = Counter(result.number for result in results)
    lost = [number for number in range(records) if number not in times]
    doubled = [number for number, count in sorted(times.items()) if count > 1]
    strange = sorted(number for number in times if not 0 <= number < records)
    found = {"not counted": lost, "counted more than once": doubled, "never written": strange}
    return [f"{len(numbers)} records {what}: {_first(numbers)}" for what, numbers in found.items() if numbers]


def problems_of_state(results: Iterable[Counted]) -> list[str]:
    """Say which keys' counts are not 1, 2, 3 and so on, in the order of their results."""
    counts: dict[str, list[int]] = {}
    for result in results:
        counts.setdefault(result.key, []).append(result.count)
    problems = []
    for key, found in sorted(counts.items()):
        place = next((place for place, count in enumerate(found, 1) if count != place), None)
        if place is not None:
            problems.append(f"{key}: the count of its result {place} is {found[place - 1]}")
    return problems if counts else ["no key has a count"]


def _first(numbers: list[int]) -> str:
    more = ["…"] if len(numbers) > _NAMED_MAX else []
    return ", ".join([*map(str, numbers[:_NAMED_MAX]), *more])


class Reader:
    """Reads the results of all partitions, from the first; of committed transactions alone, or all."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation: str) -> None:
        self.results: list[Counted] = []
        self.numbers: set[int] = set()
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
                self._add(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self._ends[partition] = offset
            elif not error.retriable():
                raise KafkaException(error)

    def _add(self, message: Message) -> None:
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        result = json.loads(value)
        self.results.append(Counted(key.decode(), result["number"], result["count"]))
        self.numbers.add(result["number"])

    def has_read_to(self, ends: dict[int, int]) -> bool:
        """Of a reader of committed transactions: whether no transaction before these offsets is open."""
        return all(self._ends.get(partition, -1) >= end for partition, end in ends.items())

    def log_ends(self) -> dict[int, int]:
        """Return the offset after the last record of each partition; of a reader of all. Raises KafkaException."""
        return {
            each.partition: self._consumer.get_watermark_offsets(each, timeout=_REQUEST_SECONDS_MAX)[1]
            for each in self._partitions
        }
