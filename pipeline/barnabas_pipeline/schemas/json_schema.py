"""JSON by a registry's JSON Schemas: values are read as JSON, their schemas declare what columns hold.

A schema of JSON says what is allowed, not what there is. What it leaves open is inferred from the values, as without
one; formats ("date-time") say nothing, since most validators do not hold values to them.
"""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass, field

import orjson

from barnabas_pipeline.core.columns import Column, ColumnType, Kind, ListOf, MapOf, Struct, column_name, merged
from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.rows import DEPTH_MAX
from barnabas_pipeline.schemas.decoding import PARTS_MAX, Decoded, parsed_json
from barnabas_pipeline.schemas.registry import CompiledSchemas, Registry
from barnabas_pipeline.schemas.wire_format import split_wire_format

_KINDS: dict[object, ColumnType] = {
    "boolean": Kind.BOOLEAN,
    "integer": Kind.LONG,
    "number": Kind.DOUBLE,
    "string": Kind.STRING,
}


class JsonSchemaError(PipelineError):
    """A schema that is no JSON Schema."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """`columns` is None where the schema does not say that values are objects with fields."""

    columns: Struct | None

    @classmethod
    def parse(cls, text: str, references: tuple[tuple[str, str], ...] = ()) -> JsonSchema:
        try:
            documents = {name: orjson.loads(reference) for name, reference in references}
            schema = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise JsonSchemaError(f"this is no JSON Schema: {error!s:.120}") from None
        columns = _Columns(documents).of(schema, schema, ())
        return cls(columns if isinstance(columns, Struct) else None)


@dataclass(slots=True)
class _Columns:
    """Walks a schema; `documents` are what it refers to, by name."""

    documents: dict[str, object]
    parts: int = field(default=0)

    def of(self, schema: object, document: object, inside: tuple[int, ...]) -> ColumnType:
        """`inside`: the parts that it is inside of, each by its identity."""
        self.parts += 1
        if self.parts > PARTS_MAX:
            raise JsonSchemaError(f"this JSON Schema has more than {PARTS_MAX} parts once its references are followed")
        if not isinstance(schema, dict):
            return Kind.UNKNOWN  # true: anything
        if id(schema) in inside or len(inside) > DEPTH_MAX:
            return Kind.STRING  # inside of itself: as JSON text, for no column is of endless depth
        inside = (*inside, id(schema))
        found = self._own_type(schema, document, inside)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target, target_document = self._resolve(reference, document)
            found = merged(found, self.of(target, target_document, inside))
        for key in ("allOf", "anyOf", "oneOf"):
            for branch in _list(schema.get(key)):
                found = merged(found, self.of(branch, document, inside))
        return found

    def _own_type(self, schema: dict[str, object], document: object, inside: tuple[int, ...]) -> ColumnType:
        named = schema.get("type")
        found: ColumnType = Kind.UNKNOWN
        for each in named if isinstance(named, list) else [named]:
            if each == "object" or (each is None and "properties" in schema):
                found = merged(found, self._object(schema, document, inside))
            elif each == "array" or (each is None and "items" in schema):
                found = merged(found, self._array(schema, document, inside))
            else:
                found = merged(found, _KINDS.get(each, Kind.UNKNOWN))
        return found

    def _object(self, schema: dict[str, object], document: object, inside: tuple[int, ...]) -> ColumnType:
        properties = schema.get("properties")
        others = schema.get("additionalProperties")
        if not isinstance(properties, dict) or not properties:
            return MapOf(self.of(others, document, inside)) if isinstance(others, dict) and others else Kind.UNKNOWN
        columns = []
        for name, inner in properties.items():
            cleaned = column_name(name)
            if cleaned is not None:
                columns.append(Column(cleaned, self.of(inner, document, inside)))
        return Struct(tuple(columns))

    def _array(self, schema: dict[str, object], document: object, inside: tuple[int, ...]) -> ColumnType:
        items = schema.get("items")
        element: ColumnType = Kind.UNKNOWN
        for each in (*_list(schema.get("prefixItems")), *(_list(items) if isinstance(items, list) else [items])):
            element = merged(element, self.of(each, document, inside))
        return ListOf(element)

    def _resolve(self, reference: str, document: object) -> tuple[object, object]:
        """What is referred to, and the document that it is in; nothing (anything goes) where it is not to be had."""
        name, _, pointer = reference.partition("#")
        if name:
            base = document.get("$id", "") if isinstance(document, dict) else ""
            absolute = urllib.parse.urljoin(str(base), name)
            document = self.documents.get(name, self.documents.get(absolute))
        target = document
        for step in pointer.split("/")[1:]:
            step = urllib.parse.unquote(step).replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, dict) else None
        return target, document


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


class JsonSchemaDecoder:
    """`ValueDecoder` for JSON by a registry's schemas."""

    def __init__(self, registry: Registry) -> None:
        self._schemas = CompiledSchemas(registry, "JSON", JsonSchema.parse)

    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        schema_id, rest, apart = split_wire_format(value, schema_header)
        schema = self._schemas.of(schema_id)
        return Decoded(parsed_json(rest if apart is None else apart), schema.columns)
