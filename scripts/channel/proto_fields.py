"""How a message class of the data channel declares its protobuf fields.

A message is a dataclass with slots. The annotation of each field has the type and the number of the field in its
`.proto`, in ascending order of the numbers:

    @dataclass(slots=True)
    class Append:
        request_id: Annotated[int, "uint64", 1]
        records: Annotated[Buffer, "bytes", 6]

`list[…]` is a repeated field, `… | None` a field with presence, which is None where it is absent. `bytes` is copied
out of what was received, `Buffer` is a slice of it. The packers (`scripts.channel.packers`) and the scanners
(`scripts.channel.scanners`) are generated from these declarations.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Final, NamedTuple

UNSIGNED_TYPES: Final = frozenset(("uint32", "uint64"))
ZIGZAG_TYPES: Final = frozenset(("sint32", "sint64"))
SIGNED_TYPES: Final = frozenset(("int32", "int64", "enum"))
"""Their negative values take ten bytes."""

_VARINT_TYPES: Final = UNSIGNED_TYPES | ZIGZAG_TYPES | SIGNED_TYPES | {"bool"}
_SIZED_TYPES: Final = frozenset(("bytes", "string", "message"))
_NUMBER_MAX: Final = 15
"""The last number whose tag takes one byte."""


class Field(NamedTuple):
    """One field of a message, for the compilers."""

    name: str
    type: str
    number: int
    is_repeated: bool
    has_presence: bool
    python_type: Any
    """The class of a message or an enum; `bytes` or the union `Buffer` of a bytes field."""

    @property
    def is_packed(self) -> bool:
        """Whether it is a repeated scalar, which protobuf packs into one field of bytes."""
        return self.is_repeated and self.type in _VARINT_TYPES

    @property
    def is_slice(self) -> bool:
        """Whether its value is a slice of the message that it came in."""
        return self.type == "bytes" and self.python_type is not bytes

    @property
    def tag(self) -> int:
        """The byte before each value; of a packed field, the byte before all of them."""
        return self.number << 3 | (2 if self.is_packed or self.type in _SIZED_TYPES else 0)

    @property
    def element_tag(self) -> int:
        """The byte before one varint of a packed field that a peer has not packed."""
        return self.number << 3


_fields_by_message: dict[type[Any], tuple[Field, ...]] = {}


def fields_of(message: type[Any]) -> tuple[Field, ...]:
    """The fields of a message class, in the order of their numbers."""
    fields = _fields_by_message.get(message)
    if fields is None:
        hints = typing.get_type_hints(message, include_extras=True)
        fields = tuple(_field(field.name, hints[field.name]) for field in dataclasses.fields(message))
        numbers = [field.number for field in fields]
        assert numbers == sorted(set(numbers)), f"{message.__name__}: the numbers of its fields do not ascend"
        _fields_by_message[message] = fields
    return fields


def _field(name: str, hint: Any) -> Field:
    python_type, proto_type, number = typing.get_args(hint)
    assert proto_type in _VARINT_TYPES | _SIZED_TYPES, f"{name}: no type {proto_type}"
    assert 0 < number <= _NUMBER_MAX, f"{name}: {number} has no tag of one byte"
    is_repeated = typing.get_origin(python_type) is list
    arguments = typing.get_args(python_type)
    has_presence = types.NoneType in arguments
    if is_repeated or has_presence:
        (python_type,) = (each for each in arguments if each is not types.NoneType)
    return Field(name, proto_type, number, is_repeated, has_presence, python_type)


def holds_slices(message: type[Any]) -> bool:
    """Whether a message has a field that is a slice, itself or in a message within it."""
    return any(
        field.is_slice or (field.type == "message" and holds_slices(field.python_type)) for field in fields_of(message)
    )
