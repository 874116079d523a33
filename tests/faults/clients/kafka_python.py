"""An idempotent producer and a reader of kafka-python, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from tests.faults.clients.plan import Plan
from tests.faults.history import READER, Guarantee, Recorder, Type

SENDS_PER_SECOND = 10
OUTSTANDING_MAX = 500
_POLL_SECONDS = 0.2
_RECORDS_MAX = 500


class KafkaPythonClients:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._read)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin to; `join` waits for it."""
        self._stopping.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _recorder(self, name: str) -> Recorder:
        return Recorder(Path(self._plan.directory) / f"{name}.jsonl", self._plan.seed)

    def _produce(self) -> None:
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        plan, proc = self._plan, "kafka-python-producer/1"
        reports: deque[tuple[str, int, Any]] = deque()
        """(value, partition, metadata or error), as the library's own thread tells them."""
        producer = KafkaProducer(
            bootstrap_servers=plan.bootstrap_servers,
            enable_idempotence=True,
            acks="all",
            max_block_ms=5000,
            linger_ms=5,
        )
        number, outstanding, due = 0, 0, time.monotonic()
        with self._recorder("kafka-python-producer") as recorder:
            recorder.open(proc, Guarantee.IDEMPOTENT)
            while not self._stopping.is_set():
                outstanding -= _record_reports(recorder, proc, reports)
                time.sleep(max(0.0, due - time.monotonic()))
                due += 1 / SENDS_PER_SECOND
                if outstanding >= OUTSTANDING_MAX:
                    continue
                number += 1
                value, partition = f"{plan.topic}|{proc}|{number}", number % plan.partitions
                recorder.record(proc, Type.INVOKE, "send", value=value, partition=partition)
                outstanding += 1
                try:
                    sent = producer.send(plan.topic, value.encode(), partition=partition)
                except KafkaError as error:
                    reports.append((value, partition, error))
                    continue
                sent.add_both(
                    lambda reported, value=value, partition=partition: reports.append((value, partition, reported))
                )
            try:
                producer.flush(plan.seconds_max)
            except KafkaError as error:
                recorder.record(proc, Type.INFO, "flush", error=type(error).__name__)
            producer.close(timeout=plan.seconds_max)
            _record_reports(recorder, proc, reports)

    def _read(self) -> None:
        from kafka import KafkaConsumer, TopicPartition
        from kafka.errors import KafkaError

        plan, proc = self._plan, "kafka-python-reader/1"
        consumer = KafkaConsumer(bootstrap_servers=plan.bootstrap_servers, auto_offset_reset="none")
        partitions = [TopicPartition(plan.topic, partition) for partition in range(plan.partitions)]
        consumer.assign(partitions)
        with self._recorder("kafka-python-reader") as recorder:
            recorder.open(proc, READER)
            for each in partitions:
                consumer.seek(each, 0)
                recorder.record(proc, Type.OK, "assign", partition=each.partition, offset=0)
            while not self._stopping.is_set():
                try:
                    polled = consumer.poll(timeout_ms=int(_POLL_SECONDS * 1000), max_records=_RECORDS_MAX)
                except KafkaError as error:
                    recorder.record(proc, Type.INFO, "poll", error=type(error).__name__)
                    continue
                for each, records in polled.items():
                    reads = [(record.offset, record.value.decode()) for record in records]
                    recorder.record(proc, Type.OK, "poll", value=reads, partition=each.partition)
            consumer.close()


def _record_reports(recorder: Recorder, proc: str, reports: deque[tuple[str, int, Any]]) -> int:
    """Returns how many; a report that comes while they are taken is left for the next time, or taken too."""
    count = 0
    while reports:
        value, partition, reported = reports.popleft()
        count += 1
        if isinstance(reported, BaseException):
            error = type(reported).__name__
            recorder.record(proc, Type.INFO, "send", value=value, partition=partition, error=error)
        else:
            offset = reported.offset if reported.offset >= 0 else None
            recorder.record(proc, Type.OK, "send", value=value, partition=partition, offset=offset)
    return count
