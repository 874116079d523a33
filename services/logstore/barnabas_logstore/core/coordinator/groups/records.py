"""The records of `__consumer_offsets` for classic groups, in Kafka's formats.

A key begins with a version that also says its kind: 0 and 1 an offset, 2 a classic group; others are of the consumer,
share and streams protocols. A value begins with a version of its own: an offset is written as v4, a group as v3, as
Kafka 4.3 does. All that Kafka has ever written is read, but the topic's id that an offset of v4 may have: groups know
topics by their names. A null value is a tombstone.

Source: OffsetCommitKey/Value.json and GroupMetadataKey/Value.json of Kafka's group coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, TypeAlias, TypeVar, cast

from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from barnabas.wire.primitives import Buffer, MalformedFrame, uvarint
from barnabas.wire.record_batch import Record
from barnabas.wire.schema import wire

_VERSION: Final = Struct(">h")
_KEY_HEAD: Final = Struct(">hh")
_PARTITION: Final = Struct(">i")
_OFFSET_HEAD: Final = Struct(">hqi")
"""Version, offset, leader epoch; the metadata follow."""
_OFFSET_TAIL: Final = Struct(">qb")
"""Timestamp, count of tagged fields."""
_NO_METADATA: Final = uvarint(1)
_OFFSET_KEYS: Final = (0, 1)
_OFFSET_KEY_WRITTEN: Final = 1
_GROUP_KEY: Final = 2
_OFFSET_VALUE_WRITTEN: Final = 4
_OFFSET_VALUES: Final = range(5)
_GROUP_VALUE_WRITTEN: Final = 3
_GROUP_VALUES: Final = range(5)
_FLEXIBLE_FROM: Final = 4


@dataclass(slots=True)
class OffsetCommitKey:
    group: str = wire("string")
    topic: str = wire("string")
    partition: int = wire("int32")


@dataclass(slots=True)
class OffsetCommitValue:
    offset: int = wire("int64")
    leader_epoch: int = wire("int32", "3+", default=-1)
    metadata: str = wire("string")
    commit_timestamp: int = wire("int64")
    """Wall clock in ms."""
    expire_timestamp: int = wire("int64", "1", default=-1)


@dataclass(slots=True)
class GroupMetadataKey:
    group: str = wire("string")


@dataclass(slots=True)
class MemberMetadata:
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    rebalance_timeout: int = wire("int32", "1+", default=-1)
    session_timeout: int = wire("int32")
    subscription: bytes = wire("bytes")
    assignment: bytes = wire("bytes")


@dataclass(slots=True)
class GroupMetadataValue:
    protocol_type: str = wire("string")
    generation: int = wire("int32")
    protocol: str | None = wire("string", nullable="0+")
    leader: str | None = wire("string", nullable="0+")
    current_state_timestamp: int = wire("int64", "2+", default=-1)
    """Wall clock in ms."""
    members: list[MemberMetadata] = wire([MemberMetadata])


Entry: TypeAlias = tuple[OffsetCommitKey, OffsetCommitValue | None] | tuple[GroupMetadataKey, GroupMetadataValue | None]
"""What one record says: a key, and its value or None for a tombstone."""


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    """The key of all of a group's offsets of a topic, but for the partition at its end."""
    group, name = group_id.encode(), topic.encode()
    return b"".join((_KEY_HEAD.pack(_OFFSET_KEY_WRITTEN, len(group)), group, _VERSION.pack(len(name)), name))


def offset_record(key_prefix: bytes, partition: int, value: OffsetCommitValue | None, wall_ms: int) -> Record:
    """An offset, or its tombstone. One with an expiry of its own is written as v1, the only version that keeps it.

    Packed by hand, as nothing else is written as often.
    """
    key = key_prefix + _PARTITION.pack(partition)
    if value is None:
        return Record(key, None, wall_ms)
    if value.expire_timestamp != -1:
        return Record(key, _encode(value, 1), wall_ms)
    head = _OFFSET_HEAD.pack(_OFFSET_VALUE_WRITTEN, value.offset, value.leader_epoch)
    tail = _OFFSET_TAIL.pack(value.commit_timestamp, 0)
    if not value.metadata:
        return Record(key, head + _NO_METADATA + tail, wall_ms)
    metadata = value.metadata.encode()
    return Record(key, b"".join((head, uvarint(len(metadata) + 1), metadata, tail)), wall_ms)


def group_record(key: GroupMetadataKey, value: GroupMetadataValue | None, wall_ms: int) -> Record:
    """A group, or its tombstone."""
    encoded = None if value is None else _encode(value, _GROUP_VALUE_WRITTEN)
    return Record(_encode(key, _GROUP_KEY), encoded, wall_ms)


def read_record(key: Buffer | None, value: Buffer | None) -> Entry | None:
    """What a record says; None: it is of another kind, and no business of classic groups.

    Raises MalformedFrame for what no Kafka has written: a key or value that is not what its version says.
    """
    if key is None:
        raise MalformedFrame("a record of __consumer_offsets has no key")
    kind = _version_of(key)
    if kind in _OFFSET_KEYS:
        return _decode(OffsetCommitKey, key), _decode_value(OffsetCommitValue, value, _OFFSET_VALUES)
    if kind == _GROUP_KEY:
        return _decode(GroupMetadataKey, key), _decode_value(GroupMetadataValue, value, _GROUP_VALUES)
    return None


T = TypeVar("T")


def _decode_value(message: type[T], value: Buffer | None, versions: range) -> T | None:
    if value is None:
        return None
    if _version_of(value) not in versions:
        raise MalformedFrame(f"{message.__name__} of version {_version_of(value)} is not known")
    return _decode(message, value)


def _version_of(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise MalformedFrame(f"a record of __consumer_offsets has {len(data)} bytes where its version should be")
    return int(_VERSION.unpack_from(data)[0])


_encoders: dict[tuple[type[Any], int], Callable[[Any], list[Buffer]]] = {}
_decoders: dict[tuple[type[Any], int], Callable[[memoryview, int], Any]] = {}


def _encode(message: Any, version: int) -> bytes:
    encode = _encoders.get((type(message), version))
    if encode is None:
        encode = compile_encoder(type(message), version, _is_flexible(message, version))
        _encoders[type(message), version] = encode
    return b"".join((_VERSION.pack(version), *encode(message)))


def _decode(message: type[T], data: Buffer) -> T:
    version = _version_of(data)
    decode = _decoders.get((message, version))
    if decode is None:
        is_value = message in (OffsetCommitValue, GroupMetadataValue)
        decode = compile_decoder(message, version, is_value and version >= _FLEXIBLE_FROM)
        _decoders[message, version] = decode
    return cast("T", decode(memoryview(data), _VERSION.size))


def _is_flexible(message: Any, version: int) -> bool:
    return isinstance(message, OffsetCommitValue | GroupMetadataValue) and version >= _FLEXIBLE_FROM
