"""Kafka's own tools and Admin client on a running cluster, and its consumer with thousands of partitions."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.running_cluster import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.java]

LOGSTORES = 2
LIBS = ROOT / ".cache/peer/libs"
SOURCE = ROOT / "tests/compat/java/ManyPartitions.java"
PARTITIONS = 2_000
TOPIC = "many-partitions"


@pytest.fixture(scope="module")
def java() -> list[str]:
    """The start of a command line; the jars are got where Maven is."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("no JDK (java and javac) on PATH")
    got = subprocess.run([ROOT / "scripts/peer"], capture_output=True, text=True, check=False)
    if got.returncode != 0:
        pytest.skip(f"Apache Kafka's jars can't be got: {got.stderr.strip()}")
    return ["java", "-Xmx256M", "-cp", f"{LIBS}/*"]


@pytest.fixture(scope="module")
def said(java: list[str], bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the Java program says."""
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-cp", f"{LIBS}/*", "-d", str(classes), str(SOURCE)], check=True)
    done = subprocess.run(
        [*java[:-1], f"{LIBS}/*:{classes}", "ManyPartitions", bootstrap, str(PARTITIONS)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def tool(java: list[str], name: str, *arguments: str) -> list[str]:
    """The lines that a tool of `org.apache.kafka.tools` prints."""
    done = subprocess.run(
        [*java, f"org.apache.kafka.tools.{name}", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path("/"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "line",
    [
        f"described {PARTITIONS}",
        f"consumed {2 * PARTITIONS}",
        "trickle ok",
        "reassigned ok",
        "validated true",
        "deleted to 1, beginning 1",
    ],
)
def test_thousands_of_partitions_in_one_session(said: list[str], line: str) -> None:
    assert line in said


def test_get_offsets(java: list[str], bootstrap: str, said: list[str]) -> None:
    lines = tool(java, "GetOffsetShell", "--bootstrap-server", bootstrap, "--topic-partitions", f"{TOPIC}:40-43")
    assert [line for line in lines if line.startswith(TOPIC)] == [
        f"{TOPIC}:{partition}:2" for partition in (40, 41, 42)
    ]


def test_delete_records(java: list[str], bootstrap: str, said: list[str], tmp_path: Path) -> None:
    offsets = tmp_path / "offsets.json"
    places = [{"topic": TOPIC, "partition": 50, "offset": 1}, {"topic": TOPIC, "partition": 51, "offset": -1}]
    offsets.write_text(json.dumps({"version": 1, "partitions": places}))
    lines = tool(java, "DeleteRecordsCommand", "--bootstrap-server", bootstrap, "--offset-json-file", str(offsets))
    assert f"partition: {TOPIC}-50\tlow_watermark: 1" in lines
    assert f"partition: {TOPIC}-51\tlow_watermark: 2" in lines
    earliest = ["--topic-partitions", f"{TOPIC}:50-52", "--time", "earliest"]
    lines = tool(java, "GetOffsetShell", "--bootstrap-server", bootstrap, *earliest)
    assert [line for line in lines if line.startswith(TOPIC)] == [f"{TOPIC}:50:1", f"{TOPIC}:51:2"]


def test_describe_producers(java: list[str], bootstrap: str, said: list[str]) -> None:
    described = ["describe-producers", "--topic", TOPIC, "--partition", "0"]
    header, producer = tool(java, "TransactionsCommand", "--bootstrap-server", bootstrap, *described)
    columns = dict(zip(header.split(), producer.split(), strict=True))
    assert columns["ProducerEpoch"] == "0"
    assert int(columns["LastSequence"]) >= 2
    assert columns["CurrentTransactionStartOffset"] == "None"


def test_log_dirs(java: list[str], bootstrap: str, said: list[str]) -> None:
    """Each broker is asked at its own port, and tells its own directory with its own replicas."""
    *_, described = tool(java, "LogDirsCommand", "--bootstrap-server", bootstrap, "--describe", "--topic-list", TOPIC)
    brokers = {broker["broker"]: broker["logDirs"] for broker in json.loads(described)["brokers"]}
    assert len(brokers) == LOGSTORES
    replicas = []
    for log_dirs in brokers.values():
        (log_dir,) = log_dirs
        assert (log_dir["error"], Path(log_dir["logDir"]).is_absolute()) == (None, True)
        assert all(replica["size"] > 0 and replica["offsetLag"] == 0 for replica in log_dir["partitions"])
        replicas += [replica["partition"] for replica in log_dir["partitions"]]
    assert sorted(replicas) == sorted(f"{TOPIC}-{partition}" for partition in range(PARTITIONS))
