"""What a writer of rows makes of their columns, without Spark and without a cluster."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

pytest.importorskip("pyspark", reason="no pyspark here (make pipeline-test)")

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from barnabas_pipeline.core.errors import RequestRefused, WrongOption
from barnabas_pipeline.core.losses import Loss, LossReason
from barnabas_pipeline.core.options import WriteOptions, write_options
from barnabas_pipeline.core.settings import ClientSettings
from barnabas_pipeline.kafka.columns import HEADERS_TYPE
from barnabas_pipeline.kafka.loss_topic import write_losses
from barnabas_pipeline.source import writing
from barnabas_pipeline.source.writing import BatchWriter

HEADER = StructType([StructField("key", StringType(), False), StructField("value", BinaryType())])


def options(**more: str) -> WriteOptions:
    return write_options({"kafka.bootstrap.servers": "x:1", "topic": "orders", **more})


def schema(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in {"value": BinaryType(), **types}.items()])


class FakeProducer:
    """Acknowledges at once, and keeps what it got."""

    produced: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, settings: dict[str, Any]) -> None:
        del settings

    def produce(self, topic: str, value: Any, key: Any, headers: Any, on_delivery: Any, **more: Any) -> None:
        FakeProducer.produced.append((topic, value, key, headers, more))

    def poll(self, seconds: float) -> None:
        pass

    def flush(self) -> int:
        return 0


@pytest.fixture
def produced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    monkeypatch.setattr(writing, "Producer", FakeProducer)
    monkeypatch.setattr(FakeProducer, "produced", [])
    return FakeProducer.produced


def rows(*headers: list[dict[str, Any] | None] | None) -> pa.RecordBatch:
    columns = [pa.array([b"v"] * len(headers), pa.binary()), pa.array(headers, HEADERS_TYPE)]
    return pa.RecordBatch.from_arrays(columns, names=["value", "headers"])


@pytest.mark.parametrize("given", [{}, {"includeHeaders": "true"}, {"includeHeaders": "false"}])
def test_headers_are_written_whatever_is_said_of_them(given: dict[str, str], produced: list[tuple[Any, ...]]) -> None:
    writer = BatchWriter(options(**given), schema(headers=ArrayType(HEADER)))
    batch = rows([{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, [])
    assert writer.write(iter([batch])).records_count == 3
    assert [each[3] for each in produced] == [[("a", b"1"), ("a", None)], None, []]


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_a_header_without_a_name_is_refused(header: Any, produced: list[tuple[Any, ...]]) -> None:
    writer = BatchWriter(options(), schema(headers=ArrayType(HEADER)))
    with pytest.raises(RequestRefused, match="a header whose key is null"):
        writer.write(iter([rows([header])]))
    assert produced == []


@pytest.mark.parametrize(
    "kind",
    [
        StringType(),
        ArrayType(StringType()),
        ArrayType(StructType([StructField("key", StringType())])),
        ArrayType(StructType([StructField("key", StringType()), StructField("value", StringType())])),
        ArrayType(StructType([StructField("name", StringType()), StructField("value", BinaryType())])),
    ],
)
def test_headers_of_another_type_are_refused_before_anything_is_written(kind: DataType) -> None:
    with pytest.raises(WrongOption, match=r"column 'headers' is of type .*, and must be of array<struct<key:string,"):
        BatchWriter(options(), schema(headers=kind))


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"key": IntegerType()}, "column 'key' is of type int, and can't be written"),
        ({"partition": LongType()}, "column 'partition' is of type bigint, and can't be written"),
        ({"topic": BinaryType()}, "column 'topic' is of type binary, and can't be written"),
    ],
)
def test_columns_of_other_types_are_refused(types: dict[str, DataType], message: str) -> None:
    with pytest.raises(WrongOption, match=message):
        BatchWriter(options(), schema(**types))


def test_a_cluster_that_is_gone_is_one_line_and_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """librdkafka prints each attempt, and of a record that it gives up says only that it timed out."""
    writer = BatchWriter(
        options(**{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.message.timeout.ms": "500"}), schema()
    )
    with pytest.raises(RequestRefused, match=r"for topic orders was not written: .* timed out; .* Connection refused"):
        writer.write(iter([rows(None)]))
    assert _written_of_this_client(capfd) == []


def test_a_loss_topic_that_is_gone_is_one_line_and_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    settings = ClientSettings((("127.0.0.1", 1),), api_timeout_ms=500)
    lost = Loss("orders", "id", 0, 1, 2, LossReason.RETENTION)
    with pytest.raises(RequestRefused, match=r"can't be recorded .*: .* Connection refused") as error:
        write_losses(settings, "losses", [lost])
    assert "\n" not in str(error.value)
    assert _written_of_this_client(capfd) == []


def _written_of_this_client(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines on stderr without those of librdkafka about other ports: clients of other tests may live on."""
    lines = capfd.readouterr().err.splitlines()
    return [line for line in lines if "rdkafka#" not in line or "127.0.0.1:1/" in line]
