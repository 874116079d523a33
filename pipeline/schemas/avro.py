"""Avro values: by a registry's schemas, or all by one schema file."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from pipeline.core.columns import Column, ColumnType, DecimalOf, Kind, ListOf, MapOf, Struct, column_name, merged
from pipeline.core.errors import PipelineError
from pipeline.core.rows import MisfitError
from pipeline.schemas.decoding import Decoded
from pipeline.schemas.registry import Registry, split_wire_format

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
_LOGICAL: dict[str, ColumnType] = {
    "date": Kind.DATE,
    "timestamp-millis": Kind.TIMESTAMP,
    "timestamp-micros": Kind.TIMESTAMP,
    "local-timestamp-millis": Kind.TIMESTAMP,
    "local-timestamp-micros": Kind.TIMESTAMP,
    "time-millis": Kind.STRING,
    "time-micros": Kind.STRING,
    "uuid": Kind.STRING,
}


class AvroSchemaError(PipelineError):
    """A schema that is no Avro schema, or one that can't be a table."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    parsed: Any
    columns: Struct

    @classmethod
    def parse(cls, text: str, references: tuple[tuple[str, str], ...] = ()) -> AvroSchema:
        named: dict[str, Any] = {}
        try:
            for _, reference in references:
                fastavro.parse_schema(json.loads(reference), named_schemas=named)
            parsed = fastavro.parse_schema(json.loads(text), named_schemas=named)
        except (SchemaParseException, ValueError, TypeError, KeyError) as error:
            raise AvroSchemaError(f"this is no Avro schema: {error!s:.200}") from None
        columns = _Columns(named).of(parsed)
        if not isinstance(columns, Struct):
            raise AvroSchemaError("a table needs an Avro record with fields; this schema is of something else")
        return cls(parsed, columns)


@dataclass(slots=True)
class _Columns:
    """Walks a parsed schema; `open_names` are the records that it is inside of."""

    named: dict[str, Any]
    open_names: list[str] = field(default_factory=list)

    def of(self, schema: Any) -> ColumnType:
        if isinstance(schema, list):
            column_type: ColumnType = Kind.UNKNOWN
            for branch in schema:
                column_type = merged(column_type, self.of(branch))
            return column_type
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self.of(self.named[schema])
        logical = schema.get("logicalType")
        if logical == "decimal":
            return DecimalOf(int(schema["precision"]), int(schema.get("scale", 0)))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return Kind.STRING
            case "fixed":
                return Kind.BINARY
            case "array":
                if self._may_be_empty(schema["items"]):
                    # A few bytes could claim any number of them (2**62 nulls): no memory would do.
                    raise AvroSchemaError("an array's elements take no bytes by this schema: it can't be read safely")
                return ListOf(self.of(schema["items"]))
            case "map":
                return MapOf(self.of(schema["values"]))
            case inner:
                return self.of(inner)

    def _record(self, schema: Any) -> ColumnType:
        if schema["name"] in self.open_names:
            return Kind.STRING  # inside of itself: as JSON text, for no column is of endless depth
        self.open_names.append(schema["name"])
        columns = []
        for each in schema["fields"]:
            name = column_name(each["name"])
            assert name is not None  # Avro's names are never empty
            columns.append(Column(name, self.of(each["type"])))
        self.open_names.pop()
        return Struct(tuple(columns))

    def _may_be_empty(self, schema: Any) -> bool:
        if isinstance(schema, list):
            return False  # a union writes which branch it is
        if isinstance(schema, str):
            return schema == "null" or (schema not in _PRIMITIVES and self._may_be_empty(self.named[schema]))
        match schema["type"]:
            case "record" | "error":
                if schema["name"] in self.open_names:
                    return False
                self.open_names.append(schema["name"])
                empty = all(self._may_be_empty(each["type"]) for each in schema["fields"])
                self.open_names.pop()
                return empty
            case "fixed":
                return int(schema["size"]) == 0
            case "enum" | "array" | "map":
                return False
            case inner:
                return self._may_be_empty(inner)


@dataclass(slots=True)
class AvroDecoder:
    """`ValueDecoder` for Avro. Without a registry every value is of the one schema, with no wire format before it."""

    registry: Registry | None
    fixed: AvroSchema | None
    _by_id: dict[int, AvroSchema] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: str) -> AvroDecoder:
        return cls(None, AvroSchema.parse(Path(path).read_text()))

    def decode(self, value: bytes) -> Decoded:
        if self.fixed is not None:
            schema, payload = self.fixed, value
        else:
            assert self.registry is not None
            schema_id, payload = split_wire_format(value)
            schema = self._schema(schema_id, self.registry)
        stream = io.BytesIO(payload)
        try:
            decoded = fastavro.schemaless_reader(stream, schema.parsed, None)
        except Exception as error:  # whatever bytes make it raise, they are not of this schema
            raise MisfitError(f"not Avro by its schema: {type(error).__name__} {error!s:.120}") from None
        if stream.tell() != len(payload):
            raise MisfitError(f"not Avro by its schema: {len(payload) - stream.tell()} bytes are left over")
        return Decoded(decoded, schema.columns)

    def _schema(self, schema_id: int, registry: Registry) -> AvroSchema:
        known = self._by_id.get(schema_id)
        if known is None:
            registered = registry.schema(schema_id)
            if registered.kind != "AVRO":
                raise MisfitError(f"schema {schema_id} is {registered.kind}, not Avro")
            known = self._by_id[schema_id] = AvroSchema.parse(registered.text, registered.references)
        return known
