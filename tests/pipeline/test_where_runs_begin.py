"""Where a run begins, and with what: nothing between two runs is skipped, and dead letters stay with their run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.tables.contract import TableError
from tests.pipeline.tables_world import FakeCluster, KilledError, World
from tests.pipeline.test_exactly_once import FORMATS, filled, json_records


@pytest.fixture(params=FORMATS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, filled(), {"into": request.param})


def offsets_of(world: World, table: str) -> list[tuple[int, int]]:
    return [(partition, offset) for _, partition, offset in world.identities(table)]


def test_a_job_that_began_at_the_latest_goes_on_there(world: World) -> None:
    world.options["starting"] = "latest"
    world.run()
    assert world.rows("orders") == []
    world.cluster.produce("orders", 0, (b"while it was down", b"x"))
    world.run()
    assert offsets_of(world, "orders") == [(0, 30)]
    assert not world.said


def test_a_job_that_began_at_the_latest_goes_on_there_without_its_checkpoint(world: World) -> None:
    world.options["starting"] = "latest"
    world.run()
    shutil.rmtree(world.root / "lake/_checkpoints")
    world.cluster.produce("orders", 0, (b"while it was down", b"x"))
    world.cluster.produce("orders", 3, (b"in a new partition", b"x"))
    world.run()
    assert offsets_of(world, "orders") == [(0, 30), (3, 0)]


def test_a_crash_in_the_first_batch_of_a_job_that_began_at_the_latest(world: World) -> None:
    world.options["starting"] = "latest"
    run = world.start()
    # Spark's log of offsets has the first batch, the one that brings nothing: then the process dies.
    (run.checkpoint / "offsets").mkdir(parents=True)
    run._write_offsets(run.checkpoint / "offsets/0", world.cluster.end())
    world.cluster.produce("orders", 1, (b"while it was down", b"x"))
    run = world.start()
    run.batch()
    run.batch()
    assert offsets_of(world, "orders") == [(1, 30)]


def test_a_recreated_topic_is_read_from_its_beginning_wherever_the_job_began(world: World) -> None:
    world.options["starting"] = "latest"
    world.run()
    world.cluster.logs.clear()
    world.cluster.topic_ids["orders"] = "another"
    world.cluster.produce("orders", 0, (b"anew", b"1"))
    world.options["recreated"] = "append"
    world.run()
    assert offsets_of(world, "orders") == [(0, 0)]


@pytest.mark.parametrize("table_format", FORMATS)
def test_dead_letters_of_an_earlier_topic_set_nothing_aside(table_format: str, tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.produce("events", 0, *json_records(0, 10))  # 4 and 9 are dead letters
    world = World(tmp_path, cluster, {"into": table_format, "value": "json"})
    world.run()
    cluster.logs.clear()
    cluster.topic_ids["events"] = "another"
    good = [(b"k", json.dumps({"id": number}).encode()) for number in range(10)]
    cluster.produce("events", 0, *good[:2])
    world.options["recreated"] = "append"
    run = world.start()
    run.batch()
    cluster.produce("events", 0, *good[2:])
    run.batch()
    again = sorted(row["_offset"] for row in world.rows("events") if row["_key"] == b"k")
    assert again == list(range(10))


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_crash_between_the_dead_letters_and_the_rows_of_a_recreated_topic(
    table_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    cluster.produce("events", 0, *json_records(0, 10))  # 4 and 9 are dead letters
    world = World(tmp_path, cluster, {"into": table_format, "value": "json"})
    world.run()
    cluster.logs.clear()
    cluster.earliest_hour = 1000
    cluster.topic_ids["events"] = "another"
    records = [(b"k", b"{" if number == 2 else json.dumps({"id": number}).encode()) for number in range(10)]
    cluster.produce("events", 0, *records)
    world.options["recreated"] = "append"
    run = world.start()

    def dies(change: object) -> None:
        raise KilledError

    monkeypatch.setattr(run.run.destinations["events"].table, "commit", dies)
    with pytest.raises(KilledError):
        run.batch()
    run = world.start()
    run.batch()
    run.batch()
    again = sorted(row["_offset"] for row in world.rows("events") if row["_key"] == b"k")
    assert again == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert [row["offset"] for row in world.rows("events__dead_letters") if row["key"] == b"k"] == [2]


def test_an_upsert_table_of_two_topics_is_refused(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.produce("orders.eu", 0, (b"k", b"v"))
    cluster.produce("orders_eu", 0, (b"k", b"v"))
    world = World(tmp_path, cluster, {"into": "parquet", "mode": "upsert", "topic_pattern": "orders.*"})
    with pytest.raises(
        TableError, match=r"topics orders\.eu and orders_eu would both be upserted into table orders_eu"
    ):
        world.start()


def test_the_group_of_a_job_that_began_at_the_latest_has_its_offsets(world: World) -> None:
    world.options["starting"] = "latest"
    world.run()
    assert world.cluster.group == {TopicPartition("orders", partition): 30 for partition in range(3)}
