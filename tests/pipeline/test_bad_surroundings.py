"""What a running job may lose under its feet: cluster, checkpoint, records, its table to another run.

By the command on a local Spark against a cluster of real processes. Each is one line, and when its cause is gone every
record is in the table once.
"""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster
from tests.pipeline.job_process import LOCAL, JobProcess, rows_of
from tests.pipeline.spark_world import Topics

pytestmark = [needs_etcd, pytest.mark.timeout(900)]
FORMATS = ["iceberg", "delta", "parquet"]
SLOW_READING = ("--option", "kafka.max.partition.fetch.bytes=1")  # a batch of the log per fetch
IMPATIENT = ("--option", "kafka.default.api.timeout.ms=2000")


@dataclass(slots=True)
class Scene:
    """A topic of one partition, whose record at offset n is n in text, and a job that brings it into a table."""

    topics: Topics
    topic: str
    into: str
    directory: Path

    @property
    def lake(self) -> Path:
        return self.directory / "lake"

    def fill(self, since: int, until: int, batch_records: int = 0) -> None:
        self.topics.fill(self.topic, [b"%d" % each for each in range(since, until)], batch_records=batch_records)

    def job(self, *arguments: str, until: str = "now") -> JobProcess:
        return JobProcess(
            self.directory / "jobs",
            "tables",
            *("--bootstrap-servers", self.topics.bootstrap, "--topics", self.topic),
            *("--into", self.into, "--to", str(self.lake), "--until", until, *LOCAL, *arguments),
        )

    def succeeds(self, *arguments: str) -> str:
        """What a run said that ends well."""
        with self.job(*arguments) as job:
            assert job.end() == 0
        return job.out

    def fails(self, *arguments: str) -> str:
        """The one line of a run that does not."""
        with self.job(*arguments) as job:
            return the_line(job)

    def offsets(self) -> list[int]:
        """In the table, each with the value that was produced there."""
        rows = rows_of(self.into, self.lake, self.topic).to_pydict()
        assert [b"%d" % offset for offset in rows["offset"]] == rows["value"]
        return sorted(rows["offset"])

    def planned(self) -> list[Path]:
        """Batches that Spark has begun, but for the empty one at the start of a first run."""
        return [each for each in self.lake.glob("_checkpoints/tables/*/offsets/[0-9]*") if each.name != "0"]


def the_line(job: JobProcess) -> str:
    """Of a job that ends with an error: ours is the last line, without a traceback before it."""
    assert job.end() == 1
    assert "Traceback" not in job.err
    ours = [line for line in job.err.splitlines() if line.startswith("barnabas-pipeline: ")]
    assert len(ours) == 1
    assert job.err.endswith(f"{ours[0]}\n")
    return ours[0]


@pytest.fixture
def scene(request: pytest.FixtureRequest, topics: Topics, tmp_path: Path) -> Scene:
    into = getattr(request, "param", "iceberg")
    topic = f"{request.node.originalname}-{into}"
    topics.create(topic)
    return Scene(topics, topic, into, tmp_path)


@pytest.mark.parametrize("scene", FORMATS, indirect=True)
def test_two_runs_started_at_the_same_instant(scene: Scene) -> None:
    scene.fill(0, 500)
    with scene.job("--option", "maxOffsetsPerTrigger=200") as one, scene.job() as other:
        assert 0 in (one.end(), other.end())
        for job in (one, other):
            if job.process.returncode != 0:
                assert "another run of this job took the table over" in the_line(job)
    assert scene.offsets() == list(range(500))


def test_offsets_that_go_between_planning_and_reading(scene: Scene) -> None:
    scene.fill(0, 600, batch_records=1)
    with scene.job(*SLOW_READING) as job:
        job.until(scene.planned)
        scene.topics.delete_records(scene.topic, 0, 590)
        line = the_line(job)
    assert (
        "to 589 are gone, deleted by retention or on demand; to continue with the existing records, start with" in line
    )
    assert scene.offsets() == []
    # The batch that was planned then comes again.
    assert "offsets 0 to 589 are gone" in scene.fails()
    scene.succeeds("--option", "onDataLoss=continue")
    assert scene.offsets() == list(range(590, 600))


def test_a_cluster_that_goes_while_it_runs(scene: Scene, cluster: RunningCluster) -> None:
    scene.fill(0, 10)
    with scene.job(*IMPATIENT, until="stopped") as job:
        job.until(lambda: "10 rows" in job.out)
        cluster.kill("gateway")
        try:
            assert f"from the cluster at {cluster.bootstrap} within 2000 ms" in the_line(job)
        finally:
            cluster.up()
    scene.fill(10, 20)
    scene.succeeds()
    assert scene.offsets() == list(range(20))


def test_a_checkpoint_deleted_while_it_runs_and_other_options_after_it(scene: Scene) -> None:
    scene.fill(0, 10)
    with scene.job(until="stopped") as job:
        job.until(lambda: "10 rows" in job.out)
        shutil.rmtree(scene.lake / "_checkpoints")
        scene.fill(10, 20)
        job.process.send_signal(signal.SIGTERM)
        assert job.end() in (0, 1)  # Spark may have noticed, and the job be about to end
        assert "Traceback" not in job.err
    for other, line in (
        (("--value", "json"), "was made by a job with value raw, this one has json"),
        (("--mode", "upsert"), "was made by a job with mode append, this one has upsert"),
        (("--partition-by", "day"), "is partitioned by none, the job by day: use the same"),
    ):
        assert line in scene.fails(*other)
    scene.fill(20, 30)
    scene.succeeds("--batch-bytes-max", "100", "--group", "another", "--starting", "latest")
    assert scene.offsets() == list(range(30))


def test_a_schema_that_does_not_fit(scene: Scene, tmp_path: Path) -> None:
    schema = tmp_path / "order.avsc"
    avro = ("--value", "avro", "--schema-file", str(schema))
    scene.fill(0, 3)
    assert f"the schema file {schema} can't be read: " in scene.fails(*avro)
    schema.write_text("{")
    assert f"{schema}: this is not an Avro schema: " in scene.fails(*avro)
    fields = [{"name": "id", "type": {"type": "fixed", "name": "four", "size": 4}}]
    schema.write_text(json.dumps({"type": "record", "name": "order", "fields": fields}))
    assert "3 dead letters" in scene.succeeds(*avro)
    dead = rows_of(scene.into, scene.lake, f"{scene.topic}__dead_letters", ["offset", "reason"]).to_pydict()
    assert sorted(dead["offset"]) == [0, 1, 2]
    assert all(dead["reason"])
