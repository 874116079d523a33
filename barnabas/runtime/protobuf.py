"""Convert the cores' dataclasses to protobuf messages and back, by field name.

For the control plane, with about a message per second; the data channel has its own packers and scanners. A dataclass
mirrors its message field by field (a test checks it): scalars, `X | None` for what may be absent, `list[…]`,
`dict[str, str]`, and `tuple[int, ...]`. A frozen `msgspec.Struct` serves as a dataclass does, and is created faster.

A message of ten thousand partitions takes about 30 ms either way. In steps (`barnabas.runtime.large_messages`) it is
converted in many turns of an event loop.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Sequence
from enum import Enum
from types import ModuleType
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import Message

from barnabas.wire.primitives import Steps
from barnabas.wire.source import Source

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class _Kind(Enum):
    SCALAR = "scalar"
    OPTIONAL = "scalar that may be absent"
    SCALARS = "list of scalars"
    SCALAR_TUPLE = "tuple of scalars"
    MAP = "map"
    MESSAGE = "message"
    MESSAGES = "list of messages"


_Reader = Callable[[Message], Any]

_readers_by_type: dict[tuple[type, bool], _Reader] = {}
"""By dataclass, and whether it reads in steps."""
_fields_by_type: dict[type, list[tuple[str, _Kind, Any]]] = {}


def _fields(dataclass_type: type) -> list[tuple[str, _Kind, Any]]:
    """Return (name, kind, the dataclass of a message or None) of every field, in order."""
    fields = _fields_by_type.get(dataclass_type)
    if fields is None:
        hints = typing.get_type_hints(dataclass_type)
        fields = [(name, *_kind(hints[name])) for name in _names(dataclass_type)]
        _fields_by_type[dataclass_type] = fields
    return fields


def _names(dataclass_type: Any) -> Sequence[str]:
    if issubclass(dataclass_type, msgspec.Struct):
        names: Sequence[str] = dataclass_type.__struct_fields__
        return names
    return [field.name for field in dataclasses.fields(dataclass_type)]


def _is_message(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, msgspec.Struct))


def _kind(hint: Any) -> tuple[_Kind, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (each for each in arguments if each is not types.NoneType)
        return (_Kind.MESSAGE, inner) if _is_message(inner) else (_Kind.OPTIONAL, None)
    if origin is list:
        (inner,) = arguments
        return (_Kind.MESSAGES, inner) if _is_message(inner) else (_Kind.SCALARS, None)
    if origin is tuple:
        return _Kind.SCALAR_TUPLE, None
    if origin is dict:
        return _Kind.MAP, None
    assert not _is_message(hint), f"{hint}: a message can always be absent"
    return _Kind.SCALAR, None


def message_class(dataclass_type: type, module: ModuleType) -> type[Message]:
    """Return the message that a dataclass mirrors: the one of its name in this generated module."""
    found: type[Message] = getattr(module, dataclass_type.__name__)
    return found


def to_proto(value: Any, proto_class: type[M]) -> M:
    """Return the message of a dataclass. Raises protobuf's TypeError or ValueError for a value that its field can't
    hold.
    """
    message = proto_class()
    _fill(value, message)
    return message


def _fill(value: Any, message: Message) -> None:
    for name, kind, _ in _fields(type(value)):
        item = getattr(value, name)
        if not item and item is not None and kind is not _Kind.OPTIONAL:
            continue  # an absent field has that very value: most lists of most partitions are empty
        _fill_field(message, name, kind, item)


def _fill_field(message: Message, name: str, kind: _Kind, item: Any) -> None:
    match kind:
        case _Kind.SCALAR:
            setattr(message, name, item)
        case _Kind.OPTIONAL:
            if item is not None:
                setattr(message, name, item)
        case _Kind.SCALARS | _Kind.SCALAR_TUPLE:
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


def to_proto_in_steps(value: Any, proto_class: type[M]) -> Steps[M]:
    """Like `to_proto`, with a step for each message in a list."""
    message = proto_class()
    yield from _fill_in_steps(value, message)
    return message


def _fill_in_steps(value: Any, message: Message) -> Steps[None]:
    for name, kind, inner in _fields(type(value)):
        item = getattr(value, name)
        if not item and item is not None and kind is not _Kind.OPTIONAL:
            continue
        if kind is _Kind.MESSAGES:
            repeated, is_short = getattr(message, name), not _has_lists(inner)
            for each in item:
                if is_short:
                    _fill(each, repeated.add())
                else:
                    yield from _fill_in_steps(each, repeated.add())
                yield 1
        elif kind is _Kind.MESSAGE:
            if item is not None:
                submessage = getattr(message, name)
                submessage.SetInParent()
                yield from _fill_in_steps(item, submessage)
        else:
            _fill_field(message, name, kind, item)


def from_proto(dataclass_type: type[T], message: Message) -> T:
    """Return the dataclass of a message; an absent field has protobuf's default, not the dataclass's."""
    value: T = _reader(dataclass_type)(message)
    return value


def from_proto_in_steps(dataclass_type: type[T], message: Message) -> Steps[T]:
    """Like `from_proto`, with a step for each message in a list."""
    steps: Steps[T] = _reader(dataclass_type, in_steps=True)(message)
    return steps


def _has_lists(dataclass_type: type) -> bool:
    """Whether messages of this dataclass contain lists of messages, at any depth."""
    return any(
        kind is _Kind.MESSAGES or (kind is _Kind.MESSAGE and _has_lists(inner))
        for _, kind, inner in _fields(dataclass_type)
    )


def _reader(dataclass_type: type, *, in_steps: bool = False) -> _Reader:
    reader = _readers_by_type.get((dataclass_type, in_steps))
    if reader is None:
        reader = _readers_by_type[dataclass_type, in_steps] = _compile_reader(dataclass_type, in_steps=in_steps)
    return reader


def _compile_reader(dataclass_type: type, *, in_steps: bool) -> _Reader:
    """Return a function that is compiled for the fields of this dataclass; a generator function if it works in steps.

    It sets the slots itself: the `__init__` of a frozen dataclass takes longer than everything else.
    """
    if issubclass(dataclass_type, msgspec.Struct):
        return _compile_struct_reader(dataclass_type, in_steps=in_steps)
    assert "__slots__" in vars(dataclass_type), f"{dataclass_type}: a dataclass with slots"
    assert not hasattr(dataclass_type, "__post_init__"), f"{dataclass_type}: nothing but fields"
    page = Source({"dataclass_type": dataclass_type, "new": object.__new__})
    with page.block("def read(message):"):
        page.line("value = new(dataclass_type)")
        for name, kind, inner in _fields(dataclass_type):
            page.names[f"set_{name}"] = getattr(dataclass_type, name).__set__
            pauses = in_steps and inner is not None and (kind is _Kind.MESSAGES or _has_lists(inner))
            if inner is not None:
                page.names[f"read_{name}"] = _reader(inner, in_steps=pauses and _has_lists(inner))
            if not pauses:
                page.line(f"set_{name}(value, {_expression(name, kind)})")
                continue
            read = f"(yield from read_{name}(each))" if _has_lists(inner) else f"read_{name}(each)"
            if kind is _Kind.MESSAGES:
                page.line("items = []")
                with page.block(f"for each in message.{name}:"):
                    page.line(f"items.append({read})")
                    page.line("yield 1")
                page.line(f"set_{name}(value, items)")
            else:
                page.line(f"each = message.{name} if message.HasField({name!r}) else None")
                page.line(f"set_{name}(value, None if each is None else {read})")
        if in_steps:
            page.line("yield 0")  # a generator even if no field is a list
        page.line("return value")
    return page.function("read", f"from_proto {dataclass_type.__name__}")


def _compile_struct_reader(struct_type: type[msgspec.Struct], *, in_steps: bool) -> _Reader:
    """Return a function that creates a struct with scalars and lists of scalars alone."""
    fields = _fields(struct_type)
    assert all(inner is None for _, _, inner in fields), f"{struct_type}: messages are in dataclasses"
    page = Source({"struct_type": struct_type})
    with page.block("def read(message):"):
        if in_steps:
            page.line("yield 0")
        page.line(f"return struct_type({', '.join([_expression(name, kind) for name, kind, _ in fields])})")
    return page.function("read", f"from_proto {struct_type.__name__}")


def _expression(name: str, kind: _Kind) -> str:
    """Return the expression of the value of a field of `message`, in the source of a reader."""
    match kind:
        case _Kind.SCALAR:
            return f"message.{name}"
        case _Kind.OPTIONAL:
            return f"message.{name} if message.HasField({name!r}) else None"
        case _Kind.SCALARS:
            return f"message.{name}[:]"
        case _Kind.SCALAR_TUPLE:
            return f"tuple(message.{name}[:])"
        case _Kind.MAP:
            return f"dict(message.{name})"
        case _Kind.MESSAGES:
            return f"[read_{name}(each) for each in message.{name}]"
        case _Kind.MESSAGE:
            return f"read_{name}(message.{name}) if message.HasField({name!r}) else None"
