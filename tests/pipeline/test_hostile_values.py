"""Harmful values and timestamps: a dead letter each, or a row, and never the end of the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from tests.pipeline.tables_world import FakeCluster, World
from tests.pipeline.test_exactly_once import FORMATS

Outcome = tuple[dict[int, dict[str, Any]], dict[int, str]]
RECORD = {"_topic", "_partition", "_timestamp", "_key", "_headers", "_offset"}


def outcome(path: Path, table_format: str, values: list[bytes], **options: Any) -> Outcome:
    """Rows and reasons by offset, of two batches: the second one has the last value."""
    cluster = FakeCluster()
    cluster.produce("events", 0, *((b"k", value) for value in values[:-1]))
    world = World(path, cluster, {"into": table_format, "value": "json", **options})
    run = world.start()
    run.batch()
    cluster.produce("events", 0, (b"k", values[-1]))
    run.batch()
    assert sorted(world.identities("events") + world.identities("events__dead_letters")) == world.produced("events")
    rows = {
        row["_offset"]: {name: value for name, value in row.items() if name not in RECORD and value is not None}
        for row in world.rows("events")
    }
    return rows, {row["offset"]: row["reason"] for row in world.rows("events__dead_letters")}


@pytest.fixture(params=FORMATS)
def table_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_batch_of_nothing_but_misfits(table_format: str, tmp_path: Path) -> None:
    rows, dead = outcome(tmp_path, table_format, [b"{", b'{"a": 1}'])
    assert rows == {1: {"a": 1}}
    assert list(dead) == [0]


def test_numbers_that_no_decimal_is(table_format: str, tmp_path: Path) -> None:
    values = [b'{"p": "NaN"}', b'{"p": "sNaN"}', b'{"p": "-Infinity"}', b'{"p": 12345678901234567.89}', b'{"p": 1.5}']
    rows, dead = outcome(tmp_path, table_format, values, columns={"p": "decimal(38,2)"})
    assert [str(row["p"]) for row in rows.values()] == ["1.50"]
    assert "(of over 15 digits: as a text)" in dead[3]
    assert sorted(dead) == [0, 1, 2, 3]


def test_times_that_are_of_no_year_in_utc(table_format: str, tmp_path: Path) -> None:
    values = [b'{"t": "0001-01-01T00:00:00+05:00"}', b'{"t": "9999-12-31T23:59:59-05:00"}', b'{"t": 1e3}', b'{"t": 7}']
    rows, dead = outcome(tmp_path, table_format, values, columns={"t": "timestamp"})
    assert [row["t"].timestamp() for row in rows.values()] == [0.007]
    assert sorted(dead) == [0, 1, 2]


def test_whole_numbers_of_over_64_bits_keep_their_digits(table_format: str, tmp_path: Path) -> None:
    numbers = [123456789012345678901234567890, 2**64, -(2**63) - 1, -(10**19) + 1]
    values = [b'{"a": %d, "text": {"x": %d}}' % (number, number) for number in numbers]
    rows, _ = outcome(tmp_path, table_format, values, columns={"text": "string"})
    assert rows == {offset: {"a": str(number), "text": f'{{"x":{number}}}'} for offset, number in enumerate(numbers)}


def test_values_inside_of_values(table_format: str, tmp_path: Path) -> None:
    lists, objects = b"[" * 400 + b"]" * 400, b'{"a":' * 400 + b"1" + b"}" * 400
    far_too_deep = b'{"a": ' + b"[" * 100_000
    values = [b'{"text": %s}' % lists, b'{"text": %s}' % objects, b'{"long": %s}' % lists, far_too_deep, b'{"long": 1}']
    rows, dead = outcome(tmp_path, table_format, values, columns={"text": "string", "long": "long"})
    assert {row.get("text") for row in rows.values()} == {lists.decode(), objects.decode(), None}
    assert sorted(dead) == [2, 3]


def test_names_that_differ_in_case_only_within_one_batch(table_format: str, tmp_path: Path) -> None:
    values = [
        b'{"o": {"Id": 1}}',
        b'{"o": {"id": 2}}',
        b'{"l": [{"X": 1}, {"x": 2}]}',
        b'{"O": 1}',
        b'{"o": {"Id": 3}}',
    ]
    rows, dead = outcome(tmp_path, table_format, values)
    assert (rows[0]["o"], rows[4]["o"]) == ({"Id": 1}, {"Id": 3})
    assert sorted(dead) == [1, 2, 3]


def test_names_of_all_sorts(table_format: str, tmp_path: Path) -> None:
    names = [f"x{chr(code)}y" for code in range(128)] + ["a.b", "ß", "\U0001f600", "x" * 255, "\\", "/", "%2F"]
    values = [json.dumps({name: 1}).encode() for name in names]
    outcome(tmp_path, table_format, [b'{"a": {"b": 1}}', *values])


@pytest.mark.parametrize("partition_by", ["day", "hour", "partition", "bucket(4)"])
def test_fields_that_are_called_like_the_tables_partitions(
    table_format: str, partition_by: str, tmp_path: Path
) -> None:
    names = ["_day", "_hour", "_kafka_partition", "_bucket_4", "_timestamp_day", "_timestamp_hour", "_key_bucket"]
    fields = dict.fromkeys([*names, "_partition_partition"], 1)
    rows, dead = outcome(tmp_path, table_format, [json.dumps(fields).encode(), b"{}"], partition_by=partition_by)
    assert dead == {}
    assert sum(value == 1 for value in rows[0].values()) == len(fields)


def test_a_dead_letter_gives_the_table_no_columns(table_format: str, tmp_path: Path) -> None:
    wide = json.dumps({f"f{number}": number for number in range(5000)}).encode()
    bad = b'{"never": 1, "more": {"deep": 2}, "id": "x"}'
    rows, dead = outcome(tmp_path, table_format, [wide, bad, b'{"id": 1}'], columns={"id": "long"})
    assert rows == {2: {"id": 1}}
    assert "over 1000 columns" in dead[0]
    world = World(tmp_path, FakeCluster(), {"into": table_format, "value": "json", "topics": ["events"]})
    table = world.warehouse.open("events", "tables")
    assert table is not None
    assert set(table.arrow_schema().names) == {*RECORD, "id"}


@pytest.mark.parametrize("value", ["raw", "json"])
@pytest.mark.parametrize("partition_by", ["none", "day"])
def test_timestamps_of_no_calendar(table_format: str, value: str, partition_by: str, tmp_path: Path) -> None:
    """Microseconds and nanoseconds where Kafka has milliseconds: producers do it, and most readers fail at them."""
    cluster = FakeCluster()
    cluster.produce("events", 0, *((b"k", b'{"a": 1}') for _ in range(4)))
    cluster.times_us = {1: 1_795_000_000_000_000 * 1000, 2: -(10**17), 3: None}
    world = World(tmp_path, cluster, {"into": table_format, "value": value, "partition_by": partition_by})
    world.run()
    name = "offset" if value == "raw" else "_offset"
    assert [row[name] for row in world.rows("events")] == [0]
    dead = {row["offset"]: (row["timestamp"], row["reason"]) for row in world.rows("events__dead_letters")}
    assert sorted(dead) == [1, 2, 3]
    assert all(time is None and "outside of the years 1 to 9999" in reason for time, reason in dead.values())


def test_a_keyed_table_of_records_without_a_time(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.produce("events", 0, (b"k", b"1"))
    cluster.times_us = {0: None}
    world = World(tmp_path, cluster, {"into": "parquet", "mode": "upsert"})
    world.run()
    assert world.identities("events__dead_letters") == [("events", 0, 0)]


@pytest.mark.parametrize("options", [{}, {"keep_raw": True}], ids=["columns", "the values too"])
def test_more_columns_in_a_batch_than_a_table_can_have(
    table_format: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Each of two tasks has room for its own; what of both has none are dead letters, as with one task."""
    cluster = FakeCluster()
    for partition in range(2):
        for number in range(0, 700, 100):
            attributes = {f"of_{partition}_{each}": each for each in range(number, number + 100)}
            cluster.produce("events", partition, (b"k", json.dumps({"id": number, "attrs": attributes}).encode()))
    world = World(tmp_path, cluster, {"into": table_format, "value": "json", **options})
    run = world.start()
    run.batch()
    cluster.produce("events", 1, (b"k", b'{"id": 1}'))
    run.batch()
    assert sorted(world.identities("events") + world.identities("events__dead_letters")) == world.produced("events")
    assert {row["reason"] for row in world.rows("events__dead_letters")} == {
        "its new fields would take the table over 1000 columns"
    }
    rows = world.rows("events")
    assert len(rows) == 9 + 1  # 1,000 columns are the ids, nine hundred names, and 99 of a record that needs 100
    assert sum(value is not None for row in rows for value in (row["attrs"] or {}).values()) == 900


def test_the_last_column_that_a_table_can_have(table_format: str, tmp_path: Path) -> None:
    """The record's own are not among them, kept values neither: a task that had space left reported one forever."""
    first = json.dumps({f"c{each}": each for each in range(999)}).encode()
    rows, dead = outcome(tmp_path, table_format, [first, b'{"one": 1}', b'{"two": 2}'], keep_raw=True)
    assert [len(row) for row in rows.values()] == [999 + 1, 1 + 1]  # with `_value`
    assert dead == {2: "its new fields would take the table over 1000 columns"}
