"""What goes into the word count, and what must come out: for every word each count from 1 on, once and in order."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

INPUT, OUTPUT = "words", "counts"
WORDS: Final = tuple(f"word-{number}" for number in range(100))
_UNANSWERED_MAX: Final = 500
_READ_SECONDS_MAX: Final = 300.0
_QUIET_SECONDS: Final = 5.0
_SAY_SECONDS: Final = 15.0


class Wrong(NamedTuple):
    """Deviations from what a word count that ran without any fault would have written."""

    missing: int
    doubled: int
    out_of_order: int
    """Counts that are neither the one after the last of their word, nor one of those before."""
    too_many: int
    """Counts above the number of times that the word was sent."""

    @property
    def any(self) -> bool:
        return sum(self) > 0


class Words:
    """A producer of its own thread. Every record that it has sent is acknowledged, or `finish` says which were not."""

    def __init__(self, bootstrap: str, per_second: int, seed: int) -> None:
        self.sent: Counter[str] = Counter()
        self.failed = 0
        self._random = random.Random(seed)
        self._per_second = per_second
        self._stopping = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}
        )
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> int:
        """Return how many words are acknowledged."""
        self._stopping.set()
        self._thread.join()
        self._producer.flush(130)
        return sum(self.sent.values())

    def _run(self) -> None:
        began, made = time.monotonic(), 0
        while not self._stopping.is_set():
            due = int((time.monotonic() - began) * self._per_second)
            while made < due and len(self._producer) < _UNANSWERED_MAX:
                word = self._random.choice(WORDS)
                self._producer.produce(INPUT, word.encode(), str(made).encode(), on_delivery=self._delivered)
                made += 1
            self._producer.poll(0.01)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            value = message.value()
            assert value is not None
            self.sent[value.decode()] += 1
        else:
            self.failed += 1


def read_counts(bootstrap: str, expected: int, say: Callable[[str], None]) -> list[tuple[str, int]]:
    """Return (word, count) of every record of the output, partition by partition in the order of offsets.

    It ends when there are `expected` and nothing comes for some seconds, or after five minutes.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-counts",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    try:
        partitions = consumer.list_topics(OUTPUT, 30).topics[OUTPUT].partitions
        consumer.assign([TopicPartition(OUTPUT, partition, OFFSET_BEGINNING) for partition in partitions])
        counts: list[tuple[str, int]] = []
        began = last_at = said_at = time.monotonic()
        while time.monotonic() < (began + _READ_SECONDS_MAX if len(counts) < expected else last_at + _QUIET_SECONDS):
            if time.monotonic() - said_at > _SAY_SECONDS:
                said_at = time.monotonic()
                say(f"{len(counts)} of {expected} counts")
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is not None:
                    if error.retriable() or not error.fatal():
                        continue
                    raise KafkaException(error)
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                counts.append((key.decode(), int(value)))
                last_at = time.monotonic()
        return counts
    finally:
        consumer.close()


def check(sent: Counter[str], counts: Iterable[tuple[str, int]]) -> Wrong:
    """`counts` holds those of one word in the order of their offsets: a word is always in the same partition."""
    last: Counter[str] = Counter()
    doubled = out_of_order = too_many = 0
    for word, count in counts:
        if count > sent[word]:
            too_many += 1
        if count == last[word] + 1:
            last[word] = count
        elif count <= last[word]:
            doubled += 1
        else:
            out_of_order += 1
            last[word] = count
    missing = sum(max(0, times - last[word]) for word, times in sent.items())
    return Wrong(missing, doubled, out_of_order, too_many)
