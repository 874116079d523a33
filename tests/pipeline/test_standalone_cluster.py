"""A job submitted to a Spark cluster of real processes: executors, their Python workers and the driver are killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster
from tests.pipeline.job_process import JobProcess, rows_of
from tests.pipeline.spark_world import Topics
from tests.pipeline.standalone_spark import ENVIRONMENT, StandaloneSpark

pytestmark = [
    needs_etcd,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of executors in /proc"),
]
RECORDS = 4_000
PARTITIONS = 2
BATCH_RECORDS = 1_000
KILLS = 2


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield Topics(running.bootstrap)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with StandaloneSpark(tmp_path_factory.mktemp("spark")) as standalone:
        yield standalone


def fill(topics: Topics, topic: str) -> None:
    """Small record batches, and small fetches of them: a task takes its time, and there is a middle of it."""
    topics.create(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        topics.fill(
            topic,
            [b"%d/%d" % (partition, offset) for offset in range(RECORDS // PARTITIONS)],
            partition=partition,
            batch_records=5,
        )


def submitted(spark: StandaloneSpark, topics: Topics, tmp_path: Path, topic: str, into: str) -> JobProcess:
    return JobProcess(
        tmp_path / "job",
        "tables",
        *("--bootstrap-servers", topics.bootstrap, "--topics", topic, "--into", into, "--to", str(tmp_path / "lake")),
        *("--until", "now", "--option", f"maxOffsetsPerTrigger={BATCH_RECORDS}"),
        *("--option", "kafka.max.partition.fetch.bytes=4096"),
        command=spark.submit(),
        environment=ENVIRONMENT,
    )


def every_record_is_there_once(tmp_path: Path, topic: str, into: str) -> None:
    rows = rows_of(into, tmp_path / "lake", topic).to_pydict()
    found = sorted(zip(rows["partition"], rows["offset"], rows["value"], strict=True))
    assert found == [
        (partition, offset, b"%d/%d" % (partition, offset))
        for partition in range(PARTITIONS)
        for offset in range(RECORDS // PARTITIONS)
    ]


def kill_one(job: JobProcess, find: Callable[[], list[int]]) -> None:
    job.until(find)
    for pid in find()[:1]:
        os.kill(pid, signal.SIGKILL)


def count(tmp_path: Path, pattern: str) -> int:
    return len(list((tmp_path / "lake").glob(pattern)))


@pytest.mark.parametrize(
    ("into", "moment"),
    [("parquet", "*/data/*.parquet"), ("iceberg", "**/metadata/*.avro")],
    ids=["in mid-batch", "in mid-commit"],
)
def test_executors_killed_alone(topics: Topics, spark: StandaloneSpark, tmp_path: Path, into: str, moment: str) -> None:
    """Each time when a file of that kind has come: rows of a batch, or the manifest of a commit."""
    topic = f"executor-{into}"
    fill(topics, topic)
    killed: set[int] = set()
    with submitted(spark, topics, tmp_path, topic, into) as job:
        while len(killed) < KILLS:
            job.until(lambda: killed.isdisjoint(found := spark.executors()) and found)
            files = count(tmp_path, moment)
            job.until(lambda files=files: count(tmp_path, moment) > files)
            for pid in spark.executors():
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        assert job.end() == 0
    assert len(killed) == KILLS
    every_record_is_there_once(tmp_path, topic, into)


def test_python_workers_and_the_driver_killed(topics: Topics, spark: StandaloneSpark, tmp_path: Path) -> None:
    fill(topics, "workers")
    with submitted(spark, topics, tmp_path, "workers", "delta") as job:
        for batches in range(KILLS):
            job.until(lambda batches=batches: job.batches > batches)
            kill_one(job, spark.python_workers)
        job.kill()
    with submitted(spark, topics, tmp_path, "workers", "delta") as job:
        assert job.end() == 0
    every_record_is_there_once(tmp_path, "workers", "delta")
