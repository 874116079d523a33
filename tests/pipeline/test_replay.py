"""A deleted topic comes back from its table, equal record by record; a replay cut short goes on where it was."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic
from msgspec.structs import replace

from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.options import parse_bootstrap
from barnabas_pipeline.core.positions import Positions, TopicPositions, to_dict
from barnabas_pipeline.core.ranges import ranges_between
from barnabas_pipeline.core.replay import ReplayError, ReplayJob, SourceRecord
from barnabas_pipeline.core.settings import ClientSettings
from barnabas_pipeline.core.tables_job import tables_job
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.kafka.reading import read_range
from barnabas_pipeline.replay import running, target
from barnabas_pipeline.replay.running import run_replay
from barnabas_pipeline.replay.target import Writer
from barnabas_pipeline.tables.cluster import JobCluster
from barnabas_pipeline.tables.running import wall_ms, warehouse_of
from barnabas_pipeline.tables.stream import TablesRun
from tests.integration.running_cluster import RunningCluster
from tests.pipeline.tables_world import KilledError, LocalFrame

pytestmark = pytest.mark.integration
Whole = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
PARTITIONS = 3
GONE = ClientSettings(parse_bootstrap("127.0.0.1:1"))


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept: its futures die with it
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)


def fill(bootstrap: str, topic: str, count: int) -> None:
    """Nulls of all kinds, headers twice under a name, times that are not in order."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(
            topic,
            None if number % 7 == 0 else b"v%d" % number,
            None if number % 5 == 0 else b"" if number % 11 == 0 else b"k%d" % (number % 9),
            number % PARTITIONS,
            timestamp=1_700_000_000_000 + (number * 37) % 1000,
            headers=[("h", b"%d" % number), ("h", None), ("é", b"")] if number % 3 else [],
        )
    assert producer.flush(60) == 0


def whole(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> dict[int, list[Whole]]:
    """All of a topic by partition, read by librdkafka: without offsets, of which a replay makes its own."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    records: dict[int, list[Whole]] = {number: [] for number in range(partitions)}
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(60)
            assert message is not None
            partition = message.partition()
            assert partition is not None
            if message.error() is not None:
                ended.add(partition)
                continue
            headers: Any = tuple(message.headers() or ())
            time_ms = message.timestamp()[1]
            records[partition].append((partition, time_ms, message.key(), message.value(), headers))
    finally:
        consumer.close()
    return records


def tabled(bootstrap: str, topic: str, table_format: str, lake: Path) -> None:
    """The topic into a table by the job's own code, the reading done here instead of by Spark's tasks."""
    job = tables_job({"topics": [topic], "bootstrap_servers": bootstrap, "into": table_format, "to": str(lake)})
    with ClusterClient(ClientSettings(parse_bootstrap(bootstrap))) as client:
        run = TablesRun(
            job, "test", warehouse_of(job), JobCluster(job, client), wall_ms, lambda _: None, lambda _: None
        )
        checkpoint, start = run.begin()
        extents = client.extents(client.topics([topic]))
        end = {name: TopicPositions(each.topic_id, each.latest) for name, each in extents.items()}
        offsets = Path(checkpoint.uri.removeprefix("file://")) / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text("v1\n{}\n" + json.dumps(to_dict(end)))
        frame = LocalFrame(lambda: read_all(client, start, end))
        run.batch(frame, 0)  # type: ignore[arg-type]


def read_all(client: ClusterClient, start: Positions, end: Positions) -> Iterator[pa.RecordBatch]:
    def on_loss(loss: object) -> None:
        raise AssertionError(loss)

    for each in ranges_between(start, end):
        yield from read_range(client, each, on_loss, with_headers=True)


@pytest.mark.parametrize("table_format", ["iceberg", "delta", "parquet"])
def test_a_deleted_topic_comes_back_from_its_table(cluster: RunningCluster, table_format: str, tmp_path: Path) -> None:
    topic = f"deleted-{table_format}"
    make(cluster.bootstrap, topic)
    fill(cluster.bootstrap, topic, 300)
    before = whole(cluster.bootstrap, topic)
    tabled(cluster.bootstrap, topic, table_format, tmp_path / "lake")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([topic])[topic].result(60)
    job = ReplayJob(
        bootstrap_servers=cluster.bootstrap,
        target=topic,
        table=topic,
        format=table_format,  # type: ignore[arg-type]
        to=str(tmp_path / "lake"),
        create=PARTITIONS,
    )
    assert run_replay(job, lambda _: None) == 300
    assert whole(cluster.bootstrap, topic) == before


def test_a_replay_that_was_killed_goes_on(
    cluster: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(cluster.bootstrap, "source")
    fill(cluster.bootstrap, "source", 200)
    job = ReplayJob(
        bootstrap_servers=cluster.bootstrap, target="copy", source_topic="source", create=PARTITIONS, rate=2000
    )
    for killed_after in (50, 90):
        with monkeypatch.context() as patches:
            patches.setattr(running, "Writer", dying(killed_after))
            with pytest.raises(KilledError):
                run_replay(job, lambda _: None)
    said: list[str] = []
    assert run_replay(job, said.append) == 60
    assert "copy has 140 records of this replay already" in said[0]
    assert whole(cluster.bootstrap, "copy") == whole(cluster.bootstrap, "source")
    with pytest.raises(ReplayError, match="copy has had 200 records: --append writes the replay after them"):
        run_replay(job, said.append)


def dying(after: int) -> Callable[[str, str, dict[int, int]], Writer]:
    """A writer that dies in the middle, with what it wrote acknowledged."""

    class Dying(Writer):
        count = 0

        def write(self, partition: int, record: Any) -> None:
            if self.count == after:
                self.finish()
                raise KilledError
            self.count += 1
            super().write(partition, record)

    return Dying


def test_a_target_that_someone_else_wrote_to(cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    make(cluster.bootstrap, "mine")
    fill(cluster.bootstrap, "mine", 90)
    job = ReplayJob(bootstrap_servers=cluster.bootstrap, target="theirs", source_topic="mine", create=PARTITIONS)
    with monkeypatch.context() as patches:
        patches.setattr(running, "Writer", dying(30))
        with pytest.raises(KilledError):
            run_replay(job, lambda _: None)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("theirs", b"foreign", partition=1)
    producer.flush(60)
    with pytest.raises(ReplayError, match="another program wrote to it, or the source changed"):
        run_replay(job, lambda _: None)


@pytest.mark.parametrize("partitions", [2, PARTITIONS])
def test_a_source_that_was_made_again_while_a_replay_was_cut_short(
    cluster: RunningCluster, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not begun was taken from the new topic; if that had fewer partitions, a traceback ended it."""
    source = f"remade-{partitions}"
    make(cluster.bootstrap, source)
    fill(cluster.bootstrap, source, 90)
    job = ReplayJob(bootstrap_servers=cluster.bootstrap, target=f"of-{source}", source_topic=source, create=PARTITIONS)
    cut_short(job, 0, monkeypatch)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([source])[source].result(60)
    make(cluster.bootstrap, source, partitions)
    with pytest.raises(ReplayError, match=rf"{source} was deleted and recreated since .*: to start over"):
        run_replay(job, lambda _: None)


def interrupting(bootstrap: str, after: int) -> type[Writer]:
    """A writer beside which another program writes one record, before the replay's `after`-th or behind its last."""

    class Interrupted(Writer):
        count = 0

        def _interrupt(self) -> None:
            self._producer.flush(60)
            other = Producer({"bootstrap.servers": bootstrap})
            other.produce(self.topic, b"foreign", partition=1)
            assert other.flush(60) == 0

        def write(self, partition: int, record: Any) -> None:
            self.count += 1
            if self.count == after:
                self._interrupt()
            super().write(partition, record)

        def finish(self) -> None:
            super().finish()
            if self.count < after:
                self._interrupt()

    return Interrupted


@pytest.mark.parametrize("after", [40, 1000])
def test_someone_who_writes_to_the_target_meanwhile_is_noticed(
    cluster: RunningCluster, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what an earlier run wrote and saw not acknowledged: the target had a record too many, without an error."""
    source = f"alone-{after}"
    make(cluster.bootstrap, source)
    fill(cluster.bootstrap, source, 90)
    job = ReplayJob(
        bootstrap_servers=cluster.bootstrap, target=f"beside-{after}", source_topic=source, create=PARTITIONS
    )
    monkeypatch.setattr(running, "Writer", interrupting(cluster.bootstrap, after))
    with pytest.raises(
        ReplayError, match=rf"partition 1 of beside-{after} is at offset \d+, .* another program writes"
    ):
        run_replay(job, lambda _: None)
    assert Path(job.state_path).exists()


def cut_short(job: ReplayJob, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patches:
        patches.setattr(running, "Writer", dying(after))
        with pytest.raises(KilledError):
            run_replay(job, lambda _: None)


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    """All partitions' records below the offset, as retention would."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition(topic, partition, offset) for partition in range(PARTITIONS)]
    for deleted in admin.delete_records(wanted).values():
        deleted.result(60)


@pytest.mark.parametrize("gone_before", [11, 60])
def test_a_source_that_lost_records_while_a_replay_was_cut_short(
    cluster: RunningCluster, gone_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record left counted as there already: none was written, the state deleted, and all was said to be well."""
    source = f"shrinking-{gone_before}"
    make(cluster.bootstrap, source)
    fill(cluster.bootstrap, source, 300)
    job = ReplayJob(bootstrap_servers=cluster.bootstrap, target=f"of-{source}", source_topic=source, create=PARTITIONS)
    cut_short(job, 200, monkeypatch)
    delete_before(cluster.bootstrap, source, gone_before)
    for _ in range(2):
        with pytest.raises(
            ReplayError, match=rf"partition 0 of the source has lost its records 0 to {gone_before - 1}"
        ):
            run_replay(job, lambda _: None)
    assert Path(job.state_path).exists()


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)
    with ClusterClient(ClientSettings(parse_bootstrap(bootstrap))) as client:
        while len(client.topics([topic])[topic].leaders) < partitions:
            time.sleep(0.1)


def test_a_target_that_gained_partitions_is_refused_by_key(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that went on put the records of a key elsewhere."""
    make(cluster.bootstrap, "keyed")
    fill(cluster.bootstrap, "keyed", 90)
    job = ReplayJob(
        bootstrap_servers=cluster.bootstrap, target="grown", source_topic="keyed", partitions="by-key", create=2
    )
    cut_short(job, 30, monkeypatch)
    grow(cluster.bootstrap, "grown", 3)
    with pytest.raises(ReplayError, match=r"grown has 3 partitions, and had 2 .* delete both it and"):
        run_replay(job, lambda _: None)


def test_a_target_that_lacks_partitions_leaves_no_state_and_may_gain_them(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of the refused run knew nothing of the new partition: its records were written twice."""
    make(cluster.bootstrap, "wide")
    fill(cluster.bootstrap, "wide", 90)
    make(cluster.bootstrap, "narrow", 2)
    job = ReplayJob(bootstrap_servers=cluster.bootstrap, target="narrow", source_topic="wide")
    with pytest.raises(ReplayError, match="narrow has no partition 2, but the source has"):
        run_replay(job, lambda _: None)
    assert not Path(job.state_path).exists()
    grow(cluster.bootstrap, "narrow", 3)
    cut_short(job, 30, monkeypatch)
    assert run_replay(job, lambda _: None) == 60
    assert whole(cluster.bootstrap, "narrow") == whole(cluster.bootstrap, "wide")


def test_large_records(cluster: RunningCluster) -> None:
    """librdkafka's producer refused them by its own default; what the topic refuses is reported in one line."""
    make(cluster.bootstrap, "large", 1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    takes_more = ConfigEntry("max.message.bytes", "8000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "large", incremental_configs=[takes_more])
    admin.incremental_alter_configs([resource])[resource].result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 8_000_000})
    producer.produce("large", random.Random(1).randbytes(3_000_000), timestamp=1_700_000_000_000)
    assert producer.flush(60) == 0
    job = ReplayJob(bootstrap_servers=cluster.bootstrap, target="refusing", source_topic="large", create=1)
    with pytest.raises(
        ReplayError, match=r"of 3,000,000 bytes is larger than refusing accepts: raise its max\.message"
    ):
        run_replay(job, lambda _: None)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "refusing", incremental_configs=[takes_more])
    admin.incremental_alter_configs([resource])[resource].result(60)
    assert run_replay(job, lambda _: None) == 1
    assert whole(cluster.bootstrap, "refusing", 1) == whole(cluster.bootstrap, "large", 1)


def test_old_records_are_reported_and_their_loss_is_too(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last record that the target had to have was waited for, and the cluster called unreachable."""
    make(cluster.bootstrap, "old", 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        producer.produce("old", b"%d" % number, timestamp=1_700_000_000_000)
    assert producer.flush(60) == 0
    job = ReplayJob(bootstrap_servers=cluster.bootstrap, target="brief", source_topic="old", create=1)
    cut_short(job, 10, monkeypatch)
    said: list[str] = []
    assert run_replay(job, said.append) == 10
    assert "brief deletes what is older than 168 hours, and these records begin at 2023-11-14 22:13:20 UTC" in said[1]
    job = replace(job, target="emptied")
    cut_short(job, 10, monkeypatch)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_records([TopicPartition("emptied", 0, 10)]).values():
        deleted.result(60)
    with pytest.raises(ReplayError, match="partition 0 of emptied has lost what this replay wrote: delete it"):
        run_replay(job, said.append)


def test_a_state_that_cant_be_written_or_read_is_one_line(cluster: RunningCluster, tmp_path: Path) -> None:
    make(cluster.bootstrap, "stateless", 1)
    job = ReplayJob(bootstrap_servers=cluster.bootstrap, target="nowhere", source_topic="stateless", create=1)
    with pytest.raises(ReplayError, match=r"can't be written: No such file or directory; name another with --state$"):
        run_replay(replace(job, state=str(tmp_path / "not" / "there.json")), lambda _: None)
    with pytest.raises(ReplayError, match=r"can't be read: Is a directory$"):
        run_replay(replace(job, state=str(tmp_path)), lambda _: None)
    (tmp_path / "state").write_bytes(b"\xff\xfe")
    with pytest.raises(ReplayError, match=r"is not the state of a replay, or is damaged$"):
        run_replay(replace(job, state=str(tmp_path / "state")), lambda _: None)


def test_a_catalog_that_does_not_answer_is_one_line(cluster: RunningCluster) -> None:
    """Of 113 lines."""
    job = ReplayJob(
        bootstrap_servers=cluster.bootstrap,
        target="x",
        table="y",
        catalog={"type": "rest", "uri": "http://127.0.0.1:1"},
    )
    with pytest.raises(PipelineError, match="Connection refused") as raised:
        run_replay(job, lambda _: None)
    assert len(str(raised.value).splitlines()) == 1


def test_a_cluster_that_is_gone_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka printed each attempt to reach it."""
    monkeypatch.setattr(target, "_DELIVERY_MS_MAX", 2_000)
    monkeypatch.setattr(target, "_TIMEOUT_SECONDS", 2.0)
    writer = Writer(GONE, "gone", {0: 0})
    writer.write(0, SourceRecord(0, 0, 1_700_000_000_000, None, b"v", ()))
    with pytest.raises(ReplayError, match=r"not written to gone: .*Connection refused.*; run again to continue"):
        writer.finish()
    with pytest.raises(ReplayError, match=r"topic gone can't be created in the cluster at 127\.0\.0\.1:1: .*Timed out"):
        target.create_topic(GONE, "gone", 1)
    assert target.retention_ms(GONE, "gone") is None
    with pytest.raises(PipelineError, match="the last records of gone can't be read from"):
        target.last_records(GONE, target.Target("gone", "", {0: 0}, {0: 3}), {0: 0})
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""


def test_a_time_range_by_key(cluster: RunningCluster) -> None:
    """All of it: what lay behind the first record that was too new was left out."""
    make(cluster.bootstrap, "all-day")
    fill(cluster.bootstrap, "all-day", 200)
    since, until = 1_700_000_000_300, 1_700_000_000_600
    job = ReplayJob(
        bootstrap_servers=cluster.bootstrap,
        target="part",
        source_topic="all-day",
        since_ms=since,
        until_ms=until,
        partitions="by-key",
        create=2,
    )
    written = run_replay(job, lambda _: None)
    found = [each[1:] for records in whole(cluster.bootstrap, "part", 2).values() for each in records]
    source = [each[1:] for records in whole(cluster.bootstrap, "all-day").values() for each in records]
    assert written == len(found)
    assert all(since <= time_ms < until for time_ms, *_ in found)
    assert sorted(found, key=repr) == sorted((each for each in source if since <= each[0] < until), key=repr)


def test_a_table_without_whole_records_is_refused(cluster: RunningCluster, tmp_path: Path) -> None:
    make(cluster.bootstrap, "decoded", 1)
    job = tables_job({"topics": ["decoded"], "value": "json", "into": "parquet", "to": str(tmp_path / "lake")})
    with ClusterClient(ClientSettings(parse_bootstrap(cluster.bootstrap))) as client:
        TablesRun(
            job, "test", warehouse_of(job), JobCluster(job, client), wall_ms, lambda _: None, lambda _: None
        ).begin()
    replay = ReplayJob(
        bootstrap_servers=cluster.bootstrap, target="x", table="decoded", format="parquet", to=str(tmp_path / "lake")
    )
    with pytest.raises(ReplayError, match="has no column _value: a replay needs complete records"):
        run_replay(replay, lambda _: None)
