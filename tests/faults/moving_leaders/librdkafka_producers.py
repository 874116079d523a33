"""`python -m tests.faults.moving_leaders.librdkafka_producers`: what MovingProducers.java is, of librdkafka.

The same arguments, the same report, the same lines on standard output: see deliveries.py.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.faults.moving_leaders.deliveries import NO_OFFSET, Sender, value_of

DELIVERY_SECONDS_MAX = 120
"""As the Java client's delivery.timeout.ms; librdkafka's own default is 300 s."""
SAY_SECONDS = 0.5
_NAP_SECONDS = 0.002
_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 1,
    "batch.size": 1000,
    "message.timeout.ms": DELIVERY_SECONDS_MAX * 1000,
    "broker.address.family": "v4",
    # Says which producer epoch begins, and why.
    "debug": "eos",
}


class OneProducer:
    """One client; all of them are driven by one thread."""

    def __init__(self, number: int, bootstrap: str, topic: str, partitions: int, unanswered_max: int, to: Path) -> None:
        self._number = number
        self._topic = topic
        self._sent = [0] * partitions
        self._unanswered = [0] * partitions
        self._unanswered_max = unanswered_max
        self._report = (to / f"producer-{number}.txt").open("w")
        self._client = Producer({**_SETTINGS, "bootstrap.servers": bootstrap, "client.id": f"producer-{number}"})
        self._is_fatal = False
        self.acknowledged = 0
        self.failed = 0

    def send_to_each(self) -> bool:
        """Whether any partition took one."""
        any_sent = False
        for partition, unanswered in enumerate(self._unanswered):
            if unanswered < self._unanswered_max and not self._is_fatal:
                self._send(partition)
                any_sent = True
        self._client.poll(0)
        return any_sent

    def finish(self) -> None:
        """Deliver what is queued, or fail it in time, and close the report."""
        self._client.flush(DELIVERY_SECONDS_MAX + 10)
        for partition, sent in enumerate(self._sent):
            self._report.write(f"sent {partition} {sent}\n")
        self._report.close()

    def _send(self, partition: int) -> None:
        sequence = self._sent[partition]
        self._sent[partition] += 1
        self._unanswered[partition] += 1

        def answered(error: KafkaError | None, message: Message | None) -> None:
            self._answered(partition, sequence, error, message)

        value = value_of(Sender(self._number, partition), sequence)
        try:
            self._client.produce(self._topic, value, None, partition, on_delivery=answered)
        except KafkaException as refused:
            # A fatal error: this client takes no more records.
            self._is_fatal = True
            answered(refused.args[0], None)

    def _answered(self, partition: int, sequence: int, error: KafkaError | None, message: Message | None) -> None:
        self._unanswered[partition] -= 1
        now_ms = time.time_ns() // 1_000_000
        if error is None:
            assert message is not None
            self.acknowledged += 1
            offset = message.offset()
            known = NO_OFFSET if offset is None else max(NO_OFFSET, offset)
            self._report.write(f"{now_ms} {partition} {sequence} {known}\n")
        else:
            self.failed += 1
            self._report.write(f"{now_ms} {partition} {sequence} - {error.name()}\n")


def main(arguments: list[str]) -> None:
    bootstrap, topic, partitions, producers, unanswered_max, directory = arguments
    print(f"version {confluent_kafka.libversion()[0]}", flush=True)
    all_of_them = [
        OneProducer(number, bootstrap, topic, int(partitions), int(unanswered_max), Path(directory))
        for number in range(int(producers))
    ]
    stopping = threading.Event()

    def wait_for_end_of_input() -> None:
        sys.stdin.buffer.read()
        stopping.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    say_at = time.monotonic()
    while not stopping.is_set():
        if sum(producer.send_to_each() for producer in all_of_them) == 0:
            time.sleep(_NAP_SECONDS)
        if time.monotonic() >= say_at:
            say_at += SAY_SECONDS
            _say(all_of_them)
    threads = [threading.Thread(target=producer.finish) for producer in all_of_them]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(SAY_SECONDS)
            _say(all_of_them)


def _say(producers: list[OneProducer]) -> None:
    acknowledged = sum(producer.acknowledged for producer in producers)
    print(acknowledged, sum(producer.failed for producer in producers), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
