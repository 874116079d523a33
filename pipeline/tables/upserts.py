"""Changes merged into a keyed table by copy on write, the same for all three formats.

The newest change of a key wins; a tombstone takes the row away. A file that holds none of the keys stays as it is
(its key's bounds say so, mostly without reading it); one that does is written again without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.core.partitioning import PartitionBy
from pipeline.tables.contract import Table, TableFile, WrittenFile
from pipeline.tables.record_columns import TOMBSTONE
from pipeline.tables.rows_of_files import as_schema, read_footer, read_rows
from pipeline.tables.writing import FilesWriter, partition_values


@dataclass(frozen=True, slots=True)
class Merged:
    """Files to add and to take out. `rows` are those of the changes that are no tombstones."""

    added: list[WrittenFile]
    removed: list[TableFile]
    rows: int


def merge_changes(table: Table, staged: Iterable[WrittenFile]) -> Merged:
    """Apply the staged changes to the table's files. One file of the table is in memory at a time."""
    parts = [read_rows(each.uri) for each in staged]
    if not parts:
        return Merged([], [], 0)
    changes = newest_by_key(pa.concat_tables(parts, promote_options="default"))
    writer = FilesWriter(table.write_target())
    try:
        removed = list(_without(changes, table, writer))
        upserts = changes.filter(pc.invert(changes[TOMBSTONE]))
        writer.write(as_schema(upserts, writer.schema))
        return Merged(writer.close(), removed, upserts.num_rows)
    except BaseException:
        writer.abandon()
        raise


def newest_by_key(changes: pa.Table) -> pa.Table:
    """One row per key: the last by offset in a partition, the later by timestamp where a key changed its partition."""
    prefix = "_" if "_key" in changes.column_names else ""
    partition, offset, timestamp = (f"{prefix}{name}" for name in ("partition", "offset", "timestamp"))
    ordered = changes.sort_by([(partition, "ascending"), (offset, "ascending")])
    keys = ordered[f"{prefix}key"].to_pylist()
    partitions = ordered[partition].to_pylist()
    times = pc.cast(ordered[timestamp], pa.int64()).to_pylist()
    newest: dict[bytes, int] = {}
    for index, key in enumerate(keys):
        before = newest.get(key)
        if before is None or partitions[before] == partitions[index] or times[index] >= times[before]:
            newest[key] = index
    return ordered.take(sorted(newest.values()))


def _without(changes: pa.Table, table: Table, writer: FilesWriter) -> Iterator[TableFile]:
    """Writes the rows to keep of each file that holds one of the keys, and says which files these are."""
    key_column = "_key" if "_key" in changes.column_names else "key"
    keys = pc.unique(changes[key_column])
    low, high = pc.min(keys.cast(pa.large_binary())).as_py(), pc.max(keys.cast(pa.large_binary())).as_py()
    touched = None
    if table.partitioning.by is PartitionBy.BUCKET:
        values = partition_values(changes, table.partitioning)
        assert values is not None  # there is a partitioning
        touched = set(values.unique().to_pylist())
    for file in table.files():
        if touched is not None and file.partition not in touched:
            continue
        if not may_hold(read_footer(file.uri), key_column, low, high):
            continue
        found = pc.is_in(read_rows(file.uri, [key_column])[key_column], value_set=keys)
        if not pc.any(found).as_py():
            continue
        writer.write(as_schema(read_rows(file.uri).filter(pc.invert(found)), writer.schema))
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
