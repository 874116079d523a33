"""Messages of random content, made from the schema of their classes by a seeded generator."""

from __future__ import annotations

import struct
from random import Random
from typing import Any, Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import MESSAGES
from barnabas.wire.primitives import ZERO_UUID
from barnabas.wire.schema import FIXED_FORMATS, Field, Kind, fields_of
from tests.unit.logstore.storage.support import batch

TOPIC: Final = "t"
TOPIC_ID: Final = b"0123456789abcdef"
_TEXTS: Final = (TOPIC, TOPIC, TOPIC, "", "é" * 40, "a.b_c", "x" * 127, "0", "-1", "gzip")
_NUMBERS: Final = (0, 0, 0, 1, 1, -1, -2, 2, 5, 100, 2**15 - 1, 2**31 - 1, -(2**31), 2**63 - 1)
_ELEMENTS_MAX: Final = 3
_DEPTH_WITH_ELEMENTS_MAX: Final = 6

VERSIONS: Final = [
    (key, version)
    for key in MESSAGES
    for version in range(min(key.version_min, key.advertised_min), key.version_max + 1)
]
"""Every key and version that has a codec."""


def random_request(random: Random, key: ApiKey, version: int) -> Any:
    return random_message(random, MESSAGES[key][0], version)


def random_response(random: Random, key: ApiKey, version: int) -> Any:
    return random_message(random, MESSAGES[key][1], version)


def random_message(random: Random, message: type[Any], version: int, depth: int = 0) -> Any:
    """Any value in each field that the version has, the default in all others."""
    values = {}
    for field in fields_of(message, version):
        if field.tag is None or random.random() < 0.5:
            values[field.name] = _field(random, field, version, depth)
    return message(**values)


def _field(random: Random, field: Field, version: int, depth: int) -> Any:
    if field.is_nullable and random.random() < 0.2:
        return None
    if not field.is_array:
        return _value(random, field.kind, version, depth)
    if depth >= _DEPTH_WITH_ELEMENTS_MAX:
        return []
    return [_value(random, field.kind, version, depth + 1) for _ in range(random.randint(0, _ELEMENTS_MAX))]


def _value(random: Random, kind: Kind, version: int, depth: int) -> Any:
    if not isinstance(kind, str):
        return random_message(random, kind, version, depth + 1)
    if kind == "bool":
        return random.random() < 0.5
    if kind == "uuid":
        return random.choice((TOPIC_ID, ZERO_UUID, random.randbytes(16)))
    if kind == "records":
        return batch(random.randint(1, 3)) if random.random() < 0.7 else random.randbytes(random.randint(0, 80))
    if kind in FIXED_FORMATS:
        return _number(random, FIXED_FORMATS[kind])
    if kind == "bytes":
        return random.randbytes(random.choice((0, 1, 20, 130)))
    return random.choice(_TEXTS)


def _number(random: Random, number_format: str) -> int | float:
    if number_format in "df":
        return random.choice((0.0, -1.5, 1e300, float("inf"))) if number_format == "d" else 0.5
    bits = 8 * struct.calcsize(f">{number_format}")
    low = 0 if number_format.isupper() else -(1 << bits - 1)
    high = low + (1 << bits) - 1
    return min(max(random.choice(_NUMBERS), low), high)
