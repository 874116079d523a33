"""How values of answers are written: messages of protobuf as JSON types, ids, times and numbers as text."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from google.protobuf.message import Message


def plain(message: Message) -> dict[str, Any]:
    """Return the message as JSON types: all fields by their names in the .proto, numbers as numbers, ids as Kafka
    prints them.
    """
    return {
        field.name: _field(message, field)
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _field(message: Message, field: Any) -> Any:
    """`field` is a FieldDescriptor; which of its two classes depends on protobuf's implementation."""
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {key: value[key] for key in sorted(value)}
    if field.is_repeated:
        return [_value(each, field) for each in value]
    return _value(value, field)


def _value(value: Any, field: Any) -> Any:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, bytes):
        return kafka_id(value)
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return value if found is None else found.name
    return value


def kafka_id(topic_id: bytes) -> str:
    """Format an id as `kafka-topics --describe` prints it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def listed(node_ids: Iterable[int]) -> str:
    return ",".join(map(str, node_ids)) or "-"


def moment(wall_ms: int) -> str:
    return f"{datetime.fromtimestamp(wall_ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%S}" if wall_ms else "-"


def number(value: int) -> str:
    """Format a number; -1 means unknown."""
    return "?" if value < 0 else str(value)
