"""Columns that a job declares, of tables that are there: added, or refused where they are there and otherwise."""

from __future__ import annotations

import decimal
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from barnabas_pipeline.core.columns import RESERVED, Kind
from barnabas_pipeline.tables.arrow_types import from_arrow_schema
from barnabas_pipeline.tables.contract import CommitConflictError, TableError
from barnabas_pipeline.tables.record_columns import RECORD_FIELDS, TOMBSTONE
from tests.pipeline.tables_world import FakeCluster, World

FORMATS = ["iceberg", "delta", "parquet"]


def world_of(tmp_path: Path, table_format: str, value: bytes) -> World:
    """A table with a row of it."""
    cluster = FakeCluster()
    cluster.produce("orders", 0, (b"k", value))
    world = World(tmp_path, cluster, {"into": table_format, "value": "json"})
    world.run()
    return world


def test_reserved_are_the_names_that_rows_say_of_their_records() -> None:
    assert {f"_{name}" for name in RECORD_FIELDS} | {TOMBSTONE} == RESERVED


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_declared_column_that_the_table_lacks_is_added(table_format: str, tmp_path: Path) -> None:
    """It had no effect: the first value's type was the column's."""
    world = world_of(tmp_path, table_format, b'{"id": 1}')
    world.options["columns"] = {"id": "long", "price": "decimal(12,2)"}
    world.cluster.produce("orders", 0, (b"k", b'{"id": 2, "price": 10}'), (b"k", b'{"id": 3, "price": 10.55}'))
    world.run()
    prices = {row["id"]: row.get("price") for row in world.rows("orders")}
    assert prices == {1: None, 2: decimal.Decimal("10.00"), 3: decimal.Decimal("10.55")}
    world.run()
    assert world.identities("orders") == world.produced("orders")


@pytest.mark.parametrize("table_format", FORMATS)
def test_each_type_is_the_same_in_a_table_that_was_given_it(table_format: str, tmp_path: Path) -> None:
    """Formats have names of their own for them: a run that declares what its table has is never refused."""
    world = world_of(tmp_path, table_format, b'{"id": 1}')
    names = [kind.value for kind in Kind if kind is not Kind.UNKNOWN]
    world.options["columns"] = {f"of_{name}": name for name in names} | {"of_decimal": "decimal(38,10)"}
    for _ in range(2):
        world.run()
        table = world.warehouse.open("orders", "tables")
        assert table is not None
        columns = from_arrow_schema(table.arrow_schema()).columns
        assert columns[-len(world.job.declared.columns) :] == world.job.declared.columns


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"price": "decimal(12,2)"}, "column price of table orders is double, the job declares decimal"),
        ({"id": "double"}, "column id of table orders is long, the job declares double: a column keeps its type"),
        ({"at": "timestamp"}, "column at of table orders is struct, the job declares timestamp"),
        ({"ID": "long"}, "has a column id, from which the declared ID differs in case only: declare it as id"),
    ],
)
def test_a_declared_column_that_the_table_has_otherwise_is_refused(
    table_format: str, columns: dict[str, str], line: str, tmp_path: Path
) -> None:
    world = world_of(tmp_path, table_format, b'{"id": 1, "price": 0.5, "at": {"x": 1}}')
    table = world.warehouse.open("orders", "tables")
    assert table is not None
    before = table.epoch()
    world.options["columns"] = columns
    with pytest.raises(TableError, match=line) as refused:
        world.start()
    assert len(str(refused.value).splitlines()) == 1
    table.refresh()
    assert table.epoch() == before  # the run that has it goes on


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_declared_column_is_added_onto_a_head_that_moved(
    table_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, table_format, b'{"id": 1}')
    table = world.warehouse.open("orders", "tables")
    add_columns = type(table).add_columns
    attempts = []

    def refused_once(*arguments: object) -> None:
        attempts.append(arguments)
        if len(attempts) == 1:
            raise CommitConflictError("another commit was first")
        add_columns(*arguments)

    monkeypatch.setattr(type(table), "add_columns", refused_once)
    world.options["columns"] = {"price": "decimal(12,2)"}
    world.run()
    assert len(attempts) == 2
    opened = world.warehouse.open("orders", "tables")
    assert opened is not None
    assert "price" in opened.arrow_schema().names


def test_a_table_that_is_full_has_no_room_for_a_declared_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas_pipeline.tables.destination.COLUMNS_MAX", 2)
    world = world_of(tmp_path, "parquet", b'{"id": 1, "price": 0.5}')
    world.options["columns"] = {"id": "long"}
    world.run()
    world.options["columns"] = {"more": "long"}
    with pytest.raises(TableError, match="table orders has no room for column more: its 2 columns are full"):
        world.start()
