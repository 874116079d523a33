"""The command: wrong options and bad surroundings are one line each; a whole job on a local Spark."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable

from barnabas_pipeline.cli.__main__ import main
from barnabas_pipeline.cli.job_file import spark_settings
from barnabas_pipeline.tables.contract import CommitConflictError
from barnabas_pipeline.tables.delta import DeltaLakeTable
from barnabas_pipeline.tables.running import as_pipeline_error
from tests.integration.running_cluster import ROOT, RunningCluster

_TIMEOUT = "kafka.default.api.timeout.ms"


def command(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env=environment)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("tables",), "invalid job: either topics or a topic_pattern is required, but not both"),
        (("tables", "--topics", "t", "--partition-by", "year"), "unknown partitioning 'year'"),
        (("tables", "--topics", "t", "--column", "a"), "--column must be KEY=VALUE, not 'a'"),
        (
            ("tables", "--topics", "t", "--column", "a=long", "--column", "a=double"),
            "--column a is given twice, as 'long' and 'double'",
        ),
        (("tables", "--topics", "t", "--to", "/tmp/a%b"), "can't contain ?, # or %"),
        (("tables", "--job", "nowhere.yaml"), "the job file nowhere.yaml can't be read: No such file"),
        (("tables", "--topics", "t", "--bootstrap-servers", "here"), "'here' is not host:port"),
        (("tables", "--topics", "t", "--option", "maxOffsets=1"), "'maxoffsets' is unknown to format 'barnabas'"),
        (
            ("tables", "--topics", "t", "--bootstrap-servers", "localhost:1", "--option", f"{_TIMEOUT}=300"),
            "no answer to metadata from the cluster at localhost:1 within 300 ms",
        ),
        (("replay", "--target", "t"), "a table or a source_topic is required"),
        (("replay", "--target", "t", "--table", "x", "--since", "monday"), "'monday' is not a time"),
        (("maintain", "--to", "/tmp", "--into", "delta", "--table", "x"), "there is no table x (delta) at /tmp"),
        (("maintain", "--table", "x", "--catalog", "foo=bar"), "ValueError: URI missing"),
        (
            ("maintain", "--table", "x", "--catalog", "type=rest", "--catalog", "uri=http://localhost:1"),
            "ConnectionError: HTTPConnectionPool(host='localhost', port=1)",
        ),
    ],
)
def test_wrong_options_are_one_line(arguments: tuple[str, ...], line: str) -> None:
    result = command(*arguments)
    assert result.exit_code == 1
    assert line in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("job.yaml", "topics: [a\n", "is neither YAML nor TOML"),
        ("job.toml", "topics = [", "is neither YAML nor TOML"),
        ("job.yaml", "- a\n", "must be a mapping of options"),
        ("job.toml", 'topics = ["a"]\ntrigger = 1\n', "unknown field `trigger`"),
        ("job.yaml", "topics: [a]\nvalue: avro\n", "requires either a registry or a schema_file"),
        (
            "job.yaml",
            "topics: [a]\nspark: local\n",
            "a mapping of Spark settings (spark.master: local[2]), not 'local'",
        ),
        ("job.yaml", "topics: [a]\nspark:\n", "a mapping of Spark settings (spark.master: local[2]), not nothing"),
        (
            "job.yaml",
            "spark: {spark.jars: [a]}\n",
            "spark's spark.jars in a job file must be a string, a number, true or false",
        ),
        ("job.yaml", "topics: [caf\udce9]\n", "is neither YAML nor TOML: 'utf-8' codec can't decode byte 0xe9"),
        ("job.yaml", "name: 2026-22-11\n", "is neither YAML nor TOML: month must be in 1..12"),
    ],
)
def test_wrong_job_files_are_one_line(tmp_path: Path, name: str, content: str, line: str) -> None:
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    result = command("tables", "--job", str(tmp_path / name))
    assert result.exit_code == 1
    assert line in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_registrys_user_in_the_environment_is_of_jobs_with_a_registry() -> None:
    """It stopped all others."""
    unreachable = ("--bootstrap-servers", "localhost:1", "--option", f"{_TIMEOUT}=300")
    result = command("tables", "--topics", "t", *unreachable, BARNABAS_REGISTRY_USER="me:secret")
    assert "no answer to metadata from the cluster at localhost:1" in result.stderr
    by_registry = ("--value", "avro", "--registry", "http://localhost:1")
    result = command("tables", "--topics", "t", *unreachable, *by_registry, BARNABAS_REGISTRY_USER="me")
    assert "registry_user must be NAME:SECRET" in result.stderr
    result = command("tables", "--topics", "t", *unreachable, "--registry-user", "me:secret")
    assert "registry_user must be NAME:SECRET, and needs a registry" in result.stderr


def test_sparks_settings_are_written_as_spark_has_them() -> None:
    file = {"topics": ["a"], "spark": {"spark.ui.enabled": True, "spark.task.maxFailures": 2, "spark.master": "yarn"}}
    settings = spark_settings(file, {"spark.master": "local[2]"})
    assert settings == {"spark.ui.enabled": "true", "spark.task.maxFailures": "2", "spark.master": "local[2]"}
    assert file == {"topics": ["a"]}


def test_upkeep_of_a_place_without_tables_makes_nothing_there(tmp_path: Path) -> None:
    result = command("maintain", "--to", str(tmp_path / "mistyped"), "--table", "orders")
    assert result.exit_code == 1
    assert f"there is no table orders (iceberg) at {tmp_path}/mistyped" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_upkeep_that_meets_a_commit_at_its_first_look_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conflict(*_: object) -> None:
        raise CommitConflictError("lake.orders: the head\nmoved")

    monkeypatch.setattr(DeltaLakeTable, "open", conflict)
    result = command("maintain", "--to", str(tmp_path), "--into", "delta", "--table", "orders")
    assert result.exit_code == 1
    assert result.stderr == (
        "barnabas-pipeline: another commit interfered; nothing is lost, start it again: lake.orders: the head moved\n"
    )


def test_a_topic_that_is_not_there(cluster: RunningCluster, tmp_path: Path) -> None:
    result = command(
        "tables", "--topics", "absent", "--bootstrap-servers", cluster.bootstrap, "--to", str(tmp_path / "lake")
    )
    assert result.exit_code == 1
    assert f"the cluster at {cluster.bootstrap} has no topic absent" in result.stderr


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("java.io.IOException: No space left on device\n at x", "no space left for the checkpoint /c"),
        (
            "Traceback\npipeline.core.errors.DataLost: orders-0: offsets 3 to 7 are gone\n at y",
            "orders-0: offsets 3 to 7 are gone",
        ),
        (
            "Multiple streaming queries are concurrently using /c/offsets; a checkpoint",
            "another run uses the checkpoint",
        ),
        (
            'o53.start.\n: org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"\n at z',
            "Spark has no client for the checkpoint /c; give it a local directory (--checkpoint)",
        ),
        ("", "RuntimeError: no reason given"),
    ],
)
def test_what_spark_says_becomes_one_sentence(said: str, line: str) -> None:
    assert str(as_pipeline_error(RuntimeError(said), "/c")).startswith(line)


def test_a_full_disk_without_a_job_is_one_sentence() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert str(as_pipeline_error(full)).startswith("no space left for the table; free some space")


def produce(cluster: RunningCluster, topic: str, values: list[bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, b"k%d" % number, number % 2)
    assert producer.flush(60) == 0


def job(cluster: RunningCluster, lake: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a process, with a local Spark, until all that is there is in the table."""
    fixed = ["--bootstrap-servers", cluster.bootstrap, "--to", str(lake), "--until", "now"]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "barnabas_pipeline.cli",
            "tables",
            *fixed,
            "--spark",
            "spark.master=local[2]",
            *arguments,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.timeout(300)
def test_json_on_spark_with_dead_letters_and_figures(cluster: RunningCluster, tmp_path: Path) -> None:
    values = [json.dumps({"id": number, "tags": ["x"]}).encode() for number in range(200)]
    produce(cluster, "on-spark", [*values, b"{", json.dumps({"id": "x"}).encode()])
    lake, metrics = tmp_path / "the lake", tmp_path / "metrics.json"
    ran = job(
        cluster, lake, "--topics", "on-spark", "--into", "delta", "--value", "json", "--column", "id=long",
        "--metrics-file", str(metrics),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "batch 1: 200 rows, 2 dead letters" in ran.stdout
    rows = DeltaTable(str(lake / "on-spark")).to_pyarrow_table()
    assert sorted(rows["id"].to_pylist()) == list(range(200))
    reasons = DeltaTable(str(lake / "on-spark__dead_letters")).to_pyarrow_table()["reason"].to_pylist()
    assert sorted(reason[:8] for reason in reasons) == ["field id", "not JSON"]
    figures = json.loads(metrics.read_text())
    assert (figures["rows"], figures["dead_letters"], figures["lag"]) == (200, 2, 0)


@contextlib.contextmanager
def small_disk(directory: Path, kibibytes: int) -> Iterator[Path]:
    """A file system of its own that is soon full."""
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(directory)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no right to mount a small file system here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=False)


@pytest.mark.timeout(600)
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")
def test_a_full_disk_under_the_checkpoint(cluster: RunningCluster, tmp_path: Path) -> None:
    produce(cluster, "full-disk", [b"v%d" % number for number in range(100)])
    lake = tmp_path / "lake"
    with small_disk(tmp_path / "small", 64) as small:
        (small / "filler").write_bytes(b"x" * 60 * 1024)
        ran = job(cluster, lake, "--topics", "full-disk", "--into", "delta", "--checkpoint", str(small / "checkpoint"))
    assert ran.returncode == 1
    assert "no space left for the checkpoint" in ran.stderr
    # Another place for the checkpoint: the table knows how far it is.
    ran = job(cluster, lake, "--topics", "full-disk", "--into", "delta")
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert DeltaTable(str(lake / "full-disk")).to_pyarrow_table().num_rows == 100
