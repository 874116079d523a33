"""What a commit leaves in a table, whatever its format: progress, owner, files; and a commit whose answer was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from pipeline.core.bookkeeping import advanced
from pipeline.core.partitioning import Partitioning
from pipeline.core.positions import Positions, TopicPositions
from pipeline.tables.contract import Change, Table
from pipeline.tables.record_columns import record_schema
from pipeline.tables.warehouse import TableFormat, Warehouse
from tests.pipeline.tables_world import FakeCluster, World

FORMATS = ["iceberg", "delta", "parquet"]


def made(tmp_path: Path, table_format: str) -> Table:
    warehouse = Warehouse(TableFormat(table_format), str(tmp_path), lambda: 1_795_000_000_000)
    return warehouse.create("orders", "tables", record_schema("", with_value=True), Partitioning())


def at(topic_id: str, *offsets: int) -> Positions:
    """Of partitions 0, 1, … of topic o."""
    return {"o": TopicPositions(topic_id, dict(enumerate(offsets)))}


def reach(table: Table, end: Positions) -> None:
    table.commit(Change((), (), advanced(table.progress(end), end)))


@pytest.mark.parametrize("table_format", FORMATS)
def test_partitions_of_an_earlier_topic_are_nothing_to_a_later_one(table_format: str, tmp_path: Path) -> None:
    """Delta's log had their offsets under the new topic as soon as it grew: as many records were never read."""
    table = made(tmp_path, table_format)
    reach(table, at("A", 10, 1000, 2000))
    reach(table, at("B", 5))
    assert table.progress(at("B", 0, 0, 0)) == at("B", 5)
    reach(table, at("B", 6, 7))
    assert table.progress(at("B", 0, 0, 0)) == at("B", 6, 7)
    reach(table, at("C", 1))
    assert table.progress(at("C", 0, 0, 0)) == at("C", 1)


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_topic_made_anew_with_fewer_partitions_that_then_grows(table_format: str, mode: str, tmp_path: Path) -> None:
    cluster = FakeCluster()
    for partition in range(2):
        cluster.produce("orders", partition, *((b"%d of %d" % (each, partition), b"old") for each in range(20)))
    world = World(tmp_path, cluster, {"into": table_format, "mode": mode, "recreated": "append"})
    world.run()
    cluster.logs.clear()
    cluster.group.clear()
    cluster.topic_ids["orders"] = "id-of-the-next"
    cluster.produce("orders", 0, (b"new 0", b"v"), (b"new 1", b"v"))
    world.run()
    cluster.produce("orders", 1, *((b"grown %d" % each, b"v") for each in range(5)))
    world.run()
    new = {row["key"] for row in world.rows("orders") if row["value"] == b"v"}
    assert new == {b"new 0", b"new 1", *(b"grown %d" % each for each in range(5))}
