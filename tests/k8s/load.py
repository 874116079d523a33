"""Idempotent producers and a consumer group that never stop, until standard input ends; then a report as JSON.

`python -m tests.k8s.load BOOTSTRAP TOPIC`. Every record has a name of its own, so that the report can say which
acknowledged ones the log lacks or has twice, and which the group has not seen. An error counts when the client gives
up: a delivery that has failed for good, or what a consumer's poll returns. What its retries cover is reported
separately.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

PRODUCERS: Final = 3
MEMBERS: Final = 2
PAUSE_S: Final = 0.004
CATCH_UP_S: Final = 90.0


class Load:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.stopping = threading.Event()
        self.done = threading.Event()
        self.lock = threading.Lock()
        self.produced = 0
        self.acknowledged: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.errors: list[str] = []
        self.retried: Counter[str] = Counter()
        self.last_acknowledged_s = time.monotonic()
        self.longest_silence_s = 0.0
        self.longest_silence_began = 0.0
        """Seconds of the epoch."""

    def config(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "error_cb": self.on_retried, **more}

    def on_retried(self, error: KafkaError) -> None:
        """librdkafka tells of lost connections here, and goes on by itself; what is fatal ends the client."""
        with self.lock:
            self.retried[error.name()] += 1
            if error.fatal():
                self.errors.append(f"fatal: {error}")

    def produce(self, number: int) -> None:
        producer = Producer(self.config(**{"enable.idempotence": True, "acks": "all", "linger.ms": 2}))

        def delivered(error: KafkaError | None, message: Message) -> None:
            with self.lock:
                if error is not None:
                    self.errors.append(f"produce: {error}")
                    return
                now_s = time.monotonic()
                silence_s = now_s - self.last_acknowledged_s
                if silence_s > self.longest_silence_s:
                    self.longest_silence_s, self.longest_silence_began = silence_s, time.time() - silence_s
                self.last_acknowledged_s = now_s
                value = message.value()
                assert isinstance(value, bytes)
                self.acknowledged[value.decode()] += 1

        sequence = 0
        while not self.stopping.is_set():
            sequence += 1
            try:
                producer.produce(
                    self.topic, f"{number}-{sequence}".encode(), key=str(sequence % 97), on_delivery=delivered
                )
            except BufferError:
                producer.poll(0.1)
                continue
            with self.lock:
                self.produced += 1
            producer.poll(PAUSE_S)
            time.sleep(PAUSE_S)
        left = producer.flush(120)
        if left:
            self.errors.append(f"produce: {left} records without an answer after 120 s")

    def consume(self) -> None:
        config = {"group.id": f"{self.topic}-readers", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500}
        consumer = Consumer(self.config(**config))
        consumer.subscribe([self.topic])
        while not self.done.is_set():
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            with self.lock:
                if error is not None:
                    (
                        self.errors.append(f"consume: {error}")
                        if not error.retriable()
                        else self.retried.update([error.name()])
                    )
                else:
                    value = message.value()
                    assert isinstance(value, bytes)
                    self.seen[value.decode()] += 1
        consumer.close()

    def read_log(self) -> Counter[str]:
        """Every record of the topic, from its beginning to its end now."""
        consumer = Consumer(self.config(**{"group.id": "none", "enable.partition.eof": True}))
        partitions = list(
            AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(self.topic).topics[self.topic].partitions
        )
        consumer.assign([TopicPartition(self.topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found: Counter[str] = Counter()
        unfinished = set(partitions)
        deadline_s = time.monotonic() + CATCH_UP_S
        while unfinished and time.monotonic() < deadline_s:
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                value = message.value()
                assert isinstance(value, bytes)
                found[value.decode()] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
            else:
                raise KafkaException(error)
        if unfinished:
            raise TimeoutError(f"the log's end was not reached in partitions {sorted(unfinished)}")
        consumer.close()
        return found

    def run(self) -> dict[str, Any]:
        threads = [threading.Thread(target=self.produce, args=(number,)) for number in range(PRODUCERS)]
        readers = [threading.Thread(target=self.consume) for _ in range(MEMBERS)]
        for thread in (*threads, *readers):
            thread.start()
        sys.stdin.read()
        self.stopping.set()
        for thread in threads:
            thread.join()
        deadline_s = time.monotonic() + CATCH_UP_S
        while time.monotonic() < deadline_s and not self.acknowledged.keys() <= self.seen.keys():
            time.sleep(0.2)
        self.done.set()
        for thread in readers:
            thread.join()
        log = self.read_log()
        return {
            "produced": self.produced,
            "acknowledged": len(self.acknowledged),
            "lost": sorted(self.acknowledged.keys() - log.keys()),
            "duplicated": sorted(name for name, count in log.items() if count > 1),
            "unseen": sorted(self.acknowledged.keys() - self.seen.keys()),
            "redelivered": sum(count - 1 for count in self.seen.values()),
            "errors": self.errors,
            "retried": dict(self.retried),
            "longest_silence_s": round(self.longest_silence_s, 1),
            "longest_silence_began": self.longest_silence_began,
        }


if __name__ == "__main__":
    print(json.dumps(Load(*sys.argv[1:]).run()))
