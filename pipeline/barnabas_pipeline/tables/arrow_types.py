"""Column types to Arrow's and back."""

import pyarrow as pa

from barnabas_pipeline.core.columns import Column, ColumnType, DecimalOf, Kind, ListOf, MapOf, Struct

_KINDS: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.LONG: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}


def to_arrow(column_type: ColumnType) -> pa.DataType:
    match column_type:
        case Kind():
            return _KINDS[column_type]
        case DecimalOf():
            return pa.decimal128(column_type.precision, column_type.scale)
        case ListOf():
            return pa.list_(pa.field("element", to_arrow(column_type.element)))
        case MapOf():
            return pa.map_(pa.string(), to_arrow(column_type.value))
        case Struct():
            return pa.struct([pa.field(column.name, to_arrow(column.type)) for column in column_type.columns])


def to_arrow_schema(struct: Struct) -> pa.Schema:
    return pa.schema([pa.field(column.name, to_arrow(column.type)) for column in struct.columns])


def from_arrow(data_type: pa.DataType) -> ColumnType:
    """Types that no table of ours has (someone added a column) are read as text: their values are then told misfits."""
    if pa.types.is_struct(data_type):
        return Struct(tuple(Column(each.name, from_arrow(each.type)) for each in data_type))
    if pa.types.is_map(data_type):
        return MapOf(from_arrow(data_type.item_type))
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return ListOf(from_arrow(data_type.value_type))
    if pa.types.is_decimal(data_type):
        return DecimalOf(data_type.precision, data_type.scale)
    if pa.types.is_boolean(data_type):
        return Kind.BOOLEAN
    if pa.types.is_integer(data_type):
        return Kind.LONG
    if pa.types.is_floating(data_type):
        return Kind.DOUBLE
    if pa.types.is_date(data_type):
        return Kind.DATE
    if pa.types.is_timestamp(data_type):
        return Kind.TIMESTAMP
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return Kind.BINARY
    return Kind.STRING


def from_arrow_schema(schema: pa.Schema) -> Struct:
    return Struct(tuple(Column(each.name, from_arrow(each.type)) for each in schema))
