"""Decoded values made rows of a table: each field fitted to its column, or the record told apart with the reason."""

import base64
import datetime
import decimal
import enum
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from barnabas_pipeline.core.columns import (
    Column,
    ColumnType,
    DecimalOf,
    Kind,
    ListOf,
    MapOf,
    Struct,
    additions,
    column_name,
    leaves,
    merged,
    merged_structs,
    refined,
    settled,
    type_in,
)

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DEPTH_MAX = 24
COLUMNS_MAX = 1000
DOUBLE_DIGITS = 15  # so many decimal digits every double keeps

Fit = Callable[[object], object]


class MisfitError(ValueError):
    """A record that no row can be made of; the text is the reason that its dead letter gives."""


def inferred(value: object, depth: int = 0) -> ColumnType:
    """The column type for a value: of JSON's, and of those that Avro and Protobuf decode to."""
    match value:
        case None:
            return Kind.UNKNOWN
        case bool():
            return Kind.BOOLEAN
        case int():
            return Kind.LONG if LONG_MIN <= value <= LONG_MAX else Kind.STRING
        case float():
            return Kind.DOUBLE
        case str():
            return Kind.STRING
        case bytes():
            return Kind.BINARY
        case datetime.datetime():
            return Kind.TIMESTAMP
        case datetime.date():
            return Kind.DATE
        case dict() | list() if depth >= DEPTH_MAX:
            return Kind.STRING
        case dict():
            return _inferred_struct(value, depth)
        case list():
            element: ColumnType = Kind.UNKNOWN
            for item in value:
                element = merged(element, inferred(item, depth + 1))
            return ListOf(element)
        case _:
            return Kind.STRING


def _inferred_struct(value: dict[str, object], depth: int) -> Struct:
    columns: dict[str, Column] = {}  # by the name in small letters: Spark does not tell case apart
    for name, item in value.items():
        cleaned = column_name(name)
        if cleaned is not None:
            columns.setdefault(cleaned.lower(), Column(cleaned, inferred(item, depth + 1)))
    return Struct(tuple(columns.values()))


def text_of(value: object) -> str:
    """A value as a text column keeps it: text as it is, JSON's other values as JSON writes them, bytes in base64.

    MisfitError: NaN or an infinity inside of it, or it is too deep to be written.
    """
    match value:
        case str():
            return value
        case float() if not math.isfinite(value):
            return json.dumps(value)  # NaN, Infinity, -Infinity
        case None | bool() | int() | float() | dict() | list():
            try:
                text = orjson.dumps(value, default=text_of, option=orjson.OPT_NON_STR_KEYS)
            except orjson.JSONEncodeError:
                return _long_text_of(value)
            if b"null" in text and not _is_finite(value):  # which is what orjson writes then
                raise MisfitError("a value that is to be JSON text has NaN or an infinity in it, which JSON lacks")
            return text.decode()
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.datetime():
            return value.isoformat()
        case _:
            return str(value)


def _is_finite(value: object) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list():
            return all(map(_is_finite, value))
        case _:
            return True


def _long_text_of(value: object) -> str:
    """What orjson does not write: a number of more than 64 bits, or values inside of values, over 250 deep."""
    try:
        return json.dumps(value, default=text_of, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError) as error:
        raise MisfitError(f"a value can't be written as text: {type(error).__name__} {error!s:.80}") from None


class Inside(enum.Enum):
    """A step of a route that is no field's name: into a list's elements, or into a map's values."""

    LIST = "[]"
    MAP = "{}"


Route = tuple[str | Inside, ...]


def _shown(route: Route) -> str:
    return ".".join(step if isinstance(step, str) else step.value for step in route)


def _inside(route: Route, struct: Struct) -> Struct:
    """The struct where the route leads, as a column of the whole."""
    grown: ColumnType = struct
    for step in reversed(route):
        match step:
            case Inside.LIST:
                grown = ListOf(grown)
            case Inside.MAP:
                grown = MapOf(grown)
            case str():
                grown = Struct((Column(step, grown),))
    assert isinstance(grown, Struct)  # a route begins with a column
    return grown


@dataclass(slots=True)
class RowMaker:
    """Makes rows of decoded values for one schema of a table, and gathers what the schema lacks.

    `columns` are those of the values alone, without what a row says of its record. `reserved` are the names of those,
    in small letters. `growth` is what to add: while it is empty every row is whole; when it is not, the columns must
    grow and the values be put through once more.
    """

    columns: Struct
    reserved: frozenset[str] = frozenset()
    columns_max: int = COLUMNS_MAX
    growth: Struct = field(default_factory=Struct)
    _declared: Struct = field(default_factory=Struct)
    # By identity, since a schema's columns stay the same object (and are kept, so that no other gets its identity): to
    # compare thousands of columns with each record of theirs takes too long.
    _refused: dict[int, tuple[Struct, str]] = field(default_factory=dict)
    _fits: dict[str, tuple[str, Fit]] = field(init=False)
    _room: int = field(init=False)

    def __post_init__(self) -> None:
        self._fits = self._fits_of(self.columns, ())
        self._room = self.columns_max - leaves(self.columns)

    def row(self, value: object) -> dict[str, object]:
        """A row by column name. One that is refused (MisfitError) leaves no growth behind."""
        if not isinstance(value, dict):
            raise MisfitError(f"the value is {_article(value)}, not an object with fields")
        before = self.growth
        try:
            return self._struct(value, self._fits, self.columns, ())
        except MisfitError:
            self.growth = before
            raise

    def declare(self, declared: Struct) -> None:
        """Note the columns of a schema, whether or not a value of them was seen; values don't change their types.

        MisfitError: the table has no room for them, nor will it have; known at once when they come again.
        """
        _, reason = self._refused.get(id(declared), (declared, ""))
        if reason:
            raise MisfitError(reason)
        try:
            self._declare(declared)
        except MisfitError as error:
            self._refused[id(declared)] = (declared, str(error))
            raise

    def _declare(self, declared: Struct) -> None:
        renamed = [(column_name(column.name, self.reserved), column.type) for column in declared.columns]
        declared = Struct(tuple(Column(name, each) for name, each in renamed if name is not None))
        self._grow(additions(self.columns, declared))
        self._declared = merged_structs(self._declared, declared)

    def _grow(self, growth: Struct) -> None:
        known = settled(growth)
        if not isinstance(known, Struct):
            return
        grown = merged_structs(self.growth, known)
        if leaves(grown) > self._room:
            raise MisfitError(f"its new fields would take the table over {self.columns_max} columns")
        self.growth = grown

    def _fits_of(self, struct: Struct, route: Route) -> dict[str, tuple[str, Fit]]:
        return {
            column.name: (column.name, self._fit_of(column.type, (*route, column.name))) for column in struct.columns
        }

    def _struct(
        self, value: dict[str, object], fits: dict[str, tuple[str, Fit]], columns: Struct, route: Route
    ) -> dict[str, object]:
        row: dict[str, object] = {}
        new: dict[str, Column] = {}  # by the name in small letters
        for name, item in value.items():
            known = fits.get(name)
            if known is None:
                met = self._met_first(name, item, fits, columns, route)
                if isinstance(met, Column):
                    new.setdefault(met.name.lower(), met)
                    continue
                known = met
            column, fit = known
            if column in row:
                raise MisfitError(f"two fields of the record make the same column {_shown((*route, column))}")
            row[column] = None if item is None else fit(item)
        if new:
            self._grow(_inside(route, Struct(tuple(new.values()))))
        return row

    def _met_first(
        self, name: str, item: object, fits: dict[str, tuple[str, Fit]], columns: Struct, route: Route
    ) -> tuple[str, Fit] | Column:
        """The column of a field that is met for the first time: one under a cleaned name, or one that is yet to be."""
        cleaned = column_name(name, () if route else self.reserved)
        if cleaned is None:
            raise MisfitError(f"a field of {_shown(route) or 'the record'} has no name, or one over 255 characters")
        if cleaned != name and cleaned in fits:
            if len(fits) < 2 * COLUMNS_MAX:
                fits[name] = fits[cleaned]
            return fits[cleaned]
        for column in columns.columns:
            if column.name.lower() == cleaned.lower():
                raise MisfitError(f"field {name} differs from column {_shown((*route, column.name))} in case only")
        if len(route) >= DEPTH_MAX:
            raise MisfitError(f"objects inside objects, over {DEPTH_MAX} deep")
        return Column(cleaned, refined(self._declared_at((*route, cleaned)), inferred(item, len(route))))

    def _declared_at(self, route: Route) -> ColumnType:
        """UNKNOWN where no schema says what is there."""
        found: ColumnType = self._declared
        for step in route:
            match step, found:
                case str(name), Struct():
                    found = type_in(found, name)
                case Inside.LIST, ListOf():
                    found = found.element
                case Inside.MAP, MapOf():
                    found = found.value
                case _:
                    return Kind.UNKNOWN
        return found

    def _fit_of(self, column_type: ColumnType, route: Route) -> Fit:
        match column_type:
            case Struct():
                return self._fit_of_struct(column_type, route)
            case ListOf():
                return self._fit_of_list(column_type, route)
            case MapOf():
                return self._fit_of_map(column_type, route)
            case DecimalOf():
                return _fit_of_decimal(column_type, _shown(route))
            case Kind():
                return _fit_of_kind(column_type, _shown(route))

    def _fit_of_struct(self, column_type: Struct, route: Route) -> Fit:
        fits = self._fits_of(column_type, route)

        def fit(value: object) -> object:
            if not isinstance(value, dict):
                raise _misfit(_shown(route), value, "an object")
            return self._struct(value, fits, column_type, route)

        return fit

    def _fit_of_list(self, column_type: ListOf, route: Route) -> Fit:
        fit_element = self._fit_of(column_type.element, (*route, Inside.LIST))

        def fit(value: object) -> object:
            if not isinstance(value, list | tuple):
                raise _misfit(_shown(route), value, "a list")
            return [None if item is None else fit_element(item) for item in value]

        return fit

    def _fit_of_map(self, column_type: MapOf, route: Route) -> Fit:
        fit_value = self._fit_of(column_type.value, (*route, Inside.MAP))

        def fit(value: object) -> object:
            if not isinstance(value, dict):
                raise _misfit(_shown(route), value, "an object")
            return [(text_of(key), None if item is None else fit_value(item)) for key, item in value.items()]

        return fit


def _misfit(path: str, value: object, wanted: str) -> MisfitError:
    shown = text_of(value)
    return MisfitError(f"field {path} is {_article(value)} ({shown[:80]}), its column wants {wanted}")


def _article(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


def _fit_of_decimal(column_type: DecimalOf, path: str) -> Fit:
    quantum = decimal.Decimal(1).scaleb(-column_type.scale)
    context = decimal.Context(prec=column_type.precision, traps=[decimal.InvalidOperation, decimal.Inexact])

    def fit(value: object) -> object:
        wanted = f"a decimal({column_type.precision},{column_type.scale})"
        if isinstance(value, bool) or not isinstance(value, int | float | str | decimal.Decimal):
            raise _misfit(path, value, wanted)
        try:
            exact = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
            if isinstance(value, float) and len(exact.as_tuple().digits) > DOUBLE_DIGITS:
                # Whoever read the JSON has rounded it already: nobody knows what was there.
                raise _misfit(path, value, f"{wanted} (of over {DOUBLE_DIGITS} digits: as a text)")
            fitting = exact.quantize(quantum, context=context)
        except decimal.DecimalException:
            raise _misfit(path, value, wanted) from None
        if not fitting.is_finite():
            raise _misfit(path, value, wanted)
        return fitting

    return fit


def _fit_of_kind(kind: Kind, path: str) -> Fit:
    match kind:
        case Kind.STRING:
            return text_of
        case Kind.LONG:
            return _checked(path, "a whole number of 64 bits", _long)
        case Kind.DOUBLE:
            return _checked(path, "a number that a double has exactly", _double)
        case Kind.BOOLEAN:
            return _checked(path, "a boolean", _boolean)
        case Kind.BINARY:
            return _checked(path, "bytes (in JSON: base64)", _binary)
        case Kind.DATE:
            return _checked(path, "a date (in JSON: 2026-11-22)", _date)
        case Kind.TIMESTAMP:
            return _checked(path, "a time (in JSON: ISO 8601, or milliseconds since 1970)", _timestamp)
        case Kind.UNKNOWN:
            raise AssertionError("a table has no column of unknown type")


def _checked(path: str, wanted: str, convert: Fit) -> Fit:
    def fit(value: object) -> object:
        try:
            return convert(value)
        except (ValueError, TypeError, OverflowError):
            raise _misfit(path, value, wanted) from None

    return fit


def _long(value: object) -> object:
    if type(value) is int and LONG_MIN <= value <= LONG_MAX:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)  # 10.0 is a whole number: some writers have no others
    raise ValueError


def _double(value: object) -> object:
    if type(value) is float:
        return value
    if type(value) is int and int(float(value)) == value:
        return float(value)
    raise ValueError  # a whole number that would be another one, too


def _boolean(value: object) -> object:
    if value is True or value is False:
        return value
    raise ValueError


def _binary(value: object) -> object:
    return value if isinstance(value, bytes) else base64.b64decode(_text(value), validate=True)


def _date(value: object) -> object:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    return datetime.date.fromisoformat(_text(value))


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _timestamp(value: object) -> object:
    if type(value) is int:
        return _EPOCH + datetime.timedelta(milliseconds=value)
    at = value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(_text(value))
    # In UTC a time may be before the year 1, or after 9999: an OverflowError here, and not for whoever writes the file.
    return at.astimezone(datetime.UTC) if at.tzinfo is not None else at.replace(tzinfo=datetime.UTC)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
