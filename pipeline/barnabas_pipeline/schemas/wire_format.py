"""Which schema a value is of, as the serializers of Confluent's kind write it: before the value, or in a header.

Before the value: a zero byte and the id in four bytes (big endian), or a one and the GUID in sixteen. Newer serializers
can put the same into the record's header `__value_schema_id`; then nothing stands before the value. Protobuf's message
indexes follow the id in either place.
"""

from __future__ import annotations

import struct
import uuid

from barnabas_pipeline.core.rows import MisfitError

SchemaId = int | uuid.UUID
VALUE_SCHEMA_HEADER = "__value_schema_id"


def split_wire_format(value: bytes, header: bytes | None) -> tuple[SchemaId, bytes, bytes | None]:
    """The schema's id, what follows it, and the payload if that stands apart (the id is in the header).

    Raises MisfitError.
    """
    schema_id, rest = _read_id(value if header is None else header, "value" if header is None else "schema's header")
    return schema_id, rest, None if header is None else value


def _read_id(framed: bytes, what: str) -> tuple[SchemaId, bytes]:
    match framed[:1]:
        case b"\0" if len(framed) >= 5:
            return struct.unpack_from(">I", framed, 1)[0], framed[5:]
        case b"\1" if len(framed) >= 17:
            return uuid.UUID(bytes=framed[1:17]), framed[17:]
        case _:
            raise MisfitError(f"the {what} does not begin with a zero byte and a schema's id")


def without_prefix(text: bytes) -> bytes:
    """JSON as it is: no text of JSON begins with the bytes that a schema's id begins with."""
    match text[:1]:
        case b"\0":
            return text[5:]
        case b"\1":
            return text[17:]
        case _:
            return text
