"""Spark's Python Data Source `format("barnabas")`: topics of any Kafka cluster as rows, and rows into topics.

Register it once per session, `BarnabasDataSource.register(spark)`; then it reads and writes as `format("kafka")` does,
with the same columns, and with the options in `barnabas_pipeline.core.options`. It needs Spark 4.2 or newer.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from barnabas_pipeline.core.errors import WrongOption
from barnabas_pipeline.core.options import Use, includes_headers, read_options, write_options
from barnabas_pipeline.source.batch import BatchReader
from barnabas_pipeline.source.stream import StreamReader
from barnabas_pipeline.source.writing import BatchWriter, StreamWriter

COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
HEADERS_COLUMN = "headers array<struct<key: string, value: binary>>"


class BarnabasDataSource(DataSource):
    """Spark makes one for each `load`, `start` or `save`, with the options that it was given."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    @classmethod
    def register(cls, spark: Any) -> None:
        spark.dataSource.register(cls)

    def schema(self) -> str:
        return f"{COLUMNS}, {HEADERS_COLUMN}" if includes_headers(self.options) else COLUMNS

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(read_options(self.options, Use.BATCH))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        return StreamReader(read_options(self.options, Use.STREAM))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise WrongOption("rows can only be appended to a topic, not overwrite it: say .mode('append')")
        return BatchWriter(write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        return StreamWriter(write_options(self.options), schema)
