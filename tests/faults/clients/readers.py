"""Readers of librdkafka with assigned partitions, who write down what they are given."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from tests.faults.clients.plan import Plan
from tests.faults.history import READER, Read, Recorder, Type

POLL_SECONDS = 0.2
RECORDS_MAX = 500
ASK_SECONDS_MAX = 5.0
ASK_EVERY_SECONDS = 2.0
SEEK_EVERY_SECONDS = 6.0
SEEK_BACK_RECORDS_MAX = 1000

_SETTINGS: dict[str, Any] = {
    "group.id": "assigned",
    "enable.auto.commit": False,
    # A position that is out of range must be seen, and not be mended behind our back.
    "auto.offset.reset": "error",
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 3000,
    "socket.timeout.ms": 10_000,
    "broker.address.family": "v4",
    "fetch.wait.max.ms": 250,
    "log_level": 0,
}


class RecordingConsumer:
    """One life of a consumer. Positions are set by `assign` alone, and every one is written down."""

    def __init__(
        self, proc: str, bootstrap_servers: Sequence[str], topic: str, recorder: Recorder, fetch_bytes_min: int = 1
    ) -> None:
        self.proc = proc
        self._topic = topic
        self._recorder = recorder
        servers = {"bootstrap.servers": ",".join(bootstrap_servers), "fetch.min.bytes": fetch_bytes_min}
        self._consumer = Consumer({**_SETTINGS, **servers})
        self.due_offsets: dict[int, int] = {}
        """By partition: the position."""
        recorder.open(proc, READER)

    def assign(self, offsets: dict[int, int]) -> None:
        """Go on at these offsets, and with no other partitions."""
        self._consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()])
        for partition, offset in offsets.items():
            self._recorder.record(self.proc, Type.OK, "assign", partition=partition, offset=offset)
        self.due_offsets = dict(offsets)

    def poll(self) -> None:
        """Take what there is."""
        runs: dict[tuple[int, int | None], list[Read]] = {}
        must_assign = False
        for message in self._consumer.consume(RECORDS_MAX, POLL_SECONDS):
            error = message.error()
            if error is None:
                _add(runs, message)
                continue
            self._recorder.record(self.proc, Type.INFO, "poll", partition=message.partition(), error=error.name())
            must_assign = must_assign or error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")
        for (partition, epoch), reads in runs.items():
            self._recorder.record(self.proc, Type.OK, "poll", value=reads, partition=partition, epoch=epoch)
            self.due_offsets[partition] = reads[-1][0] + 1
        if must_assign:
            self.assign(self.due_offsets)

    def end_of(self, partition: int) -> int | None:
        """What the leader says now; None when it does not answer in time."""
        self._recorder.record(self.proc, Type.INVOKE, "list_offsets", partition=partition)
        try:
            asked = TopicPartition(self._topic, partition, OFFSET_END)
            (answer,) = self._consumer.offsets_for_times([asked], ASK_SECONDS_MAX)
            if answer.error is not None:
                raise KafkaException(answer.error)
        except KafkaException as unanswered:
            name = unanswered.args[0].name()
            self._recorder.record(self.proc, Type.INFO, "list_offsets", partition=partition, error=name)
            return None
        offset, epoch = answer.offset, answer.leader_epoch
        self._recorder.record(self.proc, Type.OK, "list_offsets", partition=partition, offset=offset, epoch=epoch)
        return offset

    def close(self) -> None:
        self._consumer.close()


def _add(runs: dict[tuple[int, int | None], list[Read]], message: Message) -> None:
    """In the order received, per partition and leader epoch: an epoch that comes back would be merged with the first,
    and then its offsets go backwards, which is what the checker looks for."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    text = "" if value is None else value.decode(errors="backslashreplace")
    runs.setdefault((partition, message.leader_epoch()), []).append((offset, text))


class Reader:
    """Reads along while the others write, in a thread of its own; asks for ends, and goes back now and then."""

    def __init__(self, number: int, plan: Plan, seed: int) -> None:
        self._number = number
        self._plan = plan
        self._random = random.Random(seed)
        self._recorder = Recorder(Path(plan.directory) / f"reader-{number}.jsonl", seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{number}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin to; `join` waits for it."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        # The first waits in purgatory for each record, the others for a few or for the long poll's end.
        fetch_bytes_min = 1 if self._number == 0 else 8192
        with self._recorder:
            consumer = RecordingConsumer(
                f"reader-{self._number}/1",
                self._plan.bootstrap_servers,
                self._plan.topic,
                self._recorder,
                fetch_bytes_min,
            )
            self._read(consumer)
            consumer.close()

    def _read(self, consumer: RecordingConsumer) -> None:
        partitions = range(self._plan.partitions)
        starts_at_tail = self._number > 0
        consumer.assign({each: (consumer.end_of(each) or 0) if starts_at_tail else 0 for each in partitions})
        ask_at = time.monotonic() + self._some_of(ASK_EVERY_SECONDS)
        seek_at = time.monotonic() + self._some_of(SEEK_EVERY_SECONDS)
        while not self._stopping.is_set():
            consumer.poll()
            if time.monotonic() >= ask_at:
                consumer.end_of(self._random.choice(partitions))
                ask_at = time.monotonic() + self._some_of(ASK_EVERY_SECONDS)
            if time.monotonic() >= seek_at:
                consumer.assign(self._other_offsets(consumer))
                seek_at = time.monotonic() + self._some_of(SEEK_EVERY_SECONDS)

    def _some_of(self, seconds: float) -> float:
        return seconds * self._random.uniform(0.5, 1.5)

    def _other_offsets(self, consumer: RecordingConsumer) -> dict[int, int]:
        """One partition from somewhere behind, or from its end; the others where they are."""
        partition = self._random.randrange(self._plan.partitions)
        due = consumer.due_offsets[partition]
        if self._random.random() < 0.3:
            offset = consumer.end_of(partition)
        else:
            offset = max(0, due - self._random.randint(1, SEEK_BACK_RECORDS_MAX))
        return {**consumer.due_offsets, partition: due if offset is None else offset}


def recording_readers(plan: Plan) -> list[Reader]:
    return [Reader(number, plan, plan.seed * 1000 + 500 + number) for number in range(plan.mix.readers)]
