"""Avro values: by a registry's schemas, or all by one schema file."""

from __future__ import annotations

import io
import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import fastavro.read
from fastavro._read_py import read_data
from fastavro.io.binary_decoder import BinaryDecoder
from fastavro.schema import SchemaParseException

from barnabas_pipeline.core.columns import (
    DECIMAL_PRECISION_MAX,
    NAME_LENGTH_MAX,
    Column,
    ColumnType,
    DecimalOf,
    Kind,
    ListOf,
    MapOf,
    Struct,
    column_name,
    merged,
)
from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.rows import MisfitError
from barnabas_pipeline.schemas.decoding import PARTS_MAX, Decoded
from barnabas_pipeline.schemas.registry import CompiledSchemas, Registry
from barnabas_pipeline.schemas.wire_format import split_wire_format

_PRIMITIVES: dict[str, ColumnType] = {
    "null": Kind.UNKNOWN,
    "boolean": Kind.BOOLEAN,
    "int": Kind.LONG,
    "long": Kind.LONG,
    "float": Kind.DOUBLE,
    "double": Kind.DOUBLE,
    "bytes": Kind.BINARY,
    "string": Kind.STRING,
}
_LOGICAL: dict[tuple[str, str], ColumnType] = {
    ("date", "int"): Kind.DATE,
    ("timestamp-millis", "long"): Kind.TIMESTAMP,
    ("timestamp-micros", "long"): Kind.TIMESTAMP,
    ("local-timestamp-millis", "long"): Kind.TIMESTAMP,
    ("local-timestamp-micros", "long"): Kind.TIMESTAMP,
    ("time-millis", "int"): Kind.STRING,
    ("time-micros", "long"): Kind.STRING,
    ("uuid", "string"): Kind.STRING,
    ("uuid", "fixed"): Kind.STRING,
}
_LONG_BYTES_MAX = 10
FIELDS_FOR_NOTHING_MAX = 8
_OPTIONS = {"handle_unicode_errors": "strict"}


class AvroSchemaError(PipelineError):
    """A schema that is no Avro schema, or one that can't be a table."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """`named` are its records and the like by name. `is_recursive`: one of them can be inside of itself."""

    parsed: Any
    named: dict[str, Any]
    columns: Struct
    is_recursive: bool

    @classmethod
    def parse(cls, text: str, references: tuple[tuple[str, str], ...] = ()) -> AvroSchema:
        named: dict[str, Any] = {}
        try:
            for _, reference in references:
                fastavro.parse_schema(_read(reference), named_schemas=named)
            # Inside of a record, which adds no byte: fastavro keeps references' names with records only, and the schema
            # may be a union of them.
            inside = {"name": "value", "type": _read(text)}
            wrapped = {"type": "record", "name": "BarnabasValue", "fields": [inside]}
            parsed = fastavro.parse_schema(wrapped, named_schemas=named)
            walk = _Columns(named)
            columns = walk.of(parsed["fields"][0]["type"])
            walk.check_repeated()
        except (SchemaParseException, ValueError, TypeError, KeyError) as error:
            raise AvroSchemaError(f"this is no Avro schema: {error!s:.200}") from None
        except RecursionError:
            raise AvroSchemaError("this Avro schema has types inside of types, too deep to be read") from None
        if not isinstance(columns, Struct):
            raise AvroSchemaError("a table needs an Avro record with fields; this schema is of something else")
        return cls(parsed, named, columns, walk.is_recursive)

    def decode(self, payload: bytes) -> Decoded:
        stream = io.BytesIO(payload)
        try:
            decoded: Any = self._read(stream)
        except RecursionError:
            raise MisfitError("not Avro by its schema: records inside of records, too deep to be read") from None
        except Exception as error:  # whatever bytes make it raise, they are not of this schema
            raise MisfitError(f"not Avro by its schema: {type(error).__name__} {error!s:.120}") from None
        if stream.tell() != len(payload):
            raise MisfitError(f"not Avro by its schema: {len(payload) - stream.tell()} bytes are left over")
        return Decoded(decoded["value"], self.columns)

    def _read(self, stream: io.BytesIO) -> Any:
        if not self.is_recursive:
            return fastavro.schemaless_reader(stream, self.parsed, None)
        # A few bytes can be thousands of records inside of each other. The compiled reader has no end of depth but
        # that of the process's stack; in Python it is a RecursionError. Both take the same readers of logical types.
        return read_data(_Decoder(stream), self.parsed, {"writer": self.named, "reader": {}}, None, _OPTIONS)


class _Decoder(BinaryDecoder):
    """Without whole numbers of any length, which take the square of it in time."""

    def read_long(self) -> int:
        number = 0
        for position in range(_LONG_BYTES_MAX):
            byte: bytes = self.fo.read(1)
            if not byte:
                raise EOFError
            number |= (byte[0] & 0x7F) << 7 * position
            if byte[0] < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise ValueError(f"a whole number of over {_LONG_BYTES_MAX} bytes")

    read_int = read_long


def _read(text: str) -> Any:
    return json.loads(text, object_hook=_without_wrong_logical_type)


def _without_wrong_logical_type(schema: dict[str, Any]) -> dict[str, Any]:
    """As Avro has it, a logical type that is not known, or not valid where it stands, says nothing."""
    logical, base = schema.get("logicalType"), schema.get("type")
    match logical, base, schema.get("precision"), schema.get("scale", 0):
        case "decimal", "bytes" | "fixed", int(precision), int(scale) if 0 <= scale <= precision and precision > 0:
            return schema
        case "uuid", "fixed", *_ if schema.get("size") != 16:
            pass
        case str(), str(), *_ if (logical, base) in _LOGICAL:
            return schema
    return {name: value for name, value in schema.items() if name != "logicalType"}


def _read_fixed_uuid(value: bytes, *_: Any) -> uuid.UUID:
    return uuid.UUID(bytes=value)


# fastavro reads those in text only.
fastavro.read.LOGICAL_READERS["fixed-uuid"] = _read_fixed_uuid


def _of_either(one: ColumnType, other: ColumnType) -> ColumnType:
    """Of a union that is to hold both. Not all of its long numbers are doubles."""
    return Kind.STRING if {one, other} == {Kind.LONG, Kind.DOUBLE} else merged(one, other)


@dataclass(slots=True)
class _Columns:
    """Walks a parsed schema; `open_names` are the records that it is inside of, `lists` how many arrays and maps.

    `for_nothing` is by record what `_for_nothing` says of it. A dear record is one with many fields for no bytes.
    """

    named: dict[str, Any]
    open_names: list[str] = field(default_factory=list)
    is_recursive: bool = False
    parts: int = 0
    lists: int = 0
    dear_name: str = ""
    is_dear_repeated: bool = False
    for_nothing: dict[str, tuple[bool, int]] = field(default_factory=dict)

    def of(self, schema: Any) -> ColumnType:
        self.parts += 1
        if self.parts > PARTS_MAX:
            raise AvroSchemaError(f"this Avro schema has more than {PARTS_MAX} parts once its names are followed")
        if isinstance(schema, list):
            column_type: ColumnType = Kind.UNKNOWN
            for branch in schema:
                column_type = _of_either(column_type, self.of(branch))
            return column_type
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self.of(self.named[schema])
        match schema.get("logicalType"):
            case "decimal" if schema["precision"] > DECIMAL_PRECISION_MAX:
                return Kind.STRING  # its digits, all of them
            case "decimal":
                return DecimalOf(schema["precision"], schema.get("scale", 0))
            case str(logical):
                return _LOGICAL[logical, schema["type"]]
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return Kind.STRING
            case "fixed":
                return Kind.BINARY
            case "array":
                self._check_elements(schema["items"])
                return ListOf(self._repeated(schema["items"]))
            case "map":
                return MapOf(self._repeated(schema["values"]))
            case inner:
                return self.of(inner)

    def _repeated(self, schema: Any) -> ColumnType:
        self.lists += 1
        element = self.of(schema)
        self.lists -= 1
        return element

    def _record(self, schema: Any) -> ColumnType:
        if self._record_for_nothing(schema)[1] > FIELDS_FOR_NOTHING_MAX:
            if not self.is_dear_repeated:
                self.dear_name = schema["name"]
            self.is_dear_repeated |= self.lists > 0
        if schema["name"] in self.open_names:
            self.is_recursive = True
            return Kind.STRING  # inside of itself: as JSON text, for no column is of endless depth
        self.open_names.append(schema["name"])
        columns = []
        for each in schema["fields"]:
            name = column_name(each["name"])
            if name is None:
                raise AvroSchemaError(f"no column can be called {each['name']:.20}…: over {NAME_LENGTH_MAX} characters")
            columns.append(Column(name, self.of(each["type"])))
        self.open_names.pop()
        return Struct(tuple(columns))

    def check_repeated(self) -> None:
        """After the walk. Of a list's or map's records, and those inside of themselves, a byte each is enough."""
        if self.is_dear_repeated or (self.dear_name and self.is_recursive):
            raise AvroSchemaError(
                f"{self.dear_name} has over {FIELDS_FOR_NOTHING_MAX} fields that take no bytes, and a value any number "
                "of it: it can't be read safely"
            )

    def _check_elements(self, schema: Any) -> None:
        """Of an array: a few bytes could claim any number of them (2**62 nulls), and no memory would do."""
        if self._for_nothing(schema)[0]:
            raise AvroSchemaError("an array's elements take no bytes by this schema: it can't be read safely")

    def _for_nothing(self, schema: Any) -> tuple[bool, int]:
        """Whether it may take no bytes, and how many fields are in it that take none."""
        if isinstance(schema, list):
            return False, 0  # a union writes which branch it is
        if isinstance(schema, str):
            if schema in self.named:
                return self._for_nothing(self.named[schema])
            return schema == "null", int(schema == "null")
        match schema["type"]:
            case "record" | "error":
                return self._record_for_nothing(schema)
            case "fixed":
                return schema["size"] == 0, int(schema["size"] == 0)
            case "enum" | "array" | "map":
                return False, 0
            case inner:
                return self._for_nothing(inner)

    def _record_for_nothing(self, schema: Any) -> tuple[bool, int]:
        name = schema["name"]
        if name not in self.for_nothing:
            self.for_nothing[name] = (False, 0)  # as long as it is inside of itself
            inner = [self._for_nothing(each["type"]) for each in schema["fields"]]
            is_empty = all(empty for empty, _ in inner)
            self.for_nothing[name] = (is_empty, sum(count for _, count in inner) + is_empty)
        return self.for_nothing[name]


class AvroDecoder:
    """`ValueDecoder` for Avro by a registry's schemas."""

    def __init__(self, registry: Registry) -> None:
        self._schemas = CompiledSchemas(registry, "AVRO", AvroSchema.parse)

    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        schema_id, rest, apart = split_wire_format(value, schema_header)
        return self._schemas.of(schema_id).decode(rest if apart is None else apart)


class AvroFileDecoder:
    """`ValueDecoder` for Avro where every value is of the one schema, with nothing before it."""

    def __init__(self, path: str) -> None:
        try:
            self._schema = AvroSchema.parse(Path(path).read_text())
        except AvroSchemaError as error:
            raise AvroSchemaError(f"{path}: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise AvroSchemaError(f"the schema file {path} can't be read: {error}") from None

    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        return self._schema.decode(value)
