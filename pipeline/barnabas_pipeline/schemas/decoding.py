"""The contract of decoders for JSON, Avro and Protobuf, and what they share."""

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
"""The maximum number of columns of a schema, including structs, lists and maps: types that refer to each other double
with each step, and a table has a thousand."""


class ValueFormat(enum.Enum):
    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


@dataclass(frozen=True, slots=True)
class Decoded:
    """`declared` are the columns by the value's own schema, None if it has none (JSON)."""

    value: object
    declared: Struct | None


class ValueDecoder(Protocol):
    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        """`schema_header` is the record's header with the value's schema, if it has one.

        Raises MisfitError: a dead letter. Any other error ends the batch: the value's meaning is unknown."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """A job's settings for values; sent to executors unchanged."""

    format: ValueFormat = ValueFormat.RAW
    registry_url: str = ""
    registry_user: str = ""
    schema_file: str = ""
    message: str = ""


class JsonDecoder:
    """Without a registry: a prefix written by serializers of JSON Schema is skipped."""

    def decode(self, value: bytes, schema_header: bytes | None) -> Decoded:
        return Decoded(parsed_json(without_prefix(value)), None)


# All integers of over 64 bits have so many digits, negative ones with their sign.
_LONG_INTEGER = re.compile(rb"[0-9]{20}|-[0-9]{19}")


def parsed_json(text: bytes) -> object:
    try:
        value = orjson.loads(text)
        # orjson reads integers of over 64 bits as doubles: values that may have them are read again.
        return value if _LONG_INTEGER.search(text) is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MisfitError(f"not JSON: {error!s:.120}") from None
