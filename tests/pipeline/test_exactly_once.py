"""Every record once, whichever process dies, and whatever else runs."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from barnabas_pipeline.core.bookkeeping import GapError
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.tables.contract import Change, SupersededError, Table, TableError
from barnabas_pipeline.tables.warehouse import Warehouse
from tests.pipeline.tables_world import FakeCluster, KilledError, World, run_that_may_die

FORMATS = ["iceberg", "delta", "parquet"]


def filled(count: int = 30) -> FakeCluster:
    cluster = FakeCluster()
    for partition in range(3):
        cluster.produce("orders", partition, *((b"k%d" % number, b"v%d" % number) for number in range(count)))
    return cluster


def json_records(since: int, until: int) -> list[tuple[bytes | None, bytes | None]]:
    """One in five is no JSON; new fields come with time."""
    records: list[tuple[bytes | None, bytes | None]] = []
    for number in range(since, until):
        value = {"id": number, **({"extra": {"deep": [number]}} if number > 12 else {})}
        records.append((b"k%d" % number, b"{" if number % 5 == 4 else json.dumps(value).encode()))
    return records


@pytest.fixture(params=FORMATS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, filled(), {"into": request.param})


def test_backfill_then_tail(world: World) -> None:
    run = world.start()
    run.batch()
    world.cluster.produce("orders", 1, (b"new", None))
    run.batch()
    assert world.identities("orders") == world.produced("orders")
    newest = next(row for row in world.rows("orders") if row["key"] == b"new")
    assert newest["value"] is None
    assert [(each["key"], each["value"]) for each in newest["headers"]] == [("h", b"30"), ("n", None)]
    assert world.cluster.group == {TopicPartition("orders", 0): 30, TopicPartition("orders", 1): 31} | {
        TopicPartition("orders", 2): 30
    }
    assert [each.lag for each in world.figures] == [0, 0]


def test_a_crash_between_the_table_and_the_checkpoint(world: World) -> None:
    with pytest.raises(KilledError):
        world.start().batch(crash_before_commit_log=True)
    world.cluster.produce("orders", 0, (b"later", b"x"))
    run = world.start()
    run.batch()  # the same batch again, of which the table lacks nothing
    run.batch()
    assert world.identities("orders") == world.produced("orders")
    assert not world.said  # checkpoint and table agree: nothing to tell


def test_a_checkpoint_that_was_deleted(world: World) -> None:
    world.run()
    shutil.rmtree(world.root / "lake/_checkpoints")
    world.cluster.produce("orders", 2, (b"later", b"x"))
    world.run()
    assert world.identities("orders") == world.produced("orders")


def test_a_table_put_back_from_a_backup_is_filled_again(world: World, tmp_path: Path) -> None:
    world.run()
    lake, backup = world.root / "lake", tmp_path / "backup"
    shutil.copytree(lake, backup, ignore=shutil.ignore_patterns("_checkpoints"))
    world.cluster.produce("orders", 2, (b"later", b"x"))
    world.run()
    kept = tmp_path / "checkpoints"
    shutil.move(lake / "_checkpoints", kept)
    shutil.rmtree(lake)
    shutil.copytree(backup, lake)
    shutil.move(kept, lake / "_checkpoints")
    world.run()
    assert world.identities("orders") == world.produced("orders")
    assert any("the checkpoint is ahead of the table" in line for line in world.said)


def test_a_batch_behind_a_gap_is_refused(world: World) -> None:
    run = world.start()
    run.batch()
    state = run.checkpoint / "offsets/0"
    state.write_text(state.read_text().replace('"0": 30', '"0": 31'))
    world.cluster.produce("orders", 0, (b"a", b"a"), (b"b", b"b"))
    with pytest.raises(GapError, match="the table lacks offsets from 30, the batch begins at 31; 1 would be lost"):
        run.batch()


def test_the_older_of_two_runs_is_refused(world: World) -> None:
    older = world.start()
    older.batch()
    newer = world.start()
    assert older.checkpoint != newer.checkpoint  # in one, Spark would end whichever writes second, the newer one too
    world.cluster.produce("orders", 0, (b"later", b"x"))
    newer.batch()
    world.cluster.produce("orders", 1, (b"later", b"x"))
    with pytest.raises(SupersededError, match="another run of this job took the table over"):
        older.batch()
    newer.batch()
    assert world.identities("orders") == world.produced("orders")


def test_two_runs_that_start_at_once_are_not_both_refused(world: World) -> None:
    """Each has claimed one of the two tables last: whose the table is, theirs are the dead letters."""
    world.options["value"] = "json"
    older = world.start()
    newer = world.start()
    late = older.run.destinations["orders"].dead_letters
    late.refresh()
    late.claim("run-1")
    with pytest.raises(SupersededError, match="another run of this job took the table over"):
        older.batch()
    newer.batch()
    assert world.identities("orders__dead_letters") == world.produced("orders")


def test_dead_letters_claimed_by_an_older_run_in_mid_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.options["value"] = "json"
    world.start()
    newer = world.start()
    dead_letters = newer.run.destinations["orders"].dead_letters
    earnest = dead_letters.commit

    def claimed_first(change: Change) -> None:
        monkeypatch.setattr(dead_letters, "commit", earnest)
        other = world.warehouse.open("orders__dead_letters", "tables")
        assert other is not None
        other.claim("run-1")
        earnest(change)

    monkeypatch.setattr(dead_letters, "commit", claimed_first)
    newer.batch()
    assert world.identities("orders__dead_letters") == world.produced("orders")


def test_a_table_that_another_run_makes_at_the_same_moment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    earnest = Warehouse.create

    def made_by_another_first(warehouse: Warehouse, *layout: Any) -> Table:
        earnest(warehouse, *layout)
        return earnest(warehouse, *layout)

    monkeypatch.setattr(Warehouse, "create", made_by_another_first)
    world.run()
    assert world.identities("orders") == world.produced("orders")


def test_a_recreated_topic_is_noticed(world: World) -> None:
    world.run()
    world.cluster.logs.clear()
    world.cluster.topic_ids["orders"] = "another"
    world.cluster.produce("orders", 0, (b"anew", b"1"))
    with pytest.raises(TableError, match="topic orders was deleted and recreated"):
        world.start()
    world.options["recreated"] = "append"
    world.run()
    assert len(world.rows("orders")) == 91
    world.options["recreated"] = "fail"
    world.start()  # the table knows the new one now


def test_new_topics_by_pattern_get_tables_of_their_own(world: World) -> None:
    world.options["topic_pattern"] = "orders.*"
    run = world.start()
    run.batch()
    world.cluster.produce("orders.eu", 0, (b"k", b"v"))
    run.batch()
    assert world.identities("orders_eu") == [("orders.eu", 0, 0)]


def test_a_group_ahead_of_the_table_is_reported_and_set_back(world: World) -> None:
    world.cluster.group[TopicPartition("orders", 0)] = 17
    world.run()
    assert "the group's committed offsets are ahead of the table in 1 partitions" in world.said[0]
    assert world.cluster.group[TopicPartition("orders", 0)] == 30


def test_a_batch_of_nothing_but_dead_letters(world: World) -> None:
    world.options["value"] = "json"
    world.run()  # values that are no JSON, all of them
    assert world.identities("orders") == []
    assert world.identities("orders__dead_letters") == world.produced("orders")
    world.start().batch()
    assert world.identities("orders__dead_letters") == world.produced("orders")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({}, {"mode": "upsert"}, "was made by a job with mode append, this one has upsert"),
        ({"mode": "upsert"}, {"mode": "append"}, "was made by a job with mode upsert, this one has append"),
        ({}, {"value": "json"}, "was made by a job with value raw, this one has json"),
        (
            {"value": "json"},
            {"value": "avro", "registry": "http://localhost:1"},
            "was made by a job with value json, this one has avro",
        ),
        ({"value": "json"}, {"keep_raw": True}, "has no column _value: it was created by a job of another kind"),
        ({}, {"partition_by": "day"}, "is partitioned by none, the job by day"),
        (
            {"partition_by": "bucket(4)"},
            {"partition_by": "bucket(8)"},
            r"is partitioned by bucket\(4\), the job by bucket\(8\)",
        ),
        ({"partition_by": "hour"}, {"partition_by": "none"}, "is partitioned by hour, the job by none"),
    ],
)
def test_a_job_of_another_kind_does_not_touch_the_table(
    world: World, before: dict[str, Any], after: dict[str, Any], line: str
) -> None:
    world.options |= before
    world.run()
    written = {path: path.stat().st_mtime_ns for path in world.root.rglob("*")}
    world.options |= after
    with pytest.raises(TableError, match=line) as refused:
        world.start()
    assert len(str(refused.value).splitlines()) == 1
    assert {path: path.stat().st_mtime_ns for path in world.root.rglob("*")} == written


def test_a_table_that_was_appended_to_before_tables_knew_their_kind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Warehouse.create
    with monkeypatch.context() as earlier:
        earlier.setattr(
            Warehouse, "create", lambda self, name, job, schema, by, kind: create(self, name, job, schema, by)
        )
        world.run()
    world.run()
    world.options["mode"] = "upsert"
    with pytest.raises(TableError, match="table orders was not marked as created for upserts") as refused:
        world.start()
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("table_format", FORMATS)
def test_crashes_at_random_steps(table_format: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schema growth, dead letters and rows, with the process dying before or after any commit."""
    rng = random.Random(seed)
    cluster = FakeCluster()
    cluster.produce("events", 0, *json_records(0, 10))
    world = World(tmp_path, cluster, {"into": table_format, "value": "json"})
    for _ in range(12):
        cluster.produce("events", rng.randrange(2), *json_records(0, rng.randrange(1, 25)))
        run_that_may_die(world, rng, monkeypatch)
    run = world.start()
    run.batch()
    run.batch()
    good = world.identities("events")
    dead = world.identities("events__dead_letters")
    assert sorted(good + dead) == world.produced("events")
    by_offset = {(row["_partition"], row["_offset"]): row for row in world.rows("events")}
    for (partition, offset), row in by_offset.items():
        value = json.loads(cluster.logs[TopicPartition("events", partition)][offset][1] or b"null")
        assert row["id"] == value["id"]
        assert row.get("extra") == value.get("extra")
