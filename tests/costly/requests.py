"""Requests with as many elements as there may be, of every API key that a gateway serves.

Each array of a request's schema takes its turn to be the long one, those around it having one element; and those that
have arrays inside are long, too, with one element in each. Its elements differ from each other, or are all the same; in
an existing topic, or in none. So an API key that is added to `MESSAGES` has its costly requests without a word here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import MESSAGES
from barnabas.wire.primitives import ZERO_UUID
from barnabas.wire.schema import Field, Kind, fields_of
from barnabas_gateway.core.handlers import HANDLERS

GROUP: Final = "costly-group"
_TOPIC_FIELDS: Final = ("name", "topic", "topic_name", "resource_name", "topic_names")
_SCALARS: Final[dict[str, Any]] = {
    "replica_id": -1,
    "acks": 1,
    "timeout_ms": 10_000,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "max_wait_ms": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 10,
    "session_epoch": -1,
    "generation_id_or_member_epoch": -1,
    "retention_time_ms": -1,
    "timestamp": -1,
    "resource_type": 2,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 1 << 12,
    "allow_auto_topic_creation": True,
    "response_partition_limit": 2_000,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "entity_type": "user",
    "validate_only": False,
}
"""What a field must be for the request to be worked on at all, where that is not its default."""


_VERSIONS_WITH_NAMES: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}
"""Of keys whose last versions name topics by id."""


class Costly(NamedTuple):
    """One costly request."""

    api_key: ApiKey
    version: int
    label: str
    """Which array is long, and with what."""
    request: Any


class _Made(NamedTuple):
    """How the long array is filled."""

    path: tuple[str, ...]
    """The names of the arrays from the outermost to the long one."""
    widens: bool
    """The outermost is the long one, and each of its elements has one of the next."""
    elements: int
    differ: bool
    topic: str | None
    """The topic that elements are in; None: topics that do not exist."""
    version: int


def costly_requests(elements: int, topic: str, *only: int, labels: Collection[str] | None = None) -> Iterator[Costly]:
    """Of all API keys that a gateway serves, or of `only` these, each in its last version, and in the last that names
    topics. No others are made than those of the `labels`, where there are some."""
    for number in only or HANDLERS:
        api_key = ApiKey(number)
        for version in sorted({api_key.version_max, _VERSIONS_WITH_NAMES.get(api_key, api_key.version_max)}):
            yield from costly_requests_of(api_key, version, elements, topic, labels)


def costly_requests_of(
    api_key: ApiKey, version: int, elements: int, topic: str, labels: Collection[str] | None = None
) -> Iterator[Costly]:
    """`topic` exists; `elements` are in the long array. A request without arrays is itself, once."""
    message = MESSAGES[api_key][0]
    paths = list(_paths(message, version))
    if not paths:
        yield Costly(api_key, version, "no arrays", _message(message, _Made((), False, 0, False, topic, version), 0))
    for path in paths:
        for widens in (False, True) if len(path) > 1 else (False,):
            for differ in (True, False):
                for where in (topic, None):
                    made = _Made(path, widens, elements // 2 if widens else elements, differ, where, version)
                    kind = f"{'.'.join(path)}{' wide' if widens else ''}, {'different' if differ else 'the same'}"
                    label = f"{kind}, {'known' if where else 'unknown'} topic"
                    if labels is None or label in labels:
                        yield Costly(api_key, version, label, _message(message, made, 0))


def _paths(message: type[Any], version: int) -> Iterator[tuple[str, ...]]:
    """To every array, through structs and other arrays."""
    for field in fields_of(message, version):
        if field.is_array:
            yield (field.name,)
        if not isinstance(field.kind, str):
            for path in _paths(field.kind, version):
                yield (field.name, *path) if field.is_array else path


def _message(message: type[Any], made: _Made, number: int) -> Any:
    values = {field.name: _field(field, made, number) for field in fields_of(message, made.version)}
    return message(**values)


def _field(field: Field, made: _Made, number: int) -> Any:
    if not field.is_array:
        return _value(field.kind, field.name, made, number, field.default)
    if field.name not in made.path:
        return []
    depth = made.path.index(field.name)
    is_long = depth == (0 if made.widens else len(made.path) - 1)
    if not is_long:
        return [_value(field.kind, field.name, made, number, None)]
    numbers = range(made.elements) if made.differ else [0] * made.elements
    return [_value(field.kind, field.name, made, each, None) for each in numbers]


def _value(kind: Kind, name: str, made: _Made, number: int, default: Any) -> Any:
    if not isinstance(kind, str):
        return None if default is None and name not in made.path else _message(kind, made, number)
    if name in _SCALARS and name not in made.path:
        return _SCALARS[name]
    if kind == "string":
        return _text(name, made, number)
    if kind == "uuid":
        return ZERO_UUID if default is not None else number.to_bytes(16, "big")
    if kind == "records":
        return b"" if default is None else default
    if kind == "bytes":
        return b""
    if kind == "bool":
        return bool(default)
    if name in ("partition", "partition_index", "index", "partition_indexes", "partitions", "broker_ids", "replicas"):
        return number
    return default or 0


def _text(name: str, made: _Made, number: int) -> str:
    if name == "group_id":
        return GROUP
    if name in _TOPIC_FIELDS and made.topic is not None and name not in made.path:
        return made.topic
    if name in ("member_id", "transactional_id", "path", "rack_id") and name not in made.path:
        return ""
    return f"{name}-{number}"
