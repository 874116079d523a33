"""A tables job's options, its partitionings, and the line that each batch prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipeline.core.columns import Column, ColumnType, DecimalOf, Kind, Struct, parse_type, type_text
from barnabas_pipeline.core.errors import WrongOption
from barnabas_pipeline.core.freshness import BatchFigures
from barnabas_pipeline.core.partitioning import PartitionBy, Partitioning, parse_partitioning, partitioning_of
from barnabas_pipeline.core.tables_job import tables_job

TOPIC = {"topics": ["orders"]}
JSON = {**TOPIC, "value": "json"}


def test_a_job_needs_little() -> None:
    job = tables_job(TOPIC)
    assert (job.into, job.mode, job.value, job.table) == ("iceberg", "append", "raw", "{topic}")
    assert job.group_id == "barnabas-pipeline-tables"
    assert job.checkpoint_root == "./data/tables/_checkpoints/tables"


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("decimal(12,2)", DecimalOf(12, 2)),
        (" Decimal( 12 , 2 ) ", DecimalOf(12, 2)),
        ("decimal(12)", DecimalOf(12, 0)),
        ("Long", Kind.LONG),
    ],
)
def test_declared_columns(text: str, declared: ColumnType) -> None:
    job = tables_job({**JSON, "columns": {"price": text}})
    assert job.declared == Struct((Column("price", declared),))
    assert parse_type(type_text(declared)) == declared


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "either topics or a topic_pattern"),
        ({**TOPIC, "topic_pattern": "o.*"}, "either topics or a topic_pattern"),
        ({"topic_pattern": "o("}, "topic_pattern"),
        ({**TOPIC, "into": "hudi"}, "Invalid enum value 'hudi'"),
        ({**TOPIC, "trigger": 5}, "unknown field `trigger`, did you mean `trigger_ms`"),
        ({**TOPIC, "column": {"a": "long"}}, "unknown field `column`, did you mean `columns`"),
        ({**TOPIC, "option": {"a": "b"}}, "unknown field `option`, did you mean `options`"),
        ({"topic-pattern": "o.*"}, "unknown field `topic-pattern`, did you mean `topic_pattern`"),
        ({**TOPIC, "zzzzz": "x"}, "unknown field `zzzzz`$"),
        ({**TOPIC, "trigger_ms": "1s"}, "Expected `int`, got `str`"),
        ({**TOPIC, "trigger_ms": -1}, "trigger_ms must be at least 0"),
        ({**TOPIC, "partition_by": "month"}, "unknown partitioning 'month': use none, day, hour"),
        ({**TOPIC, "partition_by": "bucket(0)"}, r"unknown partitioning 'bucket\(0\)'"),
        ({**TOPIC, "value": "json", "columns": {"a": "int"}}, "unknown type 'int': use boolean"),
        ({**TOPIC, "columns": {"a": "long"}}, "value is raw"),
        ({**JSON, "columns": {"": "long"}}, "a column's name has 1 to 255 characters, that of '' has 0"),
        ({**JSON, "columns": {"x" * 256: "long"}}, "that of 'xxxxxxxxxxxxxxxxxxxx' has 256"),
        ({**JSON, "columns": {"_Offset": "long"}}, "no column can have the name '_Offset': .* is stored in '_Offset_'"),
        ({**JSON, "columns": {"_day": "long"}, "partition_by": "day"}, "no column can have the name '_day'"),
        (
            {**JSON, "columns": {"a b": "long"}},
            "no column can have the name 'a b': .* is stored in 'a_b', declare that",
        ),
        ({**JSON, "columns": {"A": "long", "a": "long"}}, "columns 'A' and 'a' differ only in case"),
        (
            {**JSON, "columns": {f"c{each}": "long" for each in range(1001)}},
            "at most 1,000 columns, 1,001 are declared",
        ),
        ({**JSON, "columns": {"d": "decimal(5, )"}}, r"unknown type 'decimal\(5, \)': use boolean"),
        ({**JSON, "columns": {"d": "decimal(²)"}}, r"unknown type 'decimal\(²\)'"),
        ({**JSON, "columns": {"d": "decimal(5,6)"}}, r"unknown type 'decimal\(5,6\)'"),
        ({**JSON, "columns": {"d": "decimal(39)"}}, r"unknown type 'decimal\(39\)'"),
        ({**TOPIC, "value": "avro"}, "requires either a registry or a schema_file"),
        ({**TOPIC, "value": "avro", "registry": "http://r", "schema_file": "f"}, "requires either a registry"),
        ({**TOPIC, "value": "json", "schema_file": "f"}, "value json does not use a schema_file"),
        ({**TOPIC, "registry": "http://r"}, "value raw does not use a registry"),
        (
            {**TOPIC, "value": "avro", "registry": "http://r", "registry_user": "me"},
            "registry_user must be NAME:SECRET",
        ),
        ({**TOPIC, "value": "json", "registry_user": "me:secret"}, "NAME:SECRET, and needs a registry"),
        (
            {**TOPIC, "value": "avro", "schema_file": "f", "message": "M"},
            "a message is only allowed for value protobuf",
        ),
        ({"topics": ["a", "b"], "mode": "upsert", "table": "all"}, "the keys of one topic"),
        ({**TOPIC, "name": "a/b"}, "a name may have letters"),
        ({**TOPIC, "to": "/tmp/a%b"}, r"can't contain \?, # or %"),
        ({**TOPIC, "table": "a/b"}, "a table's name may have letters"),
    ],
)
def test_wrong_options_are_reported(values: dict[str, object], reason: str) -> None:
    with pytest.raises(WrongOption, match=reason):
        tables_job(values)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("subscribe", "say topics"),
        ("SUBSCRIBEPATTERN", "say topic_pattern"),
        ("assign", "say topics"),
        ("startingOffsets", "say starting"),
        ("startingTimestamp", "say starting"),
        ("startingOffsetsByTimestamp", "say starting"),
        ("startingOffsetsOfUnnamed", "new topics and partitions are read from their earliest offset"),
        ("includeHeaders", "tables always have them"),
    ],
)
def test_options_of_the_source_that_are_the_jobs_own(name: str, instead: str) -> None:
    with pytest.raises(WrongOption, match=f"option {name} is set by the job: {instead}") as refused:
        tables_job({**TOPIC, "options": {name: "true"}})
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["none", "day", "hour", "partition", "bucket(16)"])
def test_partitionings_are_what_they_say(text: str) -> None:
    partitioning = parse_partitioning(text)
    assert str(partitioning) == text
    columns = [] if partitioning.by is PartitionBy.NONE else [partitioning.column]
    assert partitioning_of(columns) == partitioning


@given(st.sampled_from(list(PartitionBy)), st.none() | st.integers(-10_000, 1_000_000))
def test_labels_are_read_back(by: PartitionBy, value: int | None) -> None:
    partitioning = Partitioning(by, 16)
    assert partitioning.value(partitioning.label(value)) == value


def test_labels() -> None:
    assert Partitioning(PartitionBy.DAY).label(-1) == "1969-12-31"
    assert Partitioning(PartitionBy.HOUR).label(25) == "1970-01-02-01"


def test_the_line_of_a_batch() -> None:
    figures = BatchFigures(7, 12_000, 3, 1500, 40, 2345)
    assert figures.line() == ("batch 7: 12,000 rows, 3 dead letters in 1.5 s (8,000/s), lag 40, freshness 2.3 s")
    assert figures.document()["rows_per_second"] == 8000
