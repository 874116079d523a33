"""Rows of files in the order of their offsets, where the files' offsets lie between each other's, with few rows held.

A window is a range of offsets. It takes rows of all files; when they are more than may be held, its end comes down to
the middle of them. So it ends up with all rows of a range that fit, and the next one begins where it ends. Files are
read once per window, but for the row groups that by their statistics have nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from barnabas_pipeline.tables.locations import filesystem_and_path
from barnabas_pipeline.tables.record_columns import record_schema
from barnabas_pipeline.tables.rows_of_files import as_schema

NEEDED = record_schema("", with_value=True)
_READ_BYTES = 4 * 1024 * 1024
_READ_ROWS_MAX = 8_192
_BUFFER_BYTES = 1024 * 1024


@dataclass(slots=True)
class Window:
    """The rows of a partition from offset `low` on and before `high`, of a topic, or of all if it is empty."""

    topic: str
    partition: int
    low: int
    high: int
    held_bytes_max: int
    _held: list[pa.Table] = field(default_factory=list)
    _held_bytes: int = 0

    def reaches(self, first: int, last: int) -> bool:
        """Whether offsets `first` to `last` may be in it."""
        return first < self.high and last >= self.low

    def take(self, rows: pa.Table) -> None:
        """Of these rows what is in the window. Moves `high` down if they are too many."""
        wanted = pc.and_(pc.equal(rows["partition"], self.partition), pc.greater_equal(rows["offset"], self.low))
        wanted = pc.and_(wanted, pc.less(rows["offset"], self.high))
        if self.topic:
            wanted = pc.and_(wanted, pc.equal(rows["topic"], self.topic))
        self._hold([*self._held, rows.filter(wanted)])
        while self._held_bytes > self.held_bytes_max and self._halve():
            pass

    def ordered(self) -> pa.Table:
        """Those taken, by offset."""
        return pa.concat_tables([NEEDED.empty_table(), *self._held]).sort_by([("offset", "ascending")])

    def _hold(self, held: list[pa.Table]) -> None:
        self._held = [each for each in held if each.num_rows]
        self._held_bytes = sum(each.nbytes for each in self._held)

    def _halve(self) -> bool:
        """Let go of the upper half; False where all have the same offset."""
        offsets = pa.concat_tables(self._held)["offset"].sort()
        first, middle = offsets[0].as_py(), offsets[len(offsets) // 2].as_py()
        self.high = max(middle, first + 1)
        self._hold([each.filter(pc.less(each["offset"], self.high)) for each in self._held])
        return bool(middle > first)


def read_into(window: Window, uri: str, prefix: str) -> None:
    """What a data file has of the window; `prefix` is that of its columns' names."""
    filesystem, path = filesystem_and_path(uri)
    names = [prefix + name for name in NEEDED.names]
    with filesystem.open_input_file(path) as opened:
        file = pq.ParquetFile(opened, buffer_size=_BUFFER_BYTES)
        for index in range(file.num_row_groups):
            group = file.metadata.row_group(index)
            first, last = _bounds(group, f"{prefix}partition", window.partition)
            if first <= window.partition <= last and window.reaches(*_bounds(group, f"{prefix}offset", window.low)):
                for rows in _batches(file, index, names):
                    window.take(as_schema(rows.rename_columns([name[len(prefix) :] for name in names]), NEEDED))


def _batches(file: pq.ParquetFile, index: int, names: list[str]) -> Iterator[pa.Table]:
    """A row group's rows, a few megabytes at a time."""
    group = file.metadata.row_group(index)
    fitting = _READ_BYTES * group.num_rows // max(group.total_byte_size, 1)
    for batch in file.iter_batches(min(max(fitting, 1), _READ_ROWS_MAX), [index], names):
        yield pa.Table.from_batches([batch]).select(names)


def _bounds(group: pq.RowGroupMetaData, name: str, unknown: int) -> tuple[int, int]:
    """The least and the greatest of a column's numbers; `unknown` for both without statistics."""
    for position in range(group.num_columns):
        column = group.column(position)
        if column.path_in_schema == name and column.statistics is not None and column.statistics.has_min_max:
            return column.statistics.min, column.statistics.max
    return unknown, unknown
