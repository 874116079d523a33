"""Parquet files of a task: one per partition of the table that its rows fall into, rolled at a size."""

from __future__ import annotations

import io
import logging
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import mmh3
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from barnabas_pipeline.core.partitioning import PartitionBy, Partitioning
from barnabas_pipeline.tables.contract import Table, WriteTarget, WrittenFile
from barnabas_pipeline.tables.locations import delete_file, filesystem_and_path

log = logging.getLogger(__name__)
FILE_BYTES_MAX = 128 * 1024 * 1024
ROW_GROUP_ROWS = 65_536  # what comes in smaller batches is gathered: a row group costs readers a seek
ROW_GROUP_BYTES = 8 * 1024 * 1024
OPEN_FILES_MAX = 32  # a backfill by hour touches many partitions: those written to longest ago are closed
_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000


@dataclass(slots=True)
class _OpenFile:
    uri: str
    partition: int | None
    writer: pq.ParquetWriter
    sink: pa.NativeFile
    collected: list[pq.FileMetaData]
    gathered: list[pa.Table] = field(default_factory=list)
    gathered_rows: int = 0
    gathered_bytes: int = 0

    def write(self, rows: pa.Table) -> None:
        self.gathered.append(rows)
        self.gathered_rows += rows.num_rows
        self.gathered_bytes += rows.nbytes
        if self.gathered_rows >= ROW_GROUP_ROWS or self.gathered_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self.gathered:
            self.writer.write_table(pa.concat_tables(self.gathered))
            self.gathered.clear()
            self.gathered_rows = self.gathered_bytes = 0


@dataclass(slots=True)
class FilesWriter:
    """Takes Arrow batches and leaves files. `close` says which; `abandon` takes them away again."""

    target: WriteTarget
    schema: pa.Schema = field(init=False)
    _open: dict[int | None, _OpenFile] = field(default_factory=dict)
    _done: list[WrittenFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schema = self.target.arrow_schema()

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Rows with the target's columns, in the target's order."""
        if rows.num_rows == 0:
            return
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        values = partition_values(table, self.target.partitioning)
        if values is None:
            self._write_to(None, table)
            return
        for value in values.unique().to_pylist():
            mask = pc.is_null(values) if value is None else pc.equal(values, value)
            self._write_to(value, table.filter(mask))

    def _write_to(self, partition: int | None, rows: pa.Table) -> None:
        opened = self._open.pop(partition, None)
        if opened is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._finish(next(iter(self._open)))
            opened = self._begin(partition)
        self._open[partition] = opened
        opened.write(rows.cast(self.schema))
        if opened.sink.tell() >= FILE_BYTES_MAX:
            self._finish(partition)

    def _begin(self, partition: int | None) -> _OpenFile:
        partitioning = self.target.partitioning
        folder = f"{self.target.location}/data"
        if partitioning.by is not PartitionBy.NONE:
            folder += f"/{partitioning.column}={partitioning.label(partition)}"
        uri = f"{folder}/{uuid.uuid4().hex}.parquet"
        filesystem, path = filesystem_and_path(uri)
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        sink = filesystem.open_output_stream(path)
        collected: list[pq.FileMetaData] = []
        try:
            writer = pq.ParquetWriter(sink, self.schema, compression="zstd", metadata_collector=collected)
        except BaseException:  # a full disk: it writes its first bytes here
            _take_away(uri, sink)
            raise
        return _OpenFile(uri, partition, writer, sink, collected)

    def _finish(self, partition: int | None) -> None:
        opened = self._open[partition]
        opened.flush()
        opened.writer.close()
        size_bytes = opened.sink.tell()
        opened.sink.close()
        footer = io.BytesIO()
        opened.collected[0].write_metadata_file(footer)
        self._done.append(WrittenFile(opened.uri, partition, size_bytes, footer.getvalue()))
        del self._open[partition]  # only now: until it is finished it is for `abandon` to take away

    def close(self) -> list[WrittenFile]:
        for partition in list(self._open):
            self._finish(partition)
        return self._done

    def abandon(self) -> None:
        """Close without finishing, delete: for a task that failed, or whose columns turned out too few."""
        for opened in self._open.values():
            opened.writer.is_open = False  # its close would write a footer, onto a disk that may be full
            _take_away(opened.uri, opened.sink)
        for written in self._done:
            _take_away(written.uri)
        self._open.clear()
        self._done.clear()


def _take_away(uri: str, sink: pa.NativeFile | None = None) -> None:
    """Whatever fails here comes after the failure that is to be told, and is no reason to leave the other files."""
    try:
        if sink is not None:
            sink.close()
    except OSError:
        log.debug("%s was not closed", uri, exc_info=True)
    try:
        delete_file(uri)
    except OSError:
        log.warning("%s could not be deleted: it is an orphan", uri, exc_info=True)


def discard(files: Iterable[WrittenFile]) -> None:
    """Delete files that are known not to be committed."""
    for each in files:
        delete_file(each.uri)


def discard_uncommitted(table: Table, files: Collection[WrittenFile]) -> None:
    """Delete those that the table's head, as last read, does not name.

    A commit that seemed to fail may have been made, and its answer lost: then these files are the table's.
    """
    named = {each.uri for each in table.files()} if files else set()
    discard(each for each in files if each.uri not in named)


def partition_values(rows: pa.Table, partitioning: Partitioning) -> pa.ChunkedArray | None:
    """Of each row, which partition of the table it belongs to; None for a table without."""
    match partitioning.by:
        case PartitionBy.NONE:
            return None
        case PartitionBy.DAY:
            return _since_epoch(_record_column(rows, "timestamp"), _DAY_US)
        case PartitionBy.HOUR:
            return _since_epoch(_record_column(rows, "timestamp"), _HOUR_US)
        case PartitionBy.KAFKA_PARTITION:
            return pc.cast(_record_column(rows, "partition"), pa.int64())
        case PartitionBy.BUCKET:
            keys = _record_column(rows, "key").to_pylist()
            buckets = partitioning.buckets
            # As Iceberg's bucket transform: Murmur3 without its sign.
            numbers = [None if key is None else (mmh3.hash(key) & 0x7FFFFFFF) % buckets for key in keys]
            return pa.chunked_array([pa.array(numbers, pa.int64())])


def _since_epoch(times: pa.ChunkedArray, unit_us: int) -> pa.ChunkedArray:
    microseconds = pc.cast(pc.cast(times, pa.timestamp("us", tz="UTC")), pa.int64())
    # Arrow divides towards zero; times before 1970 belong to the day that they are in.
    floored = pc.subtract(microseconds, pc.if_else(pc.less(microseconds, 0), unit_us - 1, 0))
    return pc.divide(floored, unit_us)


def _record_column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    return rows.column(f"_{name}" if f"_{name}" in rows.column_names else name)
