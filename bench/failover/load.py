"""Writes to many partitions, steadily, by one producer; and when each was acknowledged.

Every partition has one record in flight at a time, and the next one follows a pause after its acknowledgement: so a
record always waits at a partition that is unavailable, and the slowest record shows what its writer sees.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

CREATE_SECONDS_MAX = 600.0
_POLL_SECONDS = 0.005
_WATCH_SECONDS = 0.25
"""Between two looks at all partitions, during which the producer waits; the times that it notes do not depend on it."""

Partition = tuple[str, int]


def create_topics(bootstrap: str, names: Sequence[str], partitions: int, replication_factor: int) -> None:
    """Returns when all have been answered. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, partitions, replication_factor, config={"min.insync.replicas": "2"}) for name in names]
    answers = admin.create_topics(topics, operation_timeout=CREATE_SECONDS_MAX, request_timeout=CREATE_SECONDS_MAX + 10)
    for answer in answers.values():
        answer.result()


def new_producer(bootstrap: str) -> Producer:
    """Idempotent and acks=all; everything else is librdkafka's default, except that nothing is given up."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 1,
            "message.timeout.ms": 300_000,
            "reconnect.backoff.max.ms": 1000,
            "queue.buffering.max.messages": 100_000,
            "log_level": 2,
        }
    )


class Writers:
    """Use it as a context manager; it writes in a thread of its own."""

    def __init__(self, bootstrap: str, partitions: Sequence[Partition], pause_seconds: float) -> None:
        self.partitions = list(partitions)
        self._pause_seconds = pause_seconds
        # Of every record that was acknowledged: when it was sent, and when that came.
        self.acknowledged: dict[Partition, list[tuple[float, float]]] = {each: [] for each in partitions}
        self.errors: list[KafkaError] = []
        self._due: list[tuple[float, Partition]] = []
        self._stopped = threading.Event()
        self._is_pause_over = threading.Event()
        self._producer = new_producer(bootstrap)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writers:
        started = time.monotonic()
        count = len(self.partitions)
        # Evenly over a pause, once all have been written to.
        self._due = [
            (started + min(self._pause_seconds, 1.0) * n / count, each) for n, each in enumerate(self.partitions)
        ]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def wait_for_all(self, since: float, seconds_max: float) -> None:
        """Until every partition has acknowledged a record that was sent after that moment (monotonic)."""
        deadline = time.monotonic() + seconds_max
        waiting = list(self.partitions)
        while waiting:
            waiting = [each for each in waiting if self.resumed(each, since) is None]
            assert time.monotonic() < deadline, f"{len(waiting)} partitions take no writes, {waiting[0]} first"
            time.sleep(_WATCH_SECONDS)

    def resumed(self, partition: Partition, since: float) -> float | None:
        """When the first record sent after that moment was acknowledged."""
        first = None
        for sent, acknowledged in reversed(self.acknowledged[partition]):
            if sent < since:
                break
            first = acknowledged
        return first

    def slowest_write(self, since: float) -> float:
        """The longest time that a record took, of those that were on their way then or sent later."""
        return max(
            acknowledged - sent
            for records in self.acknowledged.values()
            for sent, acknowledged in records
            if acknowledged >= since
        )

    def write_now(self) -> None:
        """Let no partition wait for its pause to end."""
        self._is_pause_over.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            now = time.monotonic()
            if self._is_pause_over.is_set():
                self._is_pause_over.clear()
                self._due = [(now, partition) for _, partition in self._due]
            while self._due and self._due[0][0] <= now:
                _, partition = heapq.heappop(self._due)
                self._send(partition)
            self._producer.poll(_POLL_SECONDS)
        self._producer.flush(30)

    def _send(self, partition: Partition) -> None:
        sent = time.monotonic()

        def delivered(error: KafkaError | None, _: Message) -> None:
            now = time.monotonic()
            if error is not None:
                self.errors.append(error)
            else:
                self.acknowledged[partition].append((sent, now))
            heapq.heappush(self._due, (now + self._pause_seconds, partition))

        self._producer.produce(partition[0], b"%.6f" % sent, partition=partition[1], on_delivery=delivered)
