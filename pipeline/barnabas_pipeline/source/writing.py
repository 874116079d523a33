"""`df.write.format("barnabas")` and `df.writeStream.format("barnabas")`: rows into topics.

At least once by default: what a task has written stays written if the task fails and is repeated, or if Spark repeats a
batch after a crash. Within a task the producer is idempotent: retries neither duplicate nor reorder records.

Exactly once with `kafka.transactional.id`: each task writes its rows of a batch in one transaction, together with the
batch's id, and a task that is repeated finds that id (`barnabas_pipeline.core.epochs`).
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from barnabas_pipeline.core.epochs import Epoch, check_count, check_tasks, is_written
from barnabas_pipeline.core.errors import RequestRefused, WrongOption
from barnabas_pipeline.core.options import WriteOptions
from barnabas_pipeline.kafka.deliveries import Deliveries
from barnabas_pipeline.kafka.librdkafka_config import librdkafka_config
from barnabas_pipeline.kafka.transactions import TaskTransaction, batches_of_tasks

_TEXT_OR_BYTES: Final = (StringType, BinaryType)
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_POLL_SECONDS: Final = 0.1
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
"""Properties that Spark's micro-batches give to their tasks."""

_Row = tuple[str, int | None, Any, Any, Any]
"""Topic, partition, key, value, headers."""


@dataclass
class Written(WriterCommitMessage):
    """The result of one task. `run_id`: the query whose batch it wrote once; None: at least once."""

    records_count: int
    run_id: str | None = None


class _RowWriter(ABC):
    """The columns are the JVM connector's: `value`, and optionally `key`, `topic`, `partition` and `headers`. All
    existing ones are written, including headers, whether or not `includeHeaders` is set."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        check_schema(options, schema)
        self._job_id = str(uuid.uuid4())
        """Of one `df.write`, in all of its tasks and their attempts."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Runs in a task; returns when all that it wrote is acknowledged, or committed. Raises RequestRefused with the
        first failure.
        """
        batches = (_rows(batch, self._options) for batch in iterator)
        transactional_id = self._options.transactional_id
        if transactional_id is None:
            return self._write_at_least_once(batches)
        return self._write_once(batches, self._epoch(transactional_id))

    @abstractmethod
    def _epoch(self, transactional_id: str) -> Epoch:
        """Return what the task that calls it has to write once."""

    def _write_at_least_once(self, batches: Iterator[Iterator[_Row]]) -> Written:
        deliveries = Deliveries()
        producer = Producer({**librdkafka_config(self._options.producer), "error_cb": deliveries.met})
        count = 0
        for rows in batches:
            for row in rows:
                _produce(producer, row, deliveries)
                count += 1
            producer.poll(0)
            _raise_first(deliveries)
        producer.flush()
        _raise_first(deliveries)
        return Written(count)

    def _write_once(self, batches: Iterator[Iterator[_Row]], epoch: Epoch) -> Written:
        rows = (row for batch in batches for row in batch)
        first = next(rows, None)
        if first is None:
            return Written(0, epoch.run_id)
        deliveries = Deliveries()
        with TaskTransaction(self._options.producer, epoch, deliveries) as transaction:
            last = transaction.fence(first[0])
            if is_written(epoch, last):
                assert last is not None, "what is not there is not written"
                count = 1 + sum(1 for _ in rows)
                check_count(epoch, last, count)
                return Written(count, epoch.run_id)
            transaction.begin()
            count = 0
            for row in chain((first,), rows):
                _produce(transaction.producer, row, deliveries)
                transaction.wrote_to(row[0])
                count += 1
            transaction.producer.flush()
            _raise_first(deliveries)
            transaction.commit(count)
        return Written(count, epoch.run_id)


class BatchWriter(_RowWriter, DataSourceArrowWriter):
    """One `df.write`."""

    def _epoch(self, transactional_id: str) -> Epoch:
        return Epoch(transactional_id, self._job_id, 0, _context().partitionId(), False)


class StreamWriter(_RowWriter, DataSourceStreamArrowWriter):
    """One streaming query: the tasks write everything, and there is nothing to commit or to roll back."""

    def _epoch(self, transactional_id: str) -> Epoch:
        context = _context()
        query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query_id is None or batch_id is None:
            raise WrongOption(
                "kafka.transactional.id needs a trigger of micro-batches: this one gives its tasks no id of a batch"
            )
        return Epoch(transactional_id, query_id, int(batch_id), context.partitionId(), True)

    def commit(self, messages: list[Written | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Raises RequestRefused, in the first batch of a run, if other tasks than now had written some of it before."""
        transactional_id = self._options.transactional_id
        run_ids = {message.run_id for message in messages if message is not None and message.run_id is not None}
        if transactional_id is None or run_ids <= _checked_queries:
            return
        found = batches_of_tasks(self._options.producer, transactional_id)
        for run_id in run_ids:
            check_tasks(transactional_id, run_id, batchId, len(messages), found)
        _checked_queries.update(run_ids)

    def abort(self, messages: list[Written | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        pass


_checked_queries: Final[set[str]] = set()
"""Of this process, which runs the commits of one run of a query: only its first batch can be one that is repeated."""


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "a writer writes in a task"
    return context


def _produce(producer: Producer, row: _Row, deliveries: Deliveries) -> None:
    topic, partition, key, value, headers = row
    arguments: dict[str, Any] = {} if partition is None else {"partition": partition}
    while True:
        try:
            producer.produce(topic, value, key, headers=headers, on_delivery=deliveries.delivered, **arguments)
            return
        except BufferError:
            producer.poll(_POLL_SECONDS)
            _raise_first(deliveries)


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


def _rows(batch: pa.RecordBatch, options: WriteOptions) -> Iterator[_Row]:
    """Yield (topic, partition, key, value, headers) of each row; the option `topic` takes precedence over the
    column. Raises RequestRefused for a row without a topic.
    """
    nothing: list[Any] = [None] * batch.num_rows

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in batch.schema.names else nothing

    topics = [options.topic] * batch.num_rows if options.topic is not None else column("topic")
    headers = map(_headers, column("headers"))
    for row in zip(topics, column("partition"), column("key"), column("value"), headers, strict=True):
        if row[0] is None:
            raise RequestRefused("a row without a topic: its column 'topic' is null, and option 'topic' is not set")
        yield row


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
