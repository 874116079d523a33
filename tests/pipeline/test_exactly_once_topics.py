"""A query from a topic into a topic: each row once for a read_committed consumer, whichever process of Spark dies."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster
from tests.pipeline import topic_job
from tests.pipeline.job_process import SECONDS_MAX, JobProcess
from tests.pipeline.spark_world import Topics
from tests.pipeline.standalone_spark import ENVIRONMENT, StandaloneSpark, submit_to

pytestmark = [
    needs_etcd,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of executors in /proc"),
]
RECORDS = 6_000
SOURCE_PARTITIONS, TARGET_PARTITIONS = 4, 3
BATCH_RECORDS = 400
KILLS = 2


class Target:
    """The topic that is written to, as consumers see it."""

    def __init__(self, topics: Topics, name: str) -> None:
        topics.create(name, TARGET_PARTITIONS)
        self._bootstrap, self.name = topics.bootstrap, name
        self._partitions = [TopicPartition(name, each, OFFSET_BEGINNING) for each in range(TARGET_PARTITIONS)]

    def values(self, isolation: str = "read_committed") -> Counter[bytes]:
        """How often each value is there now."""
        consumer = self._consumer(isolation)
        try:
            consumer.assign(self._partitions)
            found: Counter[bytes] = Counter()
            at_end: set[int] = set()
            deadline = time.monotonic() + SECONDS_MAX
            while len(at_end) < TARGET_PARTITIONS:
                assert time.monotonic() < deadline, f"only partitions {at_end} came to their end"
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error() is not None:
                    at_end.add(message.partition())
                else:
                    found[message.value()] += 1
            return found
        finally:
            consumer.close()

    def watcher(self) -> Consumer:
        consumer = self._consumer("read_committed")
        consumer.assign(self._partitions)
        return consumer

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        made = Topics(running.bootstrap)
        made.create("source", SOURCE_PARTITIONS)
        for partition in range(SOURCE_PARTITIONS):
            values = [b"%d/%d" % (partition, offset) for offset in range(RECORDS // SOURCE_PARTITIONS)]
            made.fill("source", values, partition=partition)
        yield made


def expected() -> Counter[bytes]:
    return Counter(
        b"%d/%d" % (partition, offset)
        for partition in range(SOURCE_PARTITIONS)
        for offset in range(RECORDS // SOURCE_PARTITIONS)
    )


def started(tmp_path: Path, topics: Topics, target: Target, submit: tuple[str, ...], *more: str) -> JobProcess:
    return JobProcess(
        tmp_path / "job",
        *("--bootstrap", topics.bootstrap, "--source", "source", "--target", target.name),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--records-per-batch", str(BATCH_RECORDS), *more),
        command=submit,
        environment=ENVIRONMENT,
    )


def until_a_batch_is_written_in_part(job: JobProcess, target: Target) -> None:
    """Return when some tasks of a batch have written their rows and others have not."""
    consumer = target.watcher()
    seen = 0

    def is_so() -> bool:
        nonlocal seen
        seen += sum(message.error() is None for message in consumer.consume(10_000, 0.02))
        return seen % BATCH_RECORDS != 0 and seen > BATCH_RECORDS

    try:
        job.until(is_so)
    finally:
        consumer.close()


def killed_in_the_middle(tmp_path: Path, topics: Topics, target: Target, *more: str) -> int:
    """Kill the driver, its JVM and its workers KILLS times, then let the query come to its end.

    Return how often a batch was left written in part.
    """
    submit = submit_to("local[2]", topic_job.__file__)
    left_in_part = 0
    for _ in range(KILLS):
        with started(tmp_path, topics, target, submit, *more) as job:
            until_a_batch_is_written_in_part(job, target)
            job.kill()
        left_in_part += sum(target.values().values()) % BATCH_RECORDS != 0
    with started(tmp_path, topics, target, submit, *more) as job:
        assert job.end() == 0, job.err[-3000:]
    return left_in_part


def test_drivers_killed(topics: Topics, tmp_path: Path) -> None:
    target = Target(topics, "drivers-killed")
    left_in_part = killed_in_the_middle(tmp_path, topics, target, "--transactional-id", "drivers")
    assert target.values() == expected()
    assert left_in_part, "no kill was in the middle of a batch"


def test_without_transactions_rows_are_written_twice(topics: Topics, tmp_path: Path) -> None:
    """The same kills: what the test before has shown is not luck."""
    target = Target(topics, "at-least-once")
    assert killed_in_the_middle(tmp_path, topics, target)
    found = target.values()
    assert found.keys() == expected().keys()
    assert found.total() > RECORDS


def test_executors_killed(topics: Topics, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    target = Target(topics, "executors-killed")
    killed: set[int] = set()
    with (
        StandaloneSpark(tmp_path_factory.mktemp("spark")) as spark,
        started(tmp_path, topics, target, spark.submit(topic_job.__file__), "--transactional-id", "executors") as job,
    ):
        while len(killed) < KILLS:
            job.until(lambda: killed.isdisjoint(found := spark.executors()) and found)
            batches = job.batches
            job.until(lambda batches=batches: job.batches > batches)
            until_a_batch_is_written_in_part(job, target)
            for pid in spark.executors():
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        assert job.end() == 0, job.err[-3000:]
    assert target.values() == expected()


def test_a_checkpoint_that_was_deleted_is_noticed(topics: Topics, tmp_path: Path) -> None:
    """Its batches have the ids of batches that are written: they may be neither passed over nor written again."""
    target = Target(topics, "another-checkpoint")
    submit = submit_to("local[2]", topic_job.__file__)
    with started(tmp_path, topics, target, submit, "--transactional-id", "another") as job:
        assert job.end() == 0, job.err[-3000:]
    before = target.values()
    with started(tmp_path / "new", topics, target, submit, "--transactional-id", "another") as job:
        assert job.end() != 0
        assert "kafka.transactional.id 'another' was used by another query" in job.err
    assert target.values() == before
