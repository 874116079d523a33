"""A source of numbers, its topic and a sink, which two workers of Kafka Connect run; and two readers of the topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from tests.acceptance.suite import Broker
from tests.acceptance.suites.connect_results import PARTITIONS, Delivered, parse, parse_lines
from tests.acceptance.suites.connect_workers import ASKED, OFFSETS, SECONDS_MAX, Rest, Worker
from tests.acceptance.suites.readers import Reader

SOURCE: Final = "numbers-source"
SINK: Final = "numbers-sink"
TOPIC: Final = "numbers"
TOPIC_SETTINGS: Final = {"retention.ms": "86400000", "max.message.bytes": "2097152"}
SOURCE_OFFSETS: Final = "numbers-source-offsets"
SOURCE_PARTITION: Final = {"source": "numbers"}
_WORKERS: Final = 2
_REQUEST_SECONDS_MAX: Final = 20.0


def source_settings(records: int, replicas: int, *, keeps_offsets: bool = True) -> dict[str, str]:
    """Return the source's: it creates its topic and one for its own offsets, and commits a transaction a second.

    Its offsets are in the workers' topic alone if it does not keep them.
    """
    return {
        "connector.class": "numbers.NumbersSource",
        "tasks.max": "1",
        "topic": TOPIC,
        "partitions": str(PARTITIONS),
        "records": str(records),
        "exactly.once.support": "required",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "1000",
        **({"offsets.storage.topic": SOURCE_OFFSETS} if keeps_offsets else {}),
        "topic.creation.default.partitions": str(PARTITIONS),
        "topic.creation.default.replication.factor": str(replicas),
        **{f"topic.creation.default.{name}": value for name, value in TOPIC_SETTINGS.items()},
    }


def sink_settings(file: Path) -> dict[str, str]:
    """Return the sink's. Its consumer creates no topic: a broker would create the source's, with its own settings."""
    return {
        "connector.class": "numbers.NumbersSink",
        "tasks.max": "1",
        "topics": TOPIC,
        "file": str(file),
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.allow.auto.create.topics": "false",
    }


@dataclass(slots=True, frozen=True)
class State:
    """A connector's, as the REST interface says it."""

    connector: str
    tasks: tuple[str, ...]
    ports: tuple[int, ...]
    """Of the workers that run its tasks."""
    trace: str = ""


@dataclass(slots=True)
class Pipeline:
    broker: Broker
    workers: list[Worker]
    rest: Rest
    sink_file: Path
    committed: Reader[Delivered]
    everything: Reader[Delivered]
    expected: list[int] = field(default_factory=list)
    """What the source was to write, in its order."""

    def write(self, numbers: range, *, keeps_offsets: bool = True) -> None:
        """Have the source write the numbers, of which the first is its next."""
        self.expected += numbers
        self.configure(numbers.stop, keeps_offsets=keeps_offsets)

    def configure(self, records: int, *, keeps_offsets: bool) -> None:
        settings = source_settings(records, min(self.broker.brokers, 3), keeps_offsets=keeps_offsets)
        self.rest.call("PUT", f"/connectors/{SOURCE}/config", settings)

    def read(self) -> None:
        """Read what has arrived, and start workers again that have ended. Raises KafkaException."""
        self.everything.read()
        self.committed.read()
        for worker in self.workers:
            worker.restart_if_ended()

    @property
    def is_all_committed(self) -> bool:
        return len(self.committed.results) >= len(self.expected)

    def await_all_committed(self, seconds_max: float = SECONDS_MAX) -> None:
        """Raises TimeoutError."""
        self.wait_for("all records are committed", lambda: self.is_all_committed, seconds_max)

    def wait_for(self, what: str, is_so: Callable[[], bool], seconds_max: float = SECONDS_MAX) -> None:
        """Read on until it is so. Raises TimeoutError, which has the connectors' states."""
        deadline = time.monotonic() + seconds_max
        while not is_so():
            if time.monotonic() > deadline:
                states = f"{SOURCE} {self.state(SOURCE)}, {SINK} {self.state(SINK)}"
                count = f"{len(self.committed.results)} of {len(self.expected)} records are committed"
                raise TimeoutError(f"not within {seconds_max:.0f} s: {what}; {count}; {states}")
            self.read()

    def state(self, connector: str) -> State:
        """Raises RestError."""
        found = self.rest.call("GET", f"/connectors/{connector}/status")
        tasks = found["tasks"]
        return State(
            found["connector"]["state"],
            tuple(task["state"] for task in tasks),
            tuple(int(task["worker_id"].rpartition(":")[2]) for task in tasks),
            "".join(task.get("trace", "")[:500] for task in tasks),
        )

    def await_state(self, connector: str, state: str, tasks: tuple[str, ...]) -> None:
        """Raises TimeoutError."""

        def is_so() -> bool:
            found = self.state(connector)
            return (found.connector, found.tasks) == (state, tasks)

        self.wait_for(f"{connector} is {state}, its tasks {', '.join(tasks) or 'none'}", is_so)

    def await_running(self, connector: str) -> None:
        self.await_state(connector, "RUNNING", ("RUNNING",))

    def stop(self, connector: str) -> None:
        self.rest.call("PUT", f"/connectors/{connector}/stop")
        self.await_state(connector, "STOPPED", ())

    def resume(self, connector: str) -> None:
        self.rest.call("PUT", f"/connectors/{connector}/resume")
        self.await_running(connector)

    def worker_of_source(self) -> Worker | None:
        """Return the worker that runs the source's task; None while none does."""
        state = self.state(SOURCE)
        return next((each for each in self.workers if state.tasks == ("RUNNING",) and each.port in state.ports), None)

    @property
    def has_open_transaction(self) -> bool:
        """Whether more can be seen than is committed."""
        return bool(self.everything.numbers - self.committed.numbers)

    def sunk(self) -> list[Delivered]:
        """Return what the sink has written until now."""
        return parse_lines(self.sink_file.read_text()) if self.sink_file.exists() else []


@contextmanager
def started(directory: Path, broker: Broker, logs: Path, records: int) -> Iterator[Pipeline]:
    """Start workers and connectors, and have the first numbers written.

    Raises KafkaException, RestError, TimeoutError.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "0"})
    admin.list_topics(timeout=_REQUEST_SECONDS_MAX)
    with ExitStack() as stack:
        workers = []
        for _ in range(_WORKERS):
            workers.append(Worker(directory, broker, logs))
            stack.callback(workers[-1].kill)
        rest = Rest(workers)
        for worker in workers:
            Rest([worker]).call("GET", "/")
        sink_file = logs / "sink"
        replicas = min(broker.brokers, 3)
        rest.call("PUT", f"/connectors/{SOURCE}/config", source_settings(records, replicas))
        _await_topic(admin)
        rest.call("PUT", f"/connectors/{SINK}/config", sink_settings(sink_file))
        committed, everything = (
            stack.enter_context(closing(Reader(broker.bootstrap, TOPIC, PARTITIONS, isolation, parse)))
            for isolation in ("read_committed", "read_uncommitted")
        )
        yield Pipeline(broker, workers, rest, sink_file, committed, everything, list(range(records)))


def _await_topic(admin: AdminClient) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while TOPIC not in admin.list_topics(timeout=_REQUEST_SECONDS_MAX).topics:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the source has no topic after {SECONDS_MAX:.0f} s")
        time.sleep(0.2)


@dataclass(slots=True, frozen=True)
class Topic:
    partitions: int
    replicas: frozenset[int]
    """How many a partition has: one number if all have as many."""
    settings: dict[str, str | None]


def describe_topics(broker: Broker) -> dict[str, Topic]:
    """Return all topics of Connect and of the source, by name. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "0"})
    names = [*ASKED, SOURCE_OFFSETS, TOPIC]
    metadata = admin.list_topics(timeout=_REQUEST_SECONDS_MAX).topics
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names if name in metadata]
    described = {}
    for resource, future in admin.describe_configs(resources).items():
        settings = {name: entry.value for name, entry in future.result(timeout=_REQUEST_SECONDS_MAX).items()}
        partitions = metadata[resource.name].partitions.values()
        replicas = frozenset(len(each.replicas) for each in partitions)
        described[resource.name] = Topic(len(partitions), replicas, settings)
    return described


def asked_topics(*, of_workers: bool, replicas: int) -> dict[str, Topic]:
    """Return what Connect asked for: the workers' topics, or those of the source."""
    if of_workers:
        asked = dict(ASKED)
    else:
        asked = {SOURCE_OFFSETS: ASKED[OFFSETS], TOPIC: (PARTITIONS, TOPIC_SETTINGS)}
    return {
        name: Topic(partitions, frozenset({replicas}), dict(settings)) for name, (partitions, settings) in asked.items()
    }
