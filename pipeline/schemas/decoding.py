"""How a value becomes fields: one contract for JSON, Avro and Protobuf."""

from __future__ import annotations

import enum
import functools
import json
import re
from dataclasses import dataclass
from typing import Protocol

import orjson

from pipeline.core.columns import Struct
from pipeline.core.rows import MisfitError
from pipeline.schemas.wire_format import without_prefix

PARTS_MAX = 20_000
"""So many columns, with structs, lists and maps counted, a schema may come to: types that refer to each other double
with each step, and a table has a thousand."""


class ValueFormat(enum.Enum):
    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


@dataclass(frozen=True, slots=True)
class Decoded:
    """`declared` are the columns by the value's own schema, None where it has none (JSON)."""

    value: object
    declared: Struct | None


class ValueDecoder(Protocol):
    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        """`schema_header` is the record's header that names the value's schema, where it has one.

        Raises MisfitError: a dead letter. Any other error ends the batch: nobody knows what the value is."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What a job says of its values; goes to executors as it is."""

    format: ValueFormat = ValueFormat.RAW
    registry_url: str = ""
    registry_user: str = ""
    schema_file: str = ""
    message: str = ""


class JsonDecoder:
    """Without a registry: the prefix that serializers of JSON Schema write is passed over where it is."""

    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        return Decoded(parsed_json(without_prefix(value)), None)


# All whole numbers of over 64 bits have so many digits, those below zero with their sign.
_LONG_INTEGER = re.compile(rb"[0-9]{20}|-[0-9]{19}")


def parsed_json(text: bytes) -> object:
    try:
        value = orjson.loads(text)
        # It reads whole numbers of over 64 bits as doubles: those that have them, maybe, are read again.
        return value if _LONG_INTEGER.search(text) is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MisfitError(f"not JSON: {error!s:.120}") from None


@functools.lru_cache(maxsize=8)
def decoder_of(decoding: Decoding) -> ValueDecoder:
    """One per process and job: registries and compiled schemas are remembered in it."""
    # Imported where they are needed: a job of JSON needs no Avro and no compiler of Protobuf.
    from pipeline.schemas.registry import Registry

    registry = Registry(decoding.registry_url, decoding.registry_user) if decoding.registry_url else None
    match decoding.format:
        case ValueFormat.JSON:
            from pipeline.schemas.json_schema import JsonSchemaDecoder

            return JsonDecoder() if registry is None else JsonSchemaDecoder(registry)
        case ValueFormat.AVRO:
            from pipeline.schemas.avro import AvroDecoder, AvroFileDecoder

            return AvroFileDecoder(decoding.schema_file) if registry is None else AvroDecoder(registry)
        case ValueFormat.PROTOBUF:
            from pipeline.schemas.protobuf import ProtobufDecoder, ProtobufFileDecoder

            if registry is None:
                return ProtobufFileDecoder(decoding.schema_file, decoding.message)
            return ProtobufDecoder(registry)
        case ValueFormat.RAW:
            raise AssertionError("raw values are not decoded")
