"""One full and one empty sample of every message and version, the same on every run."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.schema import Field, Kind, fields_of
from tests.unit.wire.strategies import ALL_VERSIONS

RENAMED = {
    ("TxnOffsetCommitRequest", "generation_id"): "GenerationIdOrMemberEpoch",
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "AcceptableRecoveryLagLegacy",
}
"""By message and field: the name that Kafka gave it later, in the JSON of the message."""


class Sample(NamedTuple):
    name: str
    message: Any
    key: ApiKey
    version: int


def samples() -> Iterator[Sample]:
    """Of each first a message that has something in every field, then one that is empty."""
    for message, key, version in ALL_VERSIONS:
        yield Sample(f"{message.__name__} v{version} full", full(message, version, count(1)), key, version)
        yield Sample(f"{message.__name__} v{version} empty", empty(message, version), key, version)


def full(message: type[Any], version: int, numbers: Iterator[int]) -> Any:
    """No two values in it are the same, so that none can stand in the other's place."""
    return message(**{field.name: full_field(field, version, numbers) for field in fields_of(message, version)})


def full_field(field: Field, version: int, numbers: Iterator[int]) -> Any:
    if field.is_array:
        return [full_value(field.kind, version, numbers) for _ in range(2)]
    return full_value(field.kind, version, numbers)


def full_value(kind: Kind, version: int, numbers: Iterator[int]) -> Any:
    if not isinstance(kind, str):
        return full(kind, version, numbers)
    number = next(numbers)
    match kind:
        case "bool":
            return True
        case "string":
            return f"é{number}"
        case "uuid":
            return number.to_bytes(2) * 8
        case "records" | "bytes":
            return number.to_bytes(2) + b"\xff"
        case "int8":
            return -(number % 129)
        case "int16" | "uint16":
            return number * 251 % 0x8000
        case "float64":
            return number / 4
        case _:
            return number * 251


def empty(message: type[Any], version: int) -> Any:
    """Null wherever that is allowed, and the default elsewhere."""
    return message(**{field.name: None for field in fields_of(message, version) if field.is_nullable})


def kafka_json(message: Any, version: int) -> dict[str, Any]:
    """The JSON that Kafka's converters read."""
    json: dict[str, Any] = {}
    for field in fields_of(type(message), version):
        value = getattr(message, field.name)
        if value is None and field.tag is not None:
            continue
        name = RENAMED.get((type(message).__name__, field.name)) or "".join(map(str.capitalize, field.name.split("_")))
        name = name[0].lower() + name[1:]
        if field.is_array and value is not None:
            json[name] = [json_value(field.kind, element, version) for element in value]
        else:
            json[name] = json_value(field.kind, value, version)
    return json


def json_value(kind: Kind, value: Any, version: int) -> Any:
    if value is None:
        return None
    if not isinstance(kind, str):
        return kafka_json(value, version)
    if kind == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if kind in ("records", "bytes"):
        return base64.b64encode(value).decode()
    return value
