"""Spark's own connector, unchanged, against the gateway; and its rows held to ours and to a plain consumer's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="no pyspark here (make pipeline-test)")

from confluent_kafka import Consumer, TopicPartition

from barnabas_pipeline.core.options import Use, read_options
from barnabas_pipeline.source.batch import BatchReader
from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import ROOT, RunningCluster
from tests.pipeline.spark_world import Topics

JVM_PYTHON = ROOT / ".venv-pipeline-jvm/bin/python"
JVM_JARS = ROOT / ".cache/spark-kafka/libs"

pytestmark = [
    needs_etcd,
    pytest.mark.skipif(not JVM_PYTHON.exists(), reason="no JVM connector here (scripts/spark-kafka gets it)"),
    pytest.mark.timeout(600),
]

Row = tuple[int, int, bytes | None, bytes | None, int, int, tuple[tuple[str, bytes | None], ...] | None]


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield Topics(running.bootstrap)


def test_three_readers_read_the_same_rows(topics: Topics, tmp_path: Path) -> None:
    topics.create("original", 2)
    topics.create("copy", 2)
    topics.fill("original", [b"%d" % each for each in range(100)], partition=0, batch_records=7, key=b"k")
    topics.fill("original", [b"", b"\xff\x00", *[b"x" * 300] * 50], partition=1, headers=[("h", b"1"), ("h", None)])
    by_jvm = run_jvm(topics.bootstrap, "original", "copy", tmp_path)
    assert by_jvm["is_done"]
    expected = consumed(topics.bootstrap, "original", 152)
    assert [jvm_row(row) for row in by_jvm["batch"]] == expected
    assert by_our_source(topics.bootstrap, "original") == expected
    # What the connector wrote is the same, but for when.
    copied = consumed(topics.bootstrap, "copy", 152)
    assert [without_time(row) for row in copied] == [without_time(row) for row in expected]


def run_jvm(bootstrap: str, topic: str, copy_topic: str, directory: Path) -> Any:
    script = ROOT / "tests/pipeline/jvm_script.py"
    jars = ",".join(str(jar) for jar in sorted(JVM_JARS.glob("*.jar")))
    ended = subprocess.run(
        [JVM_PYTHON, script, bootstrap, jars, topic, copy_topic, directory],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


def jvm_row(row: list[Any]) -> Row:
    partition, offset, key, value, time_ms, time_type, headers = row
    return (
        partition,
        offset,
        unhex(key),
        unhex(value),
        time_ms,
        time_type,
        None if headers is None else tuple((name, unhex(content)) for name, content in headers),
    )


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def by_our_source(bootstrap: str, topic: str) -> list[Row]:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true", "minPartitions": "5"}
    reader = BatchReader(read_options(given, Use.BATCH))
    found: list[Row] = []
    for partition in reader.partitions():
        for columns in reader.read(partition):
            found += [
                (
                    row["partition"],
                    row["offset"],
                    row["key"],
                    row["value"],
                    round(row["timestamp"].timestamp() * 1000),
                    row["timestampType"],
                    None if row["headers"] is None else tuple((each["key"], each["value"]) for each in row["headers"]),
                )
                for row in columns.to_pylist()
            ]
    return sorted(found, key=place)


def consumed(bootstrap: str, topic: str, count: int) -> list[Row]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "plain", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    found: list[Row] = []
    while len(found) < count:
        for message in consumer.consume(count, 5):
            kind, time_ms = message.timestamp()
            headers = message.headers()
            found.append(
                (
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    time_ms,
                    kind - 1,
                    tuple(headers) if headers else None,
                )
            )
    consumer.close()
    return sorted(found, key=place)


def place(row: Row) -> tuple[int, int]:
    return row[0], row[1]


def without_time(row: Row) -> tuple[Any, ...]:
    return (*row[:4], *row[5:])
