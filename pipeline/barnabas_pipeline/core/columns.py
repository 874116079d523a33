"""What a table's columns hold, and how they grow.

Every type is the widest of its family from the start (integers are longs, floats are doubles): then a writer's change
from int to long, the commonest there is, changes nothing in the table, in any of the formats.
"""

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass


class Kind(enum.Enum):
    """The types without parameters. UNKNOWN is a column of which only nulls were seen: it is not in a table yet."""

    UNKNOWN = "unknown"
    BOOLEAN = "boolean"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"  # with microseconds, UTC


@dataclass(frozen=True, slots=True)
class DecimalOf:
    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class ListOf:
    element: "ColumnType"


@dataclass(frozen=True, slots=True)
class MapOf:
    """Keys are strings: so are those of Protobuf's maps once written, and of Avro's always."""

    value: "ColumnType"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: "ColumnType"


@dataclass(frozen=True, slots=True)
class Struct:
    columns: tuple[Column, ...] = ()

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


ColumnType = Kind | DecimalOf | ListOf | MapOf | Struct

NAME_LENGTH_MAX = 255
# What a decoded row says of its record, beside the value's columns: names in small letters that no field can have.
RESERVED = frozenset({"_topic", "_partition", "_offset", "_timestamp", "_key", "_value", "_headers", "_tombstone"})
DECIMAL_PRECISION_MAX = 38
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,4})\s*(?:,\s*(\d{1,4})\s*)?\)", re.ASCII)
# Delta refuses these in names unless a table maps them, and a dot is a path's in Iceberg; one rule for all formats is
# easier to remember than three.
_REFUSED_IN_NAMES = str.maketrans(dict.fromkeys([*" ,;{}()=.", *map(chr, range(32)), "\x7f"], "_"))


def column_name(field: str, reserved: Iterable[str] = ()) -> str | None:
    """The column's name for a field's: characters that a format refuses become `_`, a reserved name gets a `_` behind.

    None: the field can have no column (no name, or a name longer than file systems take).
    """
    if not field or len(field) > NAME_LENGTH_MAX:
        return None
    name = field.translate(_REFUSED_IN_NAMES)
    return name + "_" if name.lower() in reserved else name


def merged(one: ColumnType, other: ColumnType) -> ColumnType:
    """The type that holds what both hold, for a column that is yet to be made: text, where nothing narrower does."""
    match one, other:
        case (Kind.UNKNOWN, known) | (known, Kind.UNKNOWN):
            return known
        case _ if one == other:
            return one
        case (Kind.LONG, Kind.DOUBLE) | (Kind.DOUBLE, Kind.LONG):
            return Kind.DOUBLE
        case DecimalOf(), DecimalOf():
            scale = max(one.scale, other.scale)
            digits = max(one.precision - one.scale, other.precision - other.scale) + scale
            return DecimalOf(digits, scale) if digits <= DECIMAL_PRECISION_MAX else Kind.STRING
        case ListOf(), ListOf():
            return ListOf(merged(one.element, other.element))
        case MapOf(), MapOf():
            return MapOf(merged(one.value, other.value))
        case Struct(), Struct():
            return merged_structs(one, other)
        case _:
            return Kind.STRING


def merged_structs(one: Struct, other: Struct) -> Struct:
    """Both's columns; the order is that in which they were first seen.

    Of names that differ in case only the first is a column: formats and Spark don't tell them apart.
    """
    columns = {column.name.lower(): column for column in one.columns}
    for column in other.columns:
        seen = columns.setdefault(column.name.lower(), column)
        if seen is not column and seen.name == column.name:
            columns[column.name.lower()] = Column(column.name, merged(seen.type, column.type))
    return Struct(tuple(columns.values()))


def refined(declared: ColumnType, seen: ColumnType) -> ColumnType:
    """What is declared, with what was seen of values in place of what the declaration leaves open."""
    match declared, seen:
        case Kind.UNKNOWN, _:
            return seen
        case Struct(), Struct():
            known = {column.name: refined(column.type, type_in(seen, column.name)) for column in declared.columns}
            more = {column.name: column.type for column in seen.columns if column.name not in known}
            return Struct(tuple(Column(name, each) for name, each in {**known, **more}.items()))
        case ListOf(), ListOf():
            return ListOf(refined(declared.element, seen.element))
        case MapOf(), Struct():  # an object of JSON looks like either
            value = declared.value
            for column in seen.columns:
                value = merged(value, refined(declared.value, column.type))
            return MapOf(value)
        case _:
            return declared


def type_in(struct: Struct, name: str) -> ColumnType:
    """UNKNOWN where the struct has no such column."""
    found = struct.column(name)
    return Kind.UNKNOWN if found is None else found.type


def evolved(table: Struct, growth: Struct) -> Struct:
    """The table's columns with the new ones behind them, in structs and in lists of structs too.

    A column that is there keeps its type: what does not fit it goes to the dead letters. Columns of which nothing
    but nulls (or empty objects) was seen are left out until something is.
    """
    columns = [Column(column.name, _grown(column.type, growth.column(column.name))) for column in table.columns]
    known = {column.name.lower() for column in table.columns}
    for column in growth.columns:
        column_type = settled(column.type)
        if column.name.lower() not in known and column_type is not None:
            known.add(column.name.lower())
            columns.append(Column(column.name, column_type))
    return Struct(tuple(columns))


def _grown(column_type: ColumnType, growth: Column | None) -> ColumnType:
    if growth is None:
        return column_type
    match column_type, growth.type:
        case Struct(), Struct():
            return evolved(column_type, growth.type)
        case (ListOf(), ListOf()):
            return ListOf(_grown(column_type.element, Column("element", growth.type.element)))
        case (MapOf(), MapOf()):
            return MapOf(_grown(column_type.value, Column("value", growth.type.value)))
        case _:
            return column_type


def within(table: Struct, growth: Struct, leaves_max: int) -> Struct:
    """Of the growth's columns, in structs too, the first so many as leave the table at most so wide."""
    fitting = _fitting(table, growth, leaves_max - leaves(table))
    assert isinstance(fitting, Struct)  # what is left of a struct is one
    return fitting


def _fitting(known: ColumnType, growth: ColumnType, room: int) -> ColumnType:
    """What of the growth adds at most `room` leaves to what is known, which is UNKNOWN for a new column."""
    match known, growth:
        case (Struct() | Kind.UNKNOWN, Struct()):
            before = {column.name.lower(): column for column in known.columns} if isinstance(known, Struct) else {}
            kept = []
            for column in growth.columns:
                there = before.get(column.name.lower(), Column(column.name, Kind.UNKNOWN))
                fitting = _fitting(there.type, column.type, room) if there.name == column.name else Kind.UNKNOWN
                room -= _added(there.type, fitting)
                kept.append(Column(column.name, fitting))
                if settled(fitting) is not None:
                    # `evolved` leaves out later columns whose names differ from this one's in case only.
                    before.setdefault(column.name.lower(), kept[-1])
            return Struct(tuple(kept))
        case (ListOf() | Kind.UNKNOWN, ListOf()):
            return ListOf(_fitting(known.element if isinstance(known, ListOf) else Kind.UNKNOWN, growth.element, room))
        case (MapOf(), MapOf()):
            return MapOf(_fitting(known.value, growth.value, room))
        case (Kind.UNKNOWN, MapOf()):
            return MapOf(_fitting(known, growth.value, room - 1))  # less the column of its keys
        case _:
            return growth if _added(known, growth) <= room else Kind.UNKNOWN


def _added(known: ColumnType, growth: ColumnType) -> int:
    """How many leaves more there are with the growth."""
    if known is Kind.UNKNOWN:
        new = settled(growth)
        return 0 if new is None else leaves(new)
    return leaves(_grown(known, Column("", growth))) - leaves(known)


def additions(table: Struct, declared: Struct) -> Struct:
    """What of the declared columns the table lacks; what differs from its own in case only it can't get."""
    before = {column.name.lower(): column for column in table.columns}
    lacking = []
    for column in declared.columns:
        known = before.get(column.name.lower())
        if known is None or (known.name == column.name and _grown(known.type, column) != known.type):
            lacking.append(column)
    return Struct(tuple(lacking))


def settled(column_type: ColumnType) -> ColumnType | None:
    """The type without what is unknown in it; None if nothing is left. (Parquet has no struct without fields.)"""
    match column_type:
        case Kind.UNKNOWN:
            return None
        case Struct():
            columns = [(column.name, settled(column.type)) for column in column_type.columns]
            kept = tuple(Column(name, inner) for name, inner in columns if inner is not None)
            return merged_structs(Struct(), Struct(kept)) if kept else None
        case ListOf():
            inner = settled(column_type.element)
            return ListOf(inner) if inner is not None else None
        case MapOf():
            inner = settled(column_type.value)
            return MapOf(inner) if inner is not None else None
        case _:
            return column_type


def leaves(column_type: ColumnType) -> int:
    """How many columns a file stores for it: what bounds a table's width."""
    match column_type:
        case Struct():
            return sum(leaves(column.type) for column in column_type.columns)
        case ListOf():
            return leaves(column_type.element)
        case MapOf():
            return 1 + leaves(column_type.value)
        case _:
            return 1


def type_text(column_type: ColumnType) -> str:
    """As `parse_type` takes it; of types that can't be declared only what they are."""
    match column_type:
        case Kind():
            return column_type.value
        case DecimalOf():
            return f"decimal({column_type.precision},{column_type.scale})"
        case ListOf():
            return "list"
        case MapOf():
            return "map"
        case Struct():
            return "struct"


def parse_type(text: str) -> ColumnType:
    """A declared column's type: `long`, `timestamp`, `decimal(12,2)`, … ValueError names what there is."""
    name = text.strip().lower()
    digits = _DECIMAL.fullmatch(name)
    if digits is not None:
        declared = DecimalOf(int(digits[1]), int(digits[2] or 0))
        if 0 < declared.precision <= DECIMAL_PRECISION_MAX and declared.scale <= declared.precision:
            return declared
    for kind in Kind:
        if kind.value == name and kind is not Kind.UNKNOWN:
            return kind
    kinds = ", ".join(kind.value for kind in Kind if kind is not Kind.UNKNOWN)
    raise ValueError(f"no type {text!r}: there are {kinds}, decimal(precision,scale)")
