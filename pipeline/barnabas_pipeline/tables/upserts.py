"""Changes by key: the newest of each in a batch, and their merge into a table by copy on write (Iceberg, Parquet).

The newest change of a key wins; a tombstone takes the row away. A file that holds none of the keys stays as it is
(its key's bounds say so, mostly without reading it); one that does is written again without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from barnabas_pipeline.core.partitioning import PartitionBy
from barnabas_pipeline.core.positions import Positions
from barnabas_pipeline.tables.contract import Change, CommitConflictError, Table, TableFile, WrittenFile
from barnabas_pipeline.tables.record_columns import TOMBSTONE
from barnabas_pipeline.tables.rows_of_files import as_schema, read_footer, read_row_groups, read_rows
from barnabas_pipeline.tables.writing import FilesWriter, discard_uncommitted, partition_values


def newest_changes(staged: Iterable[WrittenFile]) -> pa.Table | None:
    """What a batch changes, a row per key; None if nothing."""
    parts = [read_rows(each.uri) for each in staged]
    return newest_by_key(pa.concat_tables(parts, promote_options="default")) if parts else None


def newest_by_key(changes: pa.Table) -> pa.Table:
    """One row per key: the last by offset in a partition, the later by timestamp where a key changed its partition."""
    prefix = record_prefix(changes)
    key, partition = f"{prefix}key", f"{prefix}partition"
    ordered = changes.sort_by([(partition, "ascending"), (f"{prefix}offset", "ascending")])
    last = ordered.take(_last_of(ordered, [key, partition]))
    by_time = last.sort_by([(f"{prefix}timestamp", "ascending"), (partition, "ascending")])
    return by_time.take(_last_of(by_time, [key]))


def record_prefix(rows: pa.Table) -> str:
    """What stands before the names of the record's own columns."""
    return "_" if "_key" in rows.column_names else ""


def _last_of(rows: pa.Table, names: list[str]) -> pa.Array:
    """Of each combination of values the last row's index."""
    numbered = rows.select(names).append_column("row of all", pa.array(np.arange(rows.num_rows)))
    return numbered.group_by(names).aggregate([("row of all", "max")])["row of all_max"].combine_chunks()


def upsert_by_copying(table: Table, changes: pa.Table, progress: Positions, notes: Mapping[str, str]) -> None:
    """`Table.upsert` by copy on write. A row group of the table is in memory at a time, and a file's keys."""
    writer = FilesWriter(table.write_target())
    try:
        removed = _rewrite(changes, table, writer)
        added = tuple(writer.close())
    except BaseException:
        writer.abandon()
        raise
    try:
        table.commit(Change(added, tuple(removed), progress, notes))
    except CommitConflictError:
        table.refresh()
        discard_uncommitted(table, added)  # merged with the files of a head that is no more
        raise


def _rewrite(changes: pa.Table, table: Table, writer: FilesWriter) -> list[TableFile]:
    """Writes the rows to keep of each file that holds one of the keys, then the changes; says which files these are."""
    prefix = record_prefix(changes)
    key, partition, timestamp = (f"{prefix}{name}" for name in ("key", "partition", "timestamp"))
    removed: list[TableFile] = []
    stale: set[int] = set()
    for file in _candidates(changes, table, key):
        rows = read_rows(file.uri, [key, partition, timestamp])
        position = pc.index_in(rows[key], value_set=changes[key].combine_chunks())
        newest = changes.select([partition, timestamp]).take(position)
        moved = pc.not_equal(rows[partition], newest[partition])
        later = pc.fill_null(pc.and_(moved, pc.greater(rows[timestamp], newest[timestamp])), False)
        stale.update(position.filter(later).to_pylist())
        kept = pc.or_(pc.is_null(position), later)
        if pc.all(kept).as_py():
            continue
        begin = 0
        for group in read_row_groups(file.uri):
            writer.write(as_schema(group.filter(kept.slice(begin, group.num_rows)), writer.schema))
            begin += group.num_rows
        removed.append(file)
    wanted = np.ones(changes.num_rows, dtype=bool)
    wanted[list(stale)] = False
    upserts = changes.filter(pc.and_(pa.array(wanted), pc.invert(changes[TOMBSTONE])))
    writer.write(as_schema(upserts, writer.schema))
    return removed


def _candidates(changes: pa.Table, table: Table, key: str) -> Iterator[TableFile]:
    """The table's files that may hold one of the keys, by their bucket and by their bounds."""
    keys = changes[key].cast(pa.large_binary())
    low, high = pc.min(keys).as_py(), pc.max(keys).as_py()
    buckets = None
    if table.partitioning.by is PartitionBy.BUCKET:
        values = partition_values(changes, table.partitioning)
        assert values is not None  # there is a partitioning
        buckets = set(values.unique().to_pylist())
    for file in table.files():
        if buckets is not None and file.partition not in buckets:
            continue
        if may_hold(read_footer(file.uri), key, low, high):
            yield file


def may_hold(footer: pq.FileMetaData, column: str, low: bytes, high: bytes) -> bool:
    """Whether a file's bounds for a column of bytes leave room for a value in low..high."""
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        for position in range(group.num_columns):
            chunk = group.column(position)
            if chunk.path_in_schema == column:
                statistics = chunk.statistics
                if statistics is None or not statistics.has_min_max:
                    if statistics is None or statistics.null_count != chunk.num_values:
                        return True
                elif statistics.min <= high and statistics.max >= low:
                    return True
    return False
