"""Hypothesis strategies for messages, made from the schema of the classes themselves."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import MESSAGES
from barnabas.wire.primitives import ZERO_UUID
from barnabas.wire.schema import Field, Kind, fields_of

ALL_VERSIONS = [
    (message, key, version)
    for key, pair in MESSAGES.items()
    for version in range(key.schema_versions.first, key.schema_versions.last + 1)
    for message in pair
]
"""(message class, key, version) of everything that has a codec."""

ALL_VERSIONS_IDS = [f"{message.__name__}-v{version}" for message, _, version in ALL_VERSIONS]


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": integers(8),
    "int16": integers(16),
    "int32": integers(32),
    "int64": integers(64),
    "uint16": st.integers(0, 0xFFFF),
    "float64": st.floats(allow_nan=False),
    "uuid": st.one_of(st.just(ZERO_UUID), st.binary(min_size=16, max_size=16)),
    # Long enough at times for lengths of two bytes as varints.
    "string": st.one_of(TEXT, st.just("x" * 127), st.just("é" * 100)),
    "bytes": st.one_of(st.binary(max_size=20), st.just(bytes(200))),
    "records": st.one_of(st.binary(max_size=20), st.just(bytes(16384))),
}


def value_of(kind: Kind, name: str, version: int) -> st.SearchStrategy[Any]:
    if not isinstance(kind, str):
        return message_of(kind, version)
    if name.endswith("error_code"):
        # kio has an enum for these and refuses other numbers.
        return st.sampled_from([int(code) for code in ErrorCode])
    if name == "log_append_time_ms":
        # kio makes a datetime of it, or None of -1.
        return st.integers(-1, 2**41)
    if kind == "int64" and name.endswith("_ms"):
        # kio makes a datetime or timedelta of it, which have bounds.
        return st.integers(0, 2**41)
    return VALUES[kind]


def field_of(field: Field, version: int) -> st.SearchStrategy[Any]:
    value = value_of(field.kind, field.name, version)
    if field.is_array:
        value = st.lists(value, max_size=3)
    elif not isinstance(field.kind, str) and field.tag is not None:
        # Kafka writes no tag for a struct of defaults, so that one comes back as None.
        nothing = field.kind()
        value = value.filter(lambda struct: struct != nothing)
    optional = field.is_nullable or (field.tag is not None and not isinstance(field.kind, str) and not field.is_array)
    return st.none() | value if optional else value


def message_of(message: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Messages with any value in each field that the version has, and the default in all others."""
    return st.builds(message, **{field.name: field_of(field, version) for field in fields_of(message, version)})


@st.composite
def messages(draw: st.DrawFn) -> tuple[Any, ApiKey, int]:
    """Any message in any version."""
    message, key, version = draw(st.sampled_from(ALL_VERSIONS))
    return draw(message_of(message, version)), key, version
