"""What an executor does with its share of a batch: decode, sort out what does not fit, write files, report.

Nothing that it does is seen before the driver commits: a task that is run twice, or dies, leaves files that no table
names. A task that meets fields that the table lacks stops writing and goes on reading, to tell all of them at once.
"""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from barnabas_pipeline.core.columns import RESERVED, Struct, merged_structs
from barnabas_pipeline.core.partitioning import Partitioning
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.core.rows import MisfitError, RowMaker
from barnabas_pipeline.schemas.decoders import decoder_of
from barnabas_pipeline.schemas.decoding import Decoding, ValueDecoder, ValueFormat
from barnabas_pipeline.schemas.wire_format import VALUE_SCHEMA_HEADER
from barnabas_pipeline.tables.arrow_types import from_arrow_schema
from barnabas_pipeline.tables.contract import WriteTarget, WrittenFile
from barnabas_pipeline.tables.record_columns import (
    RECORD_FIELDS,
    TIMESTAMP,
    TOMBSTONE,
    RecordIdentity,
    dead_letter_schema,
    identities,
)
from barnabas_pipeline.tables.writing import FilesWriter

REPORT_SCHEMA = "report binary"
_NO_TIMESTAMP = "the record's timestamp is outside of the years 1 to 9999: is it not in milliseconds?"
_FIRST_TIME = pa.scalar(datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), TIMESTAMP)
_TIME_AFTER_LAST = pa.scalar(253_402_300_800_000_000, pa.int64()).cast(TIMESTAMP)  # the year 10,000


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table's part of a batch. `set_aside`: what are dead letters already, of a batch that was cut short.

    `upsert`: rows are changes (with a column that says of tombstones), to be merged by key before they are committed.
    """

    target: WriteTarget
    dead_letters: WriteTarget
    decoding: Decoding
    partitioning: Partitioning = field(default_factory=Partitioning)
    upsert: bool = False
    skip_below: Mapping[TopicPartition, int] = field(default_factory=dict)
    set_aside: frozenset[RecordIdentity] = frozenset()


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """By topic where its records go."""

    by_topic: Mapping[str, str]
    tables: Mapping[str, TablePlan]


@dataclass(slots=True)
class TableReport:
    """What became of one table's records in one task. `timestamp_ms_max`: of the newest row, -1 without rows."""

    files: list[WrittenFile] = field(default_factory=list)
    dead_letters: list[WrittenFile] = field(default_factory=list)
    growth: Struct = field(default_factory=Struct)
    rows: int = 0
    dead: int = 0
    timestamp_ms_max: int = -1


def run_task(batches: Iterator[pa.RecordBatch], plan: BatchPlan) -> Iterator[pa.RecordBatch]:
    """Spark's mapInArrow: one row out, a pickled dict of TableReport by table."""
    workers: dict[str, _TableTask] = {}
    try:
        for batch in batches:
            for topic, records in _by_topic(batch):
                name = plan.by_topic.get(topic)
                if name is None:
                    continue  # made after the batch was planned: its offsets are not in the batch's positions
                worker = workers.get(name)
                if worker is None:
                    worker = workers[name] = _TableTask(plan.tables[name])
                worker.take(topic, records)
        reports = {name: worker.finish() for name, worker in workers.items()}
    except BaseException:
        for worker in workers.values():
            worker.abandon()
        raise
    yield pa.RecordBatch.from_pydict({"report": [pickle.dumps(reports)]})


def read_reports(pickled: list[bytes]) -> dict[str, TableReport]:
    """All tasks' reports as one per table. (Pickled by our own executors.)"""
    merged: dict[str, TableReport] = {}
    for each in pickled:
        for name, report in pickle.loads(each).items():
            into = merged.setdefault(name, TableReport())
            into.files += report.files
            into.dead_letters += report.dead_letters
            into.growth = merged_structs(into.growth, report.growth)
            into.rows += report.rows
            into.dead += report.dead
            into.timestamp_ms_max = max(into.timestamp_ms_max, report.timestamp_ms_max)
    return merged


def _by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    topics = pc.unique(batch.column("topic")).to_pylist()
    for topic in topics:
        yield topic, batch if len(topics) == 1 else batch.filter(pc.equal(batch.column("topic"), topic))


class _TableTask:
    def __init__(self, plan: TablePlan) -> None:
        self._plan = plan
        self._report = TableReport()
        self._files = FilesWriter(plan.target)
        self._dead_letters = FilesWriter(plan.dead_letters)
        self._schema = plan.target.arrow_schema()
        self._decoder: ValueDecoder | None = None
        self._rows: RowMaker | None = None
        if plan.decoding.format is not ValueFormat.RAW:
            self._decoder = decoder_of(plan.decoding)
            values = [each for each in self._schema if each.name not in RESERVED]
            self._rows = RowMaker(from_arrow_schema(pa.schema(values)), RESERVED | plan.partitioning.names)
        self._declared: set[int] = set()

    def take(self, topic: str, batch: pa.RecordBatch) -> None:
        records = self._lacking(topic, _records(batch))
        if records.num_rows == 0:
            return
        records = self._dated(records)
        if self._plan.upsert:
            records = self._keyed(records)
        if self._rows is None:
            self._write(records, records)
        else:
            self._decode(records, self._rows)

    def _lacking(self, topic: str, records: pa.Table) -> pa.Table:
        """Without what the table, or its dead letters, have already."""
        for (name, partition), below in self._plan.skip_below.items():
            if name == topic:
                old = pc.and_(pc.equal(records["partition"], partition), pc.less(records["offset"], below))
                records = records.filter(pc.invert(old))
        if self._plan.set_aside:
            kept = [identity not in self._plan.set_aside for identity in identities(records)]
            records = records.filter(pa.array(kept, pa.bool_()))
        return records

    def _dated(self, records: pa.Table) -> pa.Table:
        """Those with a timestamp: the others are of no day, and most readers fail at them."""
        without = pc.is_null(records["timestamp"])
        undated = records.filter(without)
        self._lay_aside(undated, [_NO_TIMESTAMP] * undated.num_rows)
        return records.filter(pc.invert(without))

    def _keyed(self, records: pa.Table) -> pa.Table:
        """Those with a key; the others can be nobody's update."""
        without = pc.is_null(records["key"])
        keyless = records.filter(without)
        self._lay_aside(keyless, ["the record has no key, the table is by key"] * keyless.num_rows)
        return records.filter(pc.invert(without))

    def _lay_aside(self, records: pa.Table, reasons: list[str]) -> None:
        if reasons:
            dead = records.append_column("reason", pa.array(reasons, pa.string()))
            self._dead_letters.write(dead.select(dead_letter_schema().names))
            self._report.dead += len(reasons)

    def _decode(self, records: pa.Table, maker: RowMaker) -> None:
        rows: list[dict[str, object]] = []
        kept: list[int] = []
        misfits: list[int] = []
        reasons: list[str] = []
        values = zip(records["value"].to_pylist(), self._schema_headers(records), strict=True)
        for index, (value, schema_header) in enumerate(values):
            try:
                rows.append({} if value is None else self._row(value, schema_header, maker))
                kept.append(index)
            except MisfitError as error:
                misfits.append(index)
                reasons.append(str(error))
        if misfits:
            self._lay_aside(records.take(misfits), reasons)
            records = records.take(pa.array(kept, pa.int64()))
        if not maker.growth.columns:
            self._write(records, self._columns(records, rows))

    def _schema_headers(self, records: pa.Table) -> list[bytes | None]:
        """Per record the header that names its value's schema; nearly always there is none in the whole batch."""
        headers = records["headers"]
        found: list[bytes | None] = [None] * len(headers)
        names = pc.struct_field(pc.list_flatten(headers), "key")
        if self._plan.decoding.registry_url and pc.any(pc.equal(names, VALUE_SCHEMA_HEADER)).as_py():
            for index, each in enumerate(headers.to_pylist()):
                for header in each or ():
                    if header["key"] == VALUE_SCHEMA_HEADER:
                        found[index] = header["value"]
        return found

    def _row(self, value: bytes, schema_header: bytes | None, maker: RowMaker) -> dict[str, object]:
        assert self._decoder is not None
        decoded = self._decoder.decode(value, schema_header)
        if decoded.declared is not None and id(decoded.declared) not in self._declared:
            maker.declare(decoded.declared)
            self._declared.add(id(decoded.declared))
        return maker.row(decoded.value)

    def _columns(self, records: pa.Table, rows: list[dict[str, object]]) -> pa.Table:
        """The rows in the table's columns: the record's own under their names with `_`, the fields' by name."""
        columns = []
        for each in self._schema:
            if each.name == TOMBSTONE:
                columns.append(pc.is_null(records["value"]))
            elif each.name in RESERVED:
                columns.append(records[each.name[1:]].cast(each.type))
            else:
                columns.append(pa.chunked_array([pa.array([row.get(each.name) for row in rows], each.type)]))
        return pa.table(columns, schema=self._schema)

    def _write(self, records: pa.Table, rows: pa.Table) -> None:
        if records.num_rows == 0:
            return
        newest = pc.max(records["timestamp"]).as_py()
        if newest is not None:
            self._report.timestamp_ms_max = max(self._report.timestamp_ms_max, round(newest.timestamp() * 1000))
        self._report.rows += records.num_rows
        if self._plan.upsert and TOMBSTONE not in rows.column_names:
            rows = rows.append_column(TOMBSTONE, pc.is_null(records["value"]))
        self._files.write(rows.select(self._schema.names))

    def finish(self) -> TableReport:
        if self._rows is not None and self._rows.growth.columns:
            self.abandon()
            return TableReport(growth=self._rows.growth)
        self._report.files = self._files.close()
        self._report.dead_letters = self._dead_letters.close()
        return self._report

    def abandon(self) -> None:
        self._files.abandon()
        self._dead_letters.abandon()


def _records(batch: pa.RecordBatch) -> pa.Table:
    """The source's columns as tables keep them, in their order; null for timestamps that no calendar has."""
    columns = {name: batch.column(name).cast(data_type) for name, data_type in RECORD_FIELDS.items()}
    times = columns["timestamp"]
    in_calendar = pc.and_(pc.greater_equal(times, _FIRST_TIME), pc.less(times, _TIME_AFTER_LAST))
    columns["timestamp"] = pc.if_else(in_calendar, times, pa.scalar(None, TIMESTAMP))
    return pa.table(columns)
