"""Data files read back: by compaction, upserts and replay."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas_pipeline.tables.locations import filesystem_and_path


def read_rows(uri: str, columns: list[str] | None = None) -> pa.Table:
    """A data file's rows, without the columns that its directory names spell."""
    filesystem, path = filesystem_and_path(uri)
    with filesystem.open_input_file(path) as file:
        return pq.ParquetFile(file).read(columns=columns)


def read_row_groups(uri: str) -> Iterator[pa.Table]:
    """The same, a row group at a time."""
    filesystem, path = filesystem_and_path(uri)
    with filesystem.open_input_file(path) as opened:
        file = pq.ParquetFile(opened)
        for index in range(file.num_row_groups):
            yield file.read_row_group(index)


def read_footer(uri: str) -> pq.FileMetaData:
    filesystem, path = filesystem_and_path(uri)
    with filesystem.open_input_file(path) as file:
        return pq.read_metadata(file)


def as_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of an older schema in today's: nulls for what was not yet there, in structs too."""
    columns = []
    for each in schema:
        if each.name in rows.column_names:
            columns.append(_as_type(rows[each.name].combine_chunks(), each.type))
        else:
            columns.append(pa.nulls(rows.num_rows, each.type))
    return pa.table(columns, schema=schema)


def _as_type(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if array.type == data_type:
        return array
    if pa.types.is_struct(data_type):
        known = {each.name for each in array.type}
        fields = [
            _as_type(array.field(each.name), each.type) if each.name in known else pa.nulls(len(array), each.type)
            for each in data_type
        ]
        return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=array.is_null())
    if pa.types.is_list(data_type) and pa.types.is_struct(data_type.value_type):
        # Arrow's cast does not grow structs: the elements are done, then put behind the same offsets.
        elements = _as_type(array.values, data_type.value_type)
        return pa.ListArray.from_arrays(array.offsets, elements, type=data_type, mask=array.is_null())
    return array.cast(data_type)
