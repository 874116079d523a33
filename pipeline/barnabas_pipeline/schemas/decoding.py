"""What decoding a value is: the contract of decoders for JSON, Avro and Protobuf, and what they share."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass
from typing import Protocol

import orjson

from barnabas_pipeline.core.columns import Struct
from barnabas_pipeline.core.rows import MisfitError
from barnabas_pipeline.schemas.wire_format import without_prefix

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
