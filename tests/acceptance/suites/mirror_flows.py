"""The two clusters that are mirrored into each other: the topic of each, its mirror in the other, and their readers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from tests.acceptance.suite import Broker
from tests.acceptance.suites.connect_results import PARTITIONS, offsets_after
from tests.acceptance.suites.mirror_maker import GROUPS, HERE, OTHER, TOPIC, MirrorMaker, replicas_in
from tests.acceptance.suites.mirror_results import Mirrored, headers_of, key_of, parse
from tests.acceptance.suites.readers import Reader
from tests.acceptance.suites.steps import StepError

SETTINGS: Final = {"retention.ms": "172800000", "max.message.bytes": "2097152"}
SECONDS_MAX: Final = 240.0
_REQUEST_SECONDS_MAX: Final = 60.0
_TRANSACTION_TIMEOUT_MS: Final = 600_000
_POLL_SECONDS: Final = 0.5
_ABORTS_EVERY: Final = 5
"""A transaction in so many is aborted, and then written once more."""


@dataclass(slots=True)
class Side:
    """One of the clusters."""

    alias: str
    broker: Broker
    admin: AdminClient

    def topics(self) -> dict[str, int]:
        """Return how many partitions each topic has. Raises KafkaException."""
        found = self.admin.list_topics(timeout=_REQUEST_SECONDS_MAX).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def settings_of(self, topic: str) -> dict[str, str | None]:
        """Raises KafkaException."""
        (future,) = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in future.result(timeout=_REQUEST_SECONDS_MAX).items()}

    def offsets_of(self, group: str, topic: str) -> dict[int, int]:
        """Return what the group has committed of the topic, by partition. Raises KafkaException."""
        (future,) = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        committed = future.result(timeout=_REQUEST_SECONDS_MAX).topic_partitions
        return {each.partition: each.offset for each in committed if each.topic == topic and each.offset >= 0}


@dataclass(slots=True)
class Flow:
    """From the topic of one cluster to its mirror in the other."""

    source: Side
    target: Side
    producer: Producer
    committed: Reader[Mirrored]
    everything: Reader[Mirrored]
    written: int = 0
    """How many numbers are committed in the source: those from 0 up to this one."""
    transactions: int = 0
    broken: str = ""
    """Why the producer is used no more: a transaction of it could not be ended."""

    @property
    def name(self) -> str:
        return f"{self.source.alias} to {self.target.alias}"

    @property
    def mirror(self) -> str:
        """The name of the topic in the target."""
        return f"{self.source.alias}.{TOPIC}"

    @property
    def group(self) -> str:
        return f"{GROUPS}{self.source.alias}"

    def write(self, count: int) -> None:
        """Commit the next numbers in a transaction, sometimes after one of the same that is aborted.

        Raises KafkaException and StepError.
        """
        if self.broken:
            raise StepError(f"the writer of {self.source.alias} has failed before: {self.broken}")
        self.transactions += 1
        try:
            if self.transactions % _ABORTS_EVERY == 0:
                self._produce(count)
                _end(self.producer.abort_transaction)
            self._produce(count)
            _end(self.producer.commit_transaction)
        except KafkaException as error:
            self.broken = repr(error)
            raise
        self.written += count

    def _produce(self, count: int) -> None:
        self.producer.begin_transaction()
        timestamp = int(time.time() * 1000) - 60_000
        for number in range(self.written, self.written + count):
            self.producer.produce(
                TOPIC,
                str(number).encode(),
                key_of(number),
                number % PARTITIONS,
                timestamp=timestamp,
                headers=headers_of(number, timestamp),
            )
        self.producer.flush(_REQUEST_SECONDS_MAX)

    def read(self) -> None:
        """Read what has arrived in the target. Raises KafkaException."""
        self.everything.read()
        self.committed.read()

    @property
    def has_open_transaction(self) -> bool:
        """Whether more can be seen in the target than is committed."""
        return bool(self.everything.numbers - self.committed.numbers)

    @property
    def is_all_mirrored(self) -> bool:
        return len(self.committed.results) >= self.written

    @property
    def mirror_ends(self) -> dict[int, int]:
        """Return the offset after the last record of each partition in the target, not counting markers."""
        return offsets_after(self.committed.results)

    @property
    def translated(self) -> dict[int, int]:
        """What the group has committed in the target. Raises KafkaException."""
        return self.target.offsets_of(self.group, self.mirror)

    def have_group_read(self, end: int) -> None:
        """Have the group read the source, from where it was, and commit that it has read all numbers before this one.

        Raises KafkaException and TimeoutError.
        """
        last = {number % PARTITIONS: number for number in range(end - PARTITIONS, end)}
        ends: dict[int, int] = {}
        with closing(_member(self.source, self.group, TOPIC)) as consumer:
            deadline = time.monotonic() + SECONDS_MAX
            while len(ends) < len(last):
                record = _poll(consumer, deadline)
                if record.number == last[record.partition]:
                    ends[record.partition] = record.offset + 1
            offsets = [TopicPartition(TOPIC, partition, offset) for partition, offset in ends.items()]
            consumer.commit(offsets=offsets, asynchronous=False)

    def have_group_go_on(self, count: int) -> list[int]:
        """Have the group read so many records of the mirror, where it goes on; return their numbers.

        Raises KafkaException and TimeoutError.
        """
        with closing(_member(self.target, self.group, self.mirror)) as consumer:
            deadline = time.monotonic() + SECONDS_MAX
            return [_poll(consumer, deadline).number for _ in range(count)]


def _end(call: Callable[[float], None]) -> None:
    """Commit or abort, also if that has to be asked for again. Raises KafkaException."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return call(_REQUEST_SECONDS_MAX)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def _member(side: Side, group: str, topic: str) -> Consumer:
    """Return a member of the group, which begins with the first record only in the cluster that it knows."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest" if topic == TOPIC else "error",
            "log_level": "0",
        }
    )
    consumer.subscribe([topic])
    return consumer


def _poll(consumer: Consumer, deadline: float) -> Mirrored:
    """Return the next record. Raises KafkaException and TimeoutError."""
    while time.monotonic() < deadline:
        message = consumer.poll(_POLL_SECONDS)
        if message is None:
            continue
        error = message.error()
        if error is None:
            return parse(message)
        if not error.retriable():
            raise KafkaException(error)
    raise TimeoutError(f"a group read no further for {SECONDS_MAX:.0f} s")


@dataclass(slots=True)
class Mirroring:
    maker: MirrorMaker
    flows: tuple[Flow, Flow]

    def read(self) -> None:
        """Read what has arrived, and start MirrorMaker again if it has ended. Raises KafkaException."""
        for flow in self.flows:
            flow.read()
        self.maker.restart_if_ended()

    def reads_until(self, is_so: Callable[[], bool], seconds_max: float) -> bool:
        """Read on until it is so; return whether it is. Raises KafkaException."""
        deadline = time.monotonic() + seconds_max
        while not is_so():
            if time.monotonic() > deadline:
                return False
            self.read()
        return True

    def wait_for(self, what: str, is_so: Callable[[], bool], seconds_max: float = SECONDS_MAX) -> None:
        """Read on until it is so. Raises KafkaException and TimeoutError."""
        if not self.reads_until(is_so, seconds_max):
            counts = [f"{each.name} {len(each.committed.results)} of {each.written}" for each in self.flows]
            raise TimeoutError(f"not within {seconds_max:.0f} s: {what}; mirrored {', '.join(counts)}")

    def await_all_mirrored(self) -> None:
        """Raises TimeoutError."""
        self.wait_for("all records are mirrored", lambda: all(each.is_all_mirrored for each in self.flows))


@contextmanager
def started(directory: Path, here: Broker, other: Broker, logs: Path) -> Iterator[Mirroring]:
    """Create the topics and start MirrorMaker; its mirrors of them are there. Raises KafkaException, TimeoutError."""
    sides = [
        Side(alias, broker, AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "0"}))
        for alias, broker in ((HERE, here), (OTHER, other))
    ]
    for side in sides:
        topic = NewTopic(TOPIC, PARTITIONS, replicas_in(side.broker), config=SETTINGS)
        (future,) = side.admin.create_topics([topic]).values()
        future.result(timeout=_REQUEST_SECONDS_MAX)
    with ExitStack() as stack:
        maker = MirrorMaker(directory, here, other, logs)
        stack.callback(maker.kill)
        flows = [_flow(source, target, stack) for source, target in (sides, reversed(sides))]
        yield Mirroring(maker, (flows[0], flows[1]))


def _flow(source: Side, target: Side, stack: ExitStack) -> Flow:
    mirror = f"{source.alias}.{TOPIC}"
    _await_topic(target, mirror)
    producer = Producer(
        {
            "bootstrap.servers": source.broker.bootstrap,
            "transactional.id": f"writer-of-{source.alias}",
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            "log_level": "0",
        }
    )
    producer.init_transactions(_REQUEST_SECONDS_MAX)
    committed, everything = (
        stack.enter_context(closing(Reader(target.broker.bootstrap, mirror, PARTITIONS, isolation, parse)))
        for isolation in ("read_committed", "read_uncommitted")
    )
    return Flow(source, target, producer, committed, everything)


def _await_topic(side: Side, topic: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while topic not in side.topics():
        if time.monotonic() > deadline:
            raise StepError(f"{side.alias} has no topic {topic} after {SECONDS_MAX:.0f} s")
        time.sleep(0.5)
