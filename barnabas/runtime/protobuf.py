"""Converts the cores' dataclasses to protobuf messages and back, by field name.

For the control plane, where a message a second is much; the data channel has packers and scanners of its own. A
dataclass mirrors its message field by field (a test holds it): scalars, `X | None` for a message that may be absent,
`list[…]`, and `dict[str, str]`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from google.protobuf.message import Message

from barnabas.wire.source import Source

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class _Kind(Enum):
    SCALAR = "scalar"
    SCALARS = "list of scalars"
    MAP = "map"
    MESSAGE = "message"
    MESSAGES = "list of messages"


_Reader = Callable[[Message], Any]

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
    value: T = _reader(dataclass_type)(message)
    return value


def _reader(dataclass_type: type) -> _Reader:
    reader = _readers_by_type.get(dataclass_type)
    if reader is None:
        reader = _readers_by_type[dataclass_type] = _compile_reader(dataclass_type)
    return reader


def _compile_reader(dataclass_type: type) -> _Reader:
    """A function that is compiled for the fields of this dataclass: an update of ten thousand partitions is converted
    in one turn of an event loop.

    It sets the slots itself: the `__init__` of a frozen dataclass takes longer than all the rest.
    """
    assert "__slots__" in vars(dataclass_type), f"{dataclass_type}: a dataclass with slots"
    assert not hasattr(dataclass_type, "__post_init__"), f"{dataclass_type}: nothing but fields"
    page = Source({"dataclass_type": dataclass_type, "new": object.__new__})
    with page.block("def read(message):"):
        page.line("value = new(dataclass_type)")
        for name, kind, inner in _fields(dataclass_type):
            page.names[f"set_{name}"] = getattr(dataclass_type, name).__set__
            if inner is not None:
                page.names[f"read_{name}"] = _reader(inner)
            page.line(f"set_{name}(value, {_expression(name, kind)})")
        page.line("return value")
    return page.function("read", f"from_proto {dataclass_type.__name__}")


def _expression(name: str, kind: _Kind) -> str:
    """Of the value of a field of `message`, on the page of a reader."""
    match kind:
        case _Kind.SCALAR:
            return f"message.{name}"
        case _Kind.SCALARS:
            return f"message.{name}[:]"
        case _Kind.MAP:
            return f"dict(message.{name})"
        case _Kind.MESSAGES:
            return f"[read_{name}(each) for each in message.{name}]"
        case _Kind.MESSAGE:
            return f"read_{name}(message.{name}) if message.HasField({name!r}) else None"
