"""`df.write.format("barnabas")` and `df.writeStream.format("barnabas")`: rows into topics.

At least once: what a task has written stays written if the task fails and is repeated, or if Spark repeats a batch
after a crash, since Spark gives a task no batch id that could identify a record. Within a task the producer is
idempotent: retries neither duplicate nor reorder records. For exactly once, ignore duplicates when reading, or write
tables (`barnabas-pipeline tables`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from barnabas_pipeline.core.errors import RequestRefused, WrongOption
from barnabas_pipeline.core.options import WriteOptions
from barnabas_pipeline.kafka.deliveries import Deliveries
from barnabas_pipeline.kafka.librdkafka_config import librdkafka_config

_TEXT_OR_BYTES: Final = (StringType, BinaryType)
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_POLL_SECONDS: Final = 0.1


@dataclass
class Written(WriterCommitMessage):
    """The result of one task."""

    records_count: int


class _RowWriter:
    """The columns are the JVM connector's: `value`, and optionally `key`, `topic`, `partition` and `headers`. All
    existing ones are written, including headers, whether or not `includeHeaders` is set."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        check_schema(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Runs in a task; returns when all that it wrote is acknowledged. Raises RequestRefused with the first
        failure.
        """
        deliveries = Deliveries()
        producer = Producer({**librdkafka_config(self._options.producer), "error_cb": deliveries.met})
        count = 0
        for batch in iterator:
            for topic, partition, key, value, headers in _rows(batch, self._options):
                if topic is None:
                    raise RequestRefused(
                        "a row without a topic: its column 'topic' is null, and option 'topic' is not set"
                    )
                arguments = {} if partition is None else {"partition": partition}
                while True:
                    try:
                        producer.produce(
                            topic, value, key, headers=headers, on_delivery=deliveries.delivered, **arguments
                        )
                        break
                    except BufferError:
                        producer.poll(_POLL_SECONDS)
                count += 1
            producer.poll(0)
            _raise_first(deliveries)
        producer.flush()
        _raise_first(deliveries)
        return Written(count)


class BatchWriter(_RowWriter, DataSourceArrowWriter):
    """One `df.write`."""


class StreamWriter(_RowWriter, DataSourceStreamArrowWriter):
    """One streaming query: the tasks write everything, and there is nothing to commit or to roll back."""

    def commit(self, messages: list[Written | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        pass

    def abort(self, messages: list[Written | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        pass


def check_schema(options: WriteOptions, schema: StructType) -> None:
    """Raises WrongOption, with the column that is missing or of the wrong type."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise WrongOption(f"rows need a column 'value' to be written; their columns are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise WrongOption("rows need a column 'topic', or the option 'topic' has to be set")
    for name, allowed in (
        ("key", _TEXT_OR_BYTES),
        ("value", _TEXT_OR_BYTES),
        ("topic", (StringType,)),
        ("partition", (IntegerType,)),
    ):
        if name in types and not isinstance(types[name], allowed):
            raise WrongOption(f"column '{name}' is of type {types[name].simpleString()}, and can't be written")
    if "headers" in types and types["headers"].simpleString() != _HEADERS:
        raise WrongOption(f"column 'headers' is of type {types['headers'].simpleString()}, and must be of {_HEADERS}")


def _rows(batch: pa.RecordBatch, options: WriteOptions) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
    """Yield (topic, partition, key, value, headers) of each row; the option `topic` takes precedence over the
    column.
    """
    nothing: list[Any] = [None] * batch.num_rows

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in batch.schema.names else nothing

    topics = [options.topic] * batch.num_rows if options.topic is not None else column("topic")
    headers = map(_headers, column("headers"))
    return zip(topics, column("partition"), column("key"), column("value"), headers, strict=True)


def _headers(of_row: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    """Raises RequestRefused for a header that no record can have."""
    if of_row is None:
        return None
    if any(each is None or each["key"] is None for each in of_row):
        raise RequestRefused("a row with a header whose key is null: all headers of a record need a name")
    return [(each["key"], each["value"]) for each in of_row]


def _raise_first(deliveries: Deliveries) -> None:
    if deliveries.failure is not None:
        raise RequestRefused(deliveries.failure)
