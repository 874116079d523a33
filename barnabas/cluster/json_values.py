"""Values in etcd as JSON: decoded with checks, so that a damaged one is reported and never taken for another."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class UnreadableValue(ValueError):  # noqa: N818 - it names what was found
    """The value of a key in etcd is not what the key stands for."""


def load_object(value: bytes) -> dict[str, Any]:
    try:
        values = _loads(value)
    except RecursionError:
        raise UnreadableValue("nested too deep") from None
    except UnicodeEncodeError:
        raise UnreadableValue("half a surrogate pair") from None
    if not isinstance(values, dict):
        raise UnreadableValue("not an object")
    return values


def _loads(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        values = json.loads(value)  # it accepts more, such as NaN, and its errors describe the rest
        # Half a surrogate pair, too, which neither a message nor the log can carry.
        json.dumps(values, ensure_ascii=False).encode()
        return values


def typed(kind: type[T], values: dict[str, Any]) -> T:
    try:
        return msgspec.convert(values, kind, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise UnreadableValue(str(error)) from None


def held_by(key: str, key_of_record: str, record: T) -> T:
    """A record under another's key would be removed when that key is deleted, or never."""
    if key != key_of_record:
        raise UnreadableValue(f"it belongs to {key_of_record}")
    return record


def dump_object(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
