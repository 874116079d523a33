"""Kafka's own clients and tools: the Java producer and consumer, and DumpLogSegments on our files."""

from __future__ import annotations

import re

import pytest

from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.java]

LOGSTORES = 2
MODES = ["defaults", "acks-0", "acks-1", "acks-all", "idempotent", "gzip", "snappy", "lz4", "zstd"]
RECORDS = 1000


@pytest.fixture(scope="module")
def round_trips(kafka_tools: KafkaTools, bootstrap: str) -> dict[str, str]:
    """What the Java program says of each mode."""
    said = kafka_tools.output("RoundTrip", bootstrap).splitlines()
    lines = [line for line in said if line.startswith(tuple(MODES))]
    return {mode: said for mode, _, said in (line.partition(" ") for line in lines)}


@pytest.mark.parametrize("mode", MODES)
def test_java_clients_read_back_what_they_produced(round_trips: dict[str, str], mode: str) -> None:
    assert round_trips[mode].startswith("ok ")


@pytest.mark.parametrize("mode", ["idempotent", "zstd"])
def test_dump_log_segments_reads_our_files(
    kafka_tools: KafkaTools, round_trips: dict[str, str], cluster: RunningCluster, mode: str
) -> None:
    topic = round_trips[mode].removeprefix("ok ")
    files = sorted(str(path) for path in cluster.directory.path.glob(f"logstore-*/{topic}-0/*.*index"))
    (log,) = map(str, cluster.directory.path.glob(f"logstore-*/{topic}-0/*.log"))
    dumped = dump(kafka_tools, [log, *files], "--deep-iteration")
    assert "isvalid: false" not in dumped
    assert re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE) == [str(offset) for offset in range(RECORDS)]
    assert [line for line in dumped.splitlines() if "Mismatches" in line or "Missing" in line] == []
    assert len(files) == 2
    for file in files:
        assert f"Dumping {file}" in dumped


def dump(kafka_tools: KafkaTools, files: list[str], *options: str) -> str:
    """The output of Kafka's DumpLogSegments."""
    return kafka_tools.output("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(files), *options)
