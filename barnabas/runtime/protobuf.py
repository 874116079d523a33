"""Converts the cores' dataclasses to protobuf messages and back, by field name.

For the control plane, where a message a second is much; the data channel packs by hand. A dataclass mirrors its message
field by field (a test holds it): scalars, `X | None` for a message that may be absent, `list[…]`, and `dict[str, str]`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from operator import attrgetter
from typing import Any, TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class _Kind(Enum):
    SCALAR = "scalar"
    SCALARS = "list of scalars"
    MAP = "map"
    MESSAGE = "message"
    MESSAGES = "list of messages"


_Reader = tuple[Callable[[Message], Iterable[Any]], list[tuple[int, _Kind, Any]]]
"""Gives the values of all fields at once, in order; and which of them have to be converted: index, kind, dataclass."""

_readers_by_type: dict[type, _Reader] = {}
_fields_by_type: dict[type, list[tuple[str, _Kind, Any]]] = {}


def _fields(dataclass_type: type) -> list[tuple[str, _Kind, Any]]:
    """(name, kind, the dataclass of a message or None) of every field, in order."""
    fields = _fields_by_type.get(dataclass_type)
    if fields is None:
        hints = typing.get_type_hints(dataclass_type)
        fields = [(field.name, *_kind(hints[field.name])) for field in dataclasses.fields(dataclass_type)]
        _fields_by_type[dataclass_type] = fields
    return fields


def _kind(hint: Any) -> tuple[_Kind, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (each for each in arguments if each is not types.NoneType)
        assert dataclasses.is_dataclass(inner), f"{hint}: only a message can be absent"
        return _Kind.MESSAGE, inner
    if origin is list:
        (inner,) = arguments
        return (_Kind.MESSAGES, inner) if dataclasses.is_dataclass(inner) else (_Kind.SCALARS, None)
    if origin is dict:
        return _Kind.MAP, None
    assert not dataclasses.is_dataclass(hint), f"{hint}: a message can always be absent"
    return _Kind.SCALAR, None


def to_proto(value: Any, proto_class: type[M]) -> M:
    """The message of a dataclass. Raises TypeError or ValueError of protobuf for a value that its field cannot hold."""
    message = proto_class()
    _fill(value, message)
    return message


def _fill(value: Any, message: Message) -> None:
    for name, kind, _ in _fields(type(value)):
        item = getattr(value, name)
        if not item and item is not None:
            continue  # What a message leaves out has that very value: most lists of most partitions are empty.
        match kind:
            case _Kind.SCALAR:
                setattr(message, name, item)
            case _Kind.SCALARS:
                getattr(message, name).extend(item)
            case _Kind.MAP:
                getattr(message, name).update(item)
            case _Kind.MESSAGES:
                repeated = getattr(message, name)
                for each in item:
                    _fill(each, repeated.add())
            case _Kind.MESSAGE:
                if item is not None:
                    submessage = getattr(message, name)
                    submessage.SetInParent()
                    _fill(item, submessage)
            case _:
                typing.assert_never(kind)


def from_proto(dataclass_type: type[T], message: Message) -> T:
    """The dataclass of a message; what the message leaves out has protobuf's default, not the dataclass's."""
    read, converted = _reader(dataclass_type)
    values = list(read(message))
    for index, kind, inner in converted:
        item = values[index]
        match kind:
            case _Kind.SCALARS:
                values[index] = list(item)
            case _Kind.MAP:
                values[index] = dict(item)
            case _Kind.MESSAGES:
                values[index] = [from_proto(inner, each) for each in item]
            case _Kind.MESSAGE:
                is_there = message.HasField(_fields(dataclass_type)[index][0])
                values[index] = from_proto(inner, item) if is_there else None
    return dataclass_type(*values)


def _reader(dataclass_type: type) -> _Reader:
    reader = _readers_by_type.get(dataclass_type)
    if reader is None:
        fields = _fields(dataclass_type)
        converted: list[tuple[int, _Kind, Any]] = [
            (index, kind, inner) for index, (_, kind, inner) in enumerate(fields) if kind is not _Kind.SCALAR
        ]
        reader = _readers_by_type[dataclass_type] = (_read_all([name for name, _, _ in fields]), converted)
    return reader


def _read_all(names: list[str]) -> Callable[[Message], Iterable[Any]]:
    """Of one name `attrgetter` gives the value itself, of several a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: [getattr(message, name) for name in names]
