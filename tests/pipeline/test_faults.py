"""What can go wrong under a tables job, by the command as a process: one line, nothing lost, nothing twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster
from tests.pipeline.job_process import LOCAL, JobProcess, rows_of
from tests.pipeline.spark_world import Topics

pytestmark = [needs_etcd, pytest.mark.timeout(600)]


class Job:
    """One job of one topic, run again and again."""

    def __init__(self, directory: Path, topics: Topics, topic: str, into: str = "delta") -> None:
        self._directory = directory
        self._topics = topics
        self._topic = topic
        self._into = into

    def start(self, *arguments: str) -> JobProcess:
        """Run until stopped."""
        fixed = ("--bootstrap-servers", self._topics.bootstrap, "--topics", self._topic, "--into", self._into)
        to = ("--to", str(self._directory / "lake"), "--trigger-ms", "200")
        return JobProcess(self._directory / "job", "tables", *fixed, *to, *LOCAL, *arguments)

    def run(self, *arguments: str) -> tuple[int, list[str]]:
        """Until all that is there is in the table: the exit code, and what it has to say of its end."""
        with self.start("--until", "now", *arguments) as process:
            code = process.end()
            return code, last_words(process)

    def values(self) -> list[bytes]:
        """What the table has, each row; sorted."""
        found: list[bytes] = rows_of(self._into, self._directory / "lake", self._topic)["value"].to_pylist()
        return sorted(found)


def last_words(process: JobProcess) -> list[str]:
    """The command's own lines on stderr; a traceback, ours or Java's, is none that a user should see."""
    assert "Traceback" not in process.err, process.err
    assert "\tat " not in process.err, process.err
    return [line for line in process.err.splitlines() if line.startswith("barnabas-pipeline: ")]


def numbered(begin: int, end: int) -> list[bytes]:
    return [b"%05d" % number for number in range(begin, end)]


def test_records_that_are_gone_before_they_were_read(topics: Topics, tmp_path: Path) -> None:
    topics.create("gone")
    job = Job(tmp_path, topics, "gone")
    topics.fill("gone", numbered(0, 50))
    assert job.run() == (0, [])
    topics.fill("gone", numbered(50, 100))
    topics.delete_records("gone", 0, 80)
    code, (line,) = job.run()
    assert code == 1
    assert "gone-0: offsets 50 to 79 are gone, deleted by retention or on demand" in line
    assert "onDataLoss" in line
    assert job.values() == numbered(0, 50)
    assert job.run("--option", "onDataLoss=continue") == (0, [])
    assert job.values() == numbered(0, 50) + numbered(80, 100)


def test_a_topic_made_again_while_the_job_is_down(topics: Topics, tmp_path: Path) -> None:
    topics.create("recreated")
    job = Job(tmp_path, topics, "recreated")
    topics.fill("recreated", numbered(0, 50))
    assert job.run() == (0, [])
    topics.delete("recreated")
    topics.create("recreated")
    topics.fill("recreated", numbered(100, 130))
    code, (line,) = job.run()
    assert code == 1
    assert "topic recreated was deleted and recreated since its table's last batch" in line
    assert "--recreated append" in line
    assert job.run("--recreated", "append") == (0, [])
    assert job.values() == numbered(0, 50) + numbered(100, 130)


def test_a_topic_made_again_while_the_job_runs(topics: Topics, tmp_path: Path) -> None:
    topics.create("anew-under-way")
    job = Job(tmp_path, topics, "anew-under-way")
    topics.fill("anew-under-way", numbered(0, 50))
    with job.start() as process:
        process.until(lambda: "batch 1: 50 rows" in process.out)
        topics.delete("anew-under-way")
        topics.create("anew-under-way")
        topics.fill("anew-under-way", numbered(100, 130))
        assert process.end() == 1
        (line,) = last_words(process)
        assert "anew-under-way" in line
        assert "recreated" in line or "is gone" in line
    assert job.values() == numbered(0, 50)


def test_a_corrupt_batch_in_the_log(cluster: RunningCluster, topics: Topics, tmp_path: Path) -> None:
    topics.create("corrupt")
    job = Job(tmp_path, topics, "corrupt")
    topics.fill("corrupt", numbered(0, 3), batch_records=1)
    (segment,) = cluster.directory.path.glob("**/corrupt-0/00000000000000000000.log")
    whole = segment.read_bytes()
    at = whole.index(b"00001")
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(b"9")
    code, (line,) = job.run()
    assert code == 1
    assert "corrupt-0: the batch at offset 1 fails its CRC" in line
    with segment.open("r+b") as file:
        file.write(whole)
    assert job.run() == (0, [])
    assert job.values() == numbered(0, 3)


@pytest.mark.parametrize("into", ["iceberg", "delta", "parquet"])
def test_two_runs_of_one_job_at_once(topics: Topics, tmp_path: Path, into: str) -> None:
    topic = f"twice-{into}"
    topics.create(topic)
    job = Job(tmp_path, topics, topic, into)
    topics.fill(topic, numbered(0, 100))
    with job.start() as first:
        first.until(lambda: "100 rows" in first.out)
        with job.start() as second:
            sent = 100
            while first.process.poll() is None:
                assert second.process.poll() is None, second.err
                topics.fill(topic, numbered(sent, sent + 10))
                sent += 10
            assert first.end() == 1
            (line,) = last_words(first)
            assert "another run of this job took the table over" in line
            second.until(lambda: job.values() == numbered(0, sent))
            second.process.send_signal(signal.SIGTERM)
            assert second.end() == 0
            assert last_words(second) == []
    assert job.values() == numbered(0, sent)
