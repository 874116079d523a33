"""The feeder of the input, and consumers that read committed records while the others write and when all is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.faults.history import Read, Type
from tests.faults.transactions.history import ALL, IN, OUT, EventRecorder
from tests.faults.transactions.plan import Plan

UNANSWERED_MAX: Final = 500
FLUSH_SECONDS_MAX: Final = 60.0
END_SECONDS_MAX: Final = 60.0
"""How long the last stable offset may take to reach the high watermark, once everything runs: longer than the timeout
of a transaction."""
READ_SECONDS_MAX: Final = 60.0


class Feeder:
    """An idempotent producer of the input, in a thread of its own."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and return when all that was sent is answered, a minute at most."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        settings = {**self._plan.clients, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}
        producer = Producer(settings)
        with EventRecorder(Path(self._plan.directory), "feeder") as recorder:

            def delivered(error: KafkaError | None, message: Message) -> None:
                if error is None:
                    recorder.record(Type.OK, "fed", value=(message.value() or b"").decode())

            began, made = time.monotonic(), 0
            while not self._stopping.is_set():
                due = int((time.monotonic() - began) * self._plan.records_per_second)
                while made < due and len(producer) < UNANSWERED_MAX:
                    partition = made % self._plan.partitions
                    producer.produce(self._plan.topic_of(IN), f"{made}", partition=partition, on_delivery=delivered)
                    made += 1
                producer.poll(0.02)
            producer.flush(FLUSH_SECONDS_MAX)


def _consumer(plan: Plan, servers: Sequence[str], isolation_level: str) -> Consumer:
    return Consumer(
        {
            **plan.clients,
            "bootstrap.servers": ",".join(servers),
            "group.id": "reads",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 250,
        }
    )


class LiveReader:
    """Reads committed records of the output and of what is written to all partitions, again from the beginning now and
    then."""

    AGAIN_SECONDS = 7.0

    def __init__(self, name: str, plan: Plan) -> None:
        self._name = name
        self._plan = plan
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin to; `join` waits for it."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        places = [(which, each) for which in (OUT, ALL) for each in range(self._plan.partitions)]
        with EventRecorder(Path(self._plan.directory), self._name) as recorder:
            consumer = _consumer(self._plan, self._plan.bootstrap_servers, "read_committed")
            while not self._stopping.is_set():
                consumer.assign([TopicPartition(self._plan.topic_of(which), each, 0) for which, each in places])
                until = time.monotonic() + self.AGAIN_SECONDS
                while not self._stopping.is_set() and time.monotonic() < until:
                    _record_reads(consumer, recorder, self._plan)
            consumer.close()


def _record_reads(consumer: Consumer, recorder: EventRecorder, plan: Plan) -> set[tuple[str, int]]:
    """Record what there is, and return the places whose end was reached."""
    runs: dict[tuple[str, int], list[Read]] = {}
    ended = set()
    for message in consumer.consume(500, 0.2):
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if topic is None or partition is None or offset is None:
            continue
        place = (topic.removeprefix(f"{plan.topic}-"), partition)
        if error is None:
            runs.setdefault(place, []).append((offset, (message.value() or b"").decode(errors="backslashreplace")))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(place)
    for (which, partition), reads in runs.items():
        recorder.record(Type.OK, "read", topic=which, partition=partition, reads=reads)
    return ended


Place = tuple[str, int]
"""IN, OUT or ALL, and a partition."""


def read_everything(plan: Plan) -> None:
    """Read all topics from their beginning to their end through each server, when nothing is written any more."""
    for number, server in enumerate(plan.bootstrap_servers):
        with EventRecorder(Path(plan.directory), f"final-{number}") as recorder:
            stable = _stable(plan, server, recorder)
            consumer = _consumer(plan, [server], "read_committed")
            consumer.assign([TopicPartition(plan.topic_of(which), each, 0) for which, each in stable])
            left = set(stable)
            deadline = time.monotonic() + READ_SECONDS_MAX
            while left and time.monotonic() < deadline:
                left -= _record_reads(consumer, recorder, plan)
            consumer.close()
            for which, each in stable:
                if (which, each) in left:
                    recorder.record(Type.INFO, "final", topic=which, partition=each, error="the end was not reached")
                else:
                    recorder.record(Type.OK, "final", topic=which, partition=each)


def _stable(plan: Plan, server: str, recorder: EventRecorder) -> list[Place]:
    """Wait until no transaction is open; return the partitions without one, and record the others as hanging."""
    places = [(which, each) for which in (IN, OUT, ALL) for each in range(plan.partitions)]
    deadline = time.monotonic() + END_SECONDS_MAX
    while True:
        stable_ends, ends = (_ends(plan, server, places, level) for level in ("read_committed", "read_uncommitted"))
        open_places = [place for place in places if stable_ends.get(place, -1) != ends.get(place, -2)]
        if not open_places:
            return places
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    for which, each in open_places:
        stable_end, end = stable_ends.get((which, each)), ends.get((which, each))
        if stable_end is None or end is None:
            recorder.record(Type.INFO, "final", topic=which, partition=each, error="no answer about its end")
        else:
            text = f"the last stable offset is {stable_end}, the high watermark {end}"
            recorder.record(Type.INFO, "hanging", topic=which, partition=each, error=text)
    return [place for place in places if place not in open_places]


def _ends(plan: Plan, server: str, places: Sequence[Place], isolation_level: str) -> dict[Place, int]:
    """Return the ends of these partitions by their leaders; those that don't answer in time are missing."""
    consumer = _consumer(plan, [server], isolation_level)
    wanted = [TopicPartition(plan.topic_of(which), each, OFFSET_END) for which, each in places]
    try:
        answers = consumer.offsets_for_times(wanted, 5.0)
    except KafkaException:
        return {}
    finally:
        consumer.close()
    return {
        place: int(answer.offset)
        for place, answer in zip(places, answers, strict=True)
        if answer.error is None and answer.offset >= 0
    }


def all_is_copied(plan: Plan) -> bool:
    """Whether the copiers have committed the end of the input."""
    consumer = Consumer({**plan.clients, "group.id": f"{plan.topic}-copiers", "isolation.level": "read_committed"})
    partitions = [TopicPartition(plan.topic_of(IN), each) for each in range(plan.partitions)]
    try:
        committed = {each.partition: each.offset for each in consumer.committed(partitions, 5.0)}
        ends = _ends(plan, ",".join(plan.bootstrap_servers), [(IN, each) for each in committed], "read_committed")
    except KafkaException:
        return False
    finally:
        consumer.close()
    return all(committed[each] >= ends.get((IN, each), committed[each] + 1) for each in committed)
