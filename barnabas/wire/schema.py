"""How a message class declares its layout on the wire.

A message is a dataclass with slots whose fields are declared by `wire(...)`, named and ordered as in Kafka's message
JSON, with the versions that have them:

    @dataclass(slots=True)
    class TopicProduceData:
        name: str = wire("string", "0-12")
        topic_id: bytes = wire("uuid", "13+")
        partition_data: list[PartitionProduceData] = wire([PartitionProduceData])

`barnabas.wire.decoding` and `barnabas.wire.encoding` turn one class in one version into straight-line code. A field
that a version lacks has its default when decoded, and is left out when encoded.

A nested struct is a field of its own class: `wire(Assignment)` is always present, `wire(Cursor, nullable="0+")` is
preceded by a byte that says whether it is, and starts as None.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.wire.primitives import ZERO_UUID

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Types of a fixed size, as `struct` formats (all big-endian)."""

FIXED_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}

FIXED_TYPES: Final = {"?": "bool", "d": "float", "16s": "bytes"}
"""What `struct` makes of these formats if it is no int."""

LENGTH_FORMATS: Final = {"string": "h", "bytes": "i", "records": "i"}
"""Types preceded by a length, and that length's format in versions that are not flexible."""

Kind: TypeAlias = str | type[Any]
"""The name of a primitive type, or the dataclass of a nested struct."""

DEFAULTS: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}
"""Of fields without a default of their own; 0 for the other types."""


class Request:
    """The body of a request; the base of the classes of `barnabas.wire.messages`."""

    __slots__ = ()


class Response:
    """The body of a response."""

    __slots__ = ()


class Versions(NamedTuple):
    """A range of versions as Kafka writes it: `3+`, `0-12`, `5` or `none`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), 0x7FFF)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Shape(NamedTuple):
    """The declaration of one field by `wire`."""

    kind: Kind
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None


class Field(NamedTuple):
    """One field as one version has it, for the compilers."""

    name: str
    kind: Kind
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any
    """For an array an empty list, for a nested struct its class: both are created for each message."""


def wire(
    kind: Kind | list[Kind],
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    default: Any = dataclasses.MISSING,
) -> Any:
    """Declare a dataclass field with its layout on the wire; use it like `dataclasses.field`.

    `kind` is a primitive type's name, a nested dataclass, or a list of just one of those for an array. `tag` makes it a
    tagged field in all of its versions. Defaults are Kafka's: zero, the empty string or array, the zero UUID, null
    records. A nested struct starts as a struct of defaults, and as None if it is nullable or tagged: `None` in a tagged
    field means that it is absent, which in Kafka means the same as a struct of defaults.
    """
    is_array = isinstance(kind, list)
    element: Kind = kind[0] if isinstance(kind, list) else kind
    assert tag is None or isinstance(element, str) or nullable == "none", "None says that a tagged struct is absent"
    shape = Shape(element, is_array, Versions.parse(versions), Versions.parse(nullable), tag)
    metadata = {"wire": shape}
    if default is not dataclasses.MISSING:
        return dataclasses.field(default=default, metadata=metadata)
    if is_array:
        return dataclasses.field(default_factory=list, metadata=metadata)
    if isinstance(element, str):
        return dataclasses.field(default=DEFAULTS.get(element, 0), metadata=metadata)
    if tag is None and nullable == "none":
        return dataclasses.field(default_factory=element, metadata=metadata)
    return dataclasses.field(default=None, metadata=metadata)


def shape_of(field: dataclasses.Field[Any]) -> Shape:
    shape = field.metadata["wire"]
    assert isinstance(shape, Shape)
    return shape


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return [] if field.default_factory is list else field.default_factory


def fields_of(message: type[Any], version: int) -> tuple[Field, ...]:
    """Return the fields of `message` that `version` has, tagged ones last, in the order of their tags."""
    present = []
    for field in dataclasses.fields(message):
        shape = shape_of(field)
        if version in shape.versions:
            is_nullable = version in shape.nullable
            present.append(Field(field.name, shape.kind, shape.is_array, is_nullable, shape.tag, _default_of(field)))
    return tuple(sorted(present, key=lambda field: -1 if field.tag is None else field.tag))


def absent_from(message: type[Any], version: int) -> tuple[tuple[str, Any], ...]:
    """Return name and default, as in `Field`, of each field that `version` lacks."""
    return tuple(
        (field.name, _default_of(field))
        for field in dataclasses.fields(message)
        if version not in shape_of(field).versions
    )


def size_min(kind: Kind, version: int, is_flexible: bool) -> int:
    """Return the minimum of bytes that one value of this kind takes; 0 for a struct that has no field in `version`."""
    if isinstance(kind, str):
        if kind in FIXED_SIZES:
            return FIXED_SIZES[kind]
        return 1 if is_flexible else (2 if kind == "string" else 4)
    size = 1 if is_flexible else 0
    for field in fields_of(kind, version):
        if field.tag is not None:
            continue
        if field.is_array:
            size += 1 if is_flexible else 4
        elif field.is_nullable and not isinstance(field.kind, str):
            size += 1
        else:
            size += size_min(field.kind, version, is_flexible)
    return size
