"""Keyed tables: the newest of each key, tombstones gone; small files made large beside a running job."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.tables.maintaining import maintain_table
from tests.pipeline.tables_world import FakeCluster, KilledError, World

FORMATS = ["iceberg", "delta", "parquet"]


def latest(cluster: FakeCluster) -> dict[bytes, bytes]:
    """What a compacted topic comes down to; keys keep to one partition here."""
    values: dict[bytes, bytes] = {}
    for log in cluster.logs.values():
        for key, value in log:
            if key is not None:
                values.pop(key, None)
                if value is not None:
                    values[key] = value
    return values


@pytest.mark.parametrize("partition_by", ["none", "bucket(3)"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_the_newest_of_each_key(table_format: str, partition_by: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    cluster = FakeCluster()
    cluster.produce("users", 0, (b"k0", b"first"))
    world = World(tmp_path, cluster, {"into": table_format, "mode": "upsert", "partition_by": partition_by})
    for batch in range(5):
        for _ in range(15):
            key = b"k%d" % rng.randrange(12)
            value = None if rng.random() < 0.3 else b"v%d" % rng.randrange(1000)
            cluster.produce("users", int(key[1:]) % 2, (key, value))
        cluster.produce("users", 0, (None, b"without a key"))
        run = world.start()
        if batch == 2:
            with pytest.raises(KilledError):
                run.batch(crash_before_commit_log=True)
        else:
            run.batch()
    world.start().batch()
    assert {row["key"]: row["value"] for row in world.rows("users")} == latest(cluster)
    assert len(world.rows("users")) == len(latest(cluster))
    reasons = {row["reason"] for row in world.rows("users__dead_letters")}
    assert reasons == {"the record has no key, the table is by key"}
    assert len(world.rows("users__dead_letters")) == 5


@pytest.mark.parametrize("table_format", FORMATS)
def test_compaction_and_expiry_keep_every_row_and_the_progress(table_format: str, tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.produce("orders", 0, (b"k", b"v"))
    world = World(tmp_path, cluster, {"into": table_format, "partition_by": "day"})
    run = world.start()
    for number in range(4):
        run.batch()
        cluster.produce("orders", 0, *((b"k", b"%d" % number) for _ in range(10)))
    table = world.warehouse.open("orders", "maintain")
    assert table is not None
    done = maintain_table(table, world.now_ms, 1024 * 1024, -(10**10), 10**10)  # all that is not the newest
    assert done.files_after < done.files_before
    assert done.expired > 0
    run.batch()  # the job that ran all the while goes on
    assert world.identities("orders") == world.produced("orders")
    world.start().batch()
    assert world.identities("orders") == world.produced("orders")


@pytest.mark.parametrize("table_format", FORMATS)
def test_partitions_of_a_table(table_format: str, tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.produce("orders", 3, *((b"k%d" % number, b"v") for number in range(30)))
    for partition_by, count in (("day", 2), ("hour", 30), ("partition", 1), ("bucket(2)", 2)):
        world = World(tmp_path / f"by {partition_by}", cluster, {"into": table_format, "partition_by": partition_by})
        world.run()
        assert world.identities("orders") == world.produced("orders")
        table = world.warehouse.open("orders", "look")
        assert table is not None
        assert len({file.partition for file in table.files()}) == count


def test_bounds_of_keys_keep_other_files_as_they_are(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.produce("users", 0, (b"a", b"1"), (b"b", b"1"))
    world = World(tmp_path, cluster, {"into": "parquet", "mode": "upsert"})
    world.run()
    cluster.produce("users", 0, (b"y", b"1"), (b"z", b"1"))
    world.run()
    before = {each.uri for each in _files(world)}
    cluster.produce("users", 0, (b"z", b"2"))
    world.run()
    assert len(before & {each.uri for each in _files(world)}) == 1
    assert {row["key"]: row["value"] for row in world.rows("users")} == latest(cluster)
    assert len(cluster.logs[TopicPartition("users", 0)]) == 5


def _files(world: World) -> list:  # type: ignore[type-arg]
    table = world.warehouse.open("users", "look")
    assert table is not None
    return table.files()
