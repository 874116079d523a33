"""Keyed tables through crashes, other runs and keys that move: the newest of each key, once, tombstones gone."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipeline.core.positions import TopicPositions
from barnabas_pipeline.tables.contract import CommitConflictError
from barnabas_pipeline.tables.locations import local_path
from barnabas_pipeline.tables.record_columns import TOMBSTONE, record_schema
from barnabas_pipeline.tables.upserts import newest_by_key
from barnabas_pipeline.tables.writing import partition_values
from tests.pipeline.tables_world import FakeCluster, World, run_that_may_die, timestamp_of

FORMATS = ["iceberg", "delta", "parquet"]
CHANGES = record_schema("", with_value=True).append(pa.field(TOMBSTONE, pa.bool_()))


def change(key: bytes, value: bytes | None, partition: int, offset: int, hour: int) -> dict[str, Any]:
    record = {"topic": "users", "partition": partition, "offset": offset, "timestamp": timestamp_of(hour)}
    return {**record, "key": key, "value": value, "headers": None, TOMBSTONE: value is None}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5)), max_size=30))
def test_one_change_of_each_key_is_left(drawn: list[tuple[int, int, int]]) -> None:
    rows = [change(b"k%d" % key, b"v", partition, at, hour) for at, (key, partition, hour) in enumerate(drawn)]
    left = newest_by_key(pa.Table.from_pylist(rows, schema=CHANGES)).to_pylist()
    expected = {}
    for row in rows:
        of_key = [each for each in rows if each["key"] == row["key"]]
        last = {each["partition"]: each for each in of_key}.values()  # offsets only grow
        expected[row["key"]] = max(last, key=lambda each: (each["timestamp"], each["partition"]))
    assert {each["key"]: (each["partition"], each["offset"]) for each in left} == {
        key: (each["partition"], each["offset"]) for key, each in expected.items()
    }
    assert len(left) == len(expected)


@pytest.mark.parametrize("partition_by", ["none", "day", "bucket(2)"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_key_that_moved_to_another_partition_keeps_its_later_row(
    table_format: str, partition_by: str, tmp_path: Path
) -> None:
    """Timestamps are hours by offset: what partition 1 brings in the second batch is older than what is there."""
    cluster = FakeCluster()
    filler = [(b"filler", b"x")] * 30
    cluster.produce("users", 0, *filler, (b"stays", b"late"), (b"kept", b"late"), (b"goes", b"late"))
    cluster.produce("users", 1, (b"other", b"1"))
    world = World(tmp_path, cluster, {"into": table_format, "mode": "upsert", "partition_by": partition_by})
    world.run()
    cluster.produce("users", 1, (b"stays", b"early"), (b"kept", None))
    world.run()
    assert {row["key"]: row["value"] for row in world.rows("users")} == {
        b"filler": b"x",
        b"stays": b"late",
        b"kept": b"late",
        b"goes": b"late",
        b"other": b"1",
    }
    cluster.produce("users", 1, *filler, (b"stays", b"later still"), (b"goes", None))
    world.run()
    assert {row["key"]: row["value"] for row in world.rows("users")} == {
        b"filler": b"x",
        b"stays": b"later still",
        b"kept": b"late",
        b"other": b"1",
    }
    assert len(world.rows("users")) == 4


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("table_format", FORMATS)
def test_upserts_through_crashes_at_random_steps(
    table_format: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that grow with the batch that needs them, tombstones and dead letters; keys keep to one partition."""
    rng = random.Random(seed)
    cluster = FakeCluster()
    produce(cluster, rng, 0)
    partition_by = rng.choice(["none", "bucket(3)", "day"])
    options = {"into": table_format, "value": "json", "mode": "upsert", "partition_by": partition_by}
    world = World(tmp_path, cluster, options)
    for step in range(1, 10):
        produce(cluster, rng, step)
        run_that_may_die(world, rng, monkeypatch)
    run = world.start()
    run.batch()
    run.batch()
    expected: dict[bytes, dict[str, Any]] = {}
    dead = []
    for at, log in cluster.logs.items():
        for offset, (key, value) in enumerate(log):
            assert key is not None
            if value == b"{":
                dead.append((at.topic, at.partition, offset))
                continue
            expected.pop(key, None)
            if value is not None:
                expected[key] = json.loads(value)
    rows = world.rows("users")
    values = {row["_key"]: {name: row.get(name) for name in COLUMNS if row.get(name) is not None} for row in rows}
    assert values == expected
    assert len(rows) == len(expected)
    assert world.identities("users__dead_letters") == sorted(dead)


COLUMNS = ("id", "Upper", "größe", "tick`ed", "nested")


def produce(cluster: FakeCluster, rng: random.Random, step: int) -> None:
    for _ in range(rng.randrange(1, 15)):
        number = rng.randrange(8)
        value: bytes | None = None
        if rng.random() < 0.7:
            document: dict[str, Any] = {"id": rng.randrange(1000)}
            for column in COLUMNS[1 : 1 + step // 2]:
                document[column] = {"Deep": [{"x": step}]} if column == "nested" else f"of {step}"
            value = json.dumps(document).encode() if rng.random() < 0.9 else b"{"
        cluster.produce("users", number % 2, (b"k%d" % number, value))


@pytest.mark.parametrize(
    "changes",
    [
        [change(b"a", b"2", 0, 1, 1)],
        [change(b"unknown", None, 0, 1, 1)],  # changes no row: delta-rs' merge has nothing to commit then
    ],
    ids=["changes a row", "changes nothing"],
)
@pytest.mark.parametrize("table_format", FORMATS)
def test_an_upsert_onto_a_head_that_moved_commits_nothing(
    table_format: str, changes: list[dict[str, Any]], tmp_path: Path
) -> None:
    cluster = FakeCluster()
    cluster.produce("users", 0, (b"a", b"1"))
    world = World(tmp_path, cluster, {"into": table_format, "mode": "upsert"})
    world.run()
    older, newer = (world.warehouse.open("users", "tables") for _ in range(2))
    assert older is not None
    assert newer is not None
    newer.claim("newer")
    reached = {"users": TopicPositions("id-of-users", {0: 2})}
    table = pa.Table.from_pylist(changes, schema=CHANGES)
    with pytest.raises(CommitConflictError):
        older.upsert(table, reached, {})
    assert [row["value"] for row in world.rows("users")] == [b"1"]
    newer.refresh()
    assert newer.progress(reached)["users"].offsets == {0: 1}
    older.refresh()
    older.upsert(table, reached, {})
    newer.refresh()
    assert newer.progress(reached)["users"].offsets == {0: 2}


@pytest.mark.parametrize("table_format", FORMATS)
def test_only_buckets_of_the_keys_are_read(table_format: str, tmp_path: Path) -> None:
    """The other buckets' files are gone meanwhile: who looked at one of them would fail."""
    cluster = FakeCluster()
    cluster.produce("users", 0, *((b"k%d" % number, b"1") for number in range(64)))
    world = World(tmp_path, cluster, {"into": table_format, "mode": "upsert", "partition_by": "bucket(16)"})
    run = world.start()
    run.batch()
    table = world.warehouse.open("users", "look")
    assert table is not None
    row = next(each for each in world.rows("users") if each["key"] == b"k7")
    values = partition_values(pa.table({"key": [b"k7"]}), table.partitioning)
    assert values is not None
    (own,) = values.to_pylist()
    hidden = [local_path(file.uri) for file in table.files() if file.partition != own]
    assert len(hidden) > 10
    for path in hidden:
        assert path is not None
        shutil.move(path, path.with_suffix(".hidden"))
    cluster.produce("users", 0, (b"k7", b"2"), (b"k7", b"3"))
    run.batch()
    for path in hidden:
        assert path is not None
        shutil.move(path.with_suffix(".hidden"), path)
    rows = {each["key"]: each["value"] for each in world.rows("users")}
    assert (row["value"], rows[b"k7"]) == (b"1", b"3")
    assert len(rows) == 64
