"""The data channel's messages beside their protobuf classes: strategies by descriptor, conversion both ways."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from barnabas.channel import messages, packing_in_steps
from barnabas.channel.generated import packing
from barnabas.wire.primitives import Steps
from barnabas_protos.logstore.v1 import coordination_pb2, data_pb2, replication_pb2, watch_pb2
from barnabas_protos.purgatory.v1 import purgatory_pb2

T = TypeVar("T")


def in_one_turn(steps: Steps[T]) -> T:
    """Return the result of all steps."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


class Codec(NamedTuple):
    dataclass_type: type
    proto_class: type[Message]
    pack: Callable[[Any], bytes]
    scan: Callable[[bytes], Any]


CODECS = [
    Codec(
        messages.ExchangeRequest,
        data_pb2.ExchangeRequest,
        packing.pack_exchange_request,
        packing.scan_exchange_request,
    ),
    Codec(
        messages.ExchangeResponse,
        data_pb2.ExchangeResponse,
        packing.pack_exchange_response,
        packing.scan_exchange_response,
    ),
    Codec(messages.ReadRequest, data_pb2.ReadRequest, packing.pack_read_request, packing.scan_read_request),
    Codec(messages.ReadResponse, data_pb2.ReadResponse, packing.pack_read_response, packing.scan_read_response),
    Codec(
        messages.ReplicateRequest,
        replication_pb2.ReplicateRequest,
        packing.pack_replicate_request,
        packing.scan_replicate_request,
    ),
    Codec(
        messages.ReplicateResponse,
        replication_pb2.ReplicateResponse,
        packing.pack_replicate_response,
        packing.scan_replicate_response,
    ),
    Codec(
        messages.CoordinateRequest,
        coordination_pb2.CoordinateRequest,
        packing.pack_coordinate_request,
        packing.scan_coordinate_request,
    ),
    Codec(
        messages.CoordinateResponse,
        coordination_pb2.CoordinateResponse,
        packing.pack_coordinate_response,
        packing.scan_coordinate_response,
    ),
    Codec(messages.WatchRequest, watch_pb2.WatchRequest, packing.pack_watch_request, packing.scan_watch_request),
    Codec(messages.WatchResponse, watch_pb2.WatchResponse, packing.pack_watch_response, packing.scan_watch_response),
    Codec(messages.ParkRequest, purgatory_pb2.ParkRequest, packing.pack_park_request, packing.scan_park_request),
    Codec(messages.ParkResponse, purgatory_pb2.ParkResponse, packing.pack_park_response, packing.scan_park_response),
    Codec(
        messages.ReadRequest,
        data_pb2.ReadRequest,
        lambda request: in_one_turn(packing_in_steps.pack_read_request_in_steps(request, 1)),
        lambda data: in_one_turn(packing_in_steps.scan_read_request_in_steps(data, 1)),
    ),
    Codec(
        messages.ParkRequest,
        purgatory_pb2.ParkRequest,
        lambda request: in_one_turn(packing_in_steps.pack_park_request_in_steps(request, 1)),
        lambda data: in_one_turn(packing_in_steps.scan_park_request_in_steps(data, 1)),
    ),
]
CODEC_NAMES = [
    *[codec.dataclass_type.__name__ for codec in CODECS[:-2]],
    "ReadRequest in steps",
    "ParkRequest in steps",
]


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    edges = [0, 1, 127, 128, 16383, 16384, (1 << 21) - 1, 1 << 21, (1 << 28) - 1, 1 << 28, (1 << bits) - 1]
    return st.sampled_from(edges) | st.integers(0, (1 << bits) - 1) | st.integers(0, 300)


def _signed(bits: int) -> st.SearchStrategy[int]:
    edge = 1 << bits - 1
    edges = [0, -1, 1, 63, -64, 64, -65, 8191, 8192, -8193, edge - 1, -edge]
    return st.sampled_from(edges) | st.integers(-edge, edge - 1) | st.integers(-300, 300)


_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_UINT32: _unsigned(32),
    FieldDescriptor.TYPE_UINT64: _unsigned(64),
    FieldDescriptor.TYPE_SINT32: _signed(32),
    FieldDescriptor.TYPE_SINT64: _signed(64),
    FieldDescriptor.TYPE_INT32: _signed(32),
    FieldDescriptor.TYPE_INT64: _signed(64),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: st.text(max_size=8),
    FieldDescriptor.TYPE_ENUM: st.sampled_from(messages.Outcome),
    # Topic ids and records: usual lengths, and those around a longer length prefix.
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=20) | st.sampled_from([b"i" * 16, b"r" * 127, b"r" * 128]),
}


def values(dataclass_type: type, descriptor: Descriptor) -> st.SearchStrategy[Any]:
    """Any value of a message's dataclass."""
    return st.builds(
        dataclass_type,
        **{field.name: _field_values(field) for field in descriptor.fields},
    )


def _field_values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        each = values(getattr(messages, field.message_type.name), field.message_type)
        return st.lists(each, max_size=3) if field.is_repeated else st.none() | each
    if field.is_repeated:
        return st.lists(_SCALARS[field.type], max_size=4)
    return st.none() | _SCALARS[field.type] if field.has_presence else _SCALARS[field.type]


def to_proto(value: Any, proto_class: type[Message]) -> Message:
    proto = proto_class()
    _fill(value, proto)
    return proto


def _fill(value: Any, proto: Message) -> None:
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if isinstance(item, list):
            repeated = getattr(proto, field.name)
            for each in item:
                if dataclasses.is_dataclass(each):
                    _fill(each, repeated.add())
                else:
                    repeated.append(each)
        elif dataclasses.is_dataclass(item):
            submessage = getattr(proto, field.name)
            submessage.SetInParent()
            _fill(item, submessage)
        elif item is not None:
            setattr(proto, field.name, bytes(item) if isinstance(item, memoryview) else item)


# Varints wider than their field, wider than 64 bits, and longer than they need to be.
_ODD_VARINTS = [
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x7f",
    b"\x80" * 9 + b"\x02",
    b"\xff" * 9 + b"\x80\x01",
    b"\x80" * 9 + b"\x00",
    b"\x85\x00",
    b"\x85\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\x1f",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x08",
]


def messages_with_one_odd_varint(descriptor: Descriptor) -> Iterator[bytes]:
    """Each integer field, at any depth, with each odd varint, alone in its message."""
    for field in descriptor.fields:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in messages_with_one_odd_varint(field.message_type):
                yield bytes([field.number << 3 | 2, len(inner)]) + inner
        elif field.type not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            for odd in _ODD_VARINTS:
                yield bytes([field.number << 3]) + odd
                if field.is_repeated:
                    yield bytes([field.number << 3 | 2, len(odd)]) + odd


def serialize(proto: Message) -> bytes:
    return proto.SerializeToString(deterministic=True)


# Numbers that no message has: a varint, eight bytes, a string and four bytes.
_LATER_FIELDS = b"\xa0\x1f\x96\x01" + b"\xa9\x1f12345678" + b"\xb2\x1f\x03abc" + b"\xb5\x1f1234"


def with_later_fields(proto: Message) -> bytes:
    """The message as a later version may send it: with fields that this one does not know, in every message of it."""
    parts = [_LATER_FIELDS]
    for field, value in proto.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            alone = type(proto)()
            alone.MergeFrom(proto)
            for other, _ in proto.ListFields():
                if other.number != field.number:
                    alone.ClearField(other.name)
            parts.append(serialize(alone))
            continue
        for each in value if field.is_repeated else [value]:
            content = with_later_fields(each)
            parts += [_varint(field.number << 3 | 2), _varint(len(content)), content]
    return b"".join([*parts, _LATER_FIELDS])


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
