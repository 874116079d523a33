"""The packed bytes of the data channel are protobuf's bytes, and a scanner takes what protobuf takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from barnabas.channel.generated.packing import MalformedMessage
from tests.property.channel_messages import (
    CODEC_NAMES,
    CODECS,
    Codec,
    messages_with_one_odd_varint,
    serialize,
    to_proto,
    values,
    with_later_fields,
)
from tests.tiers import Cost, examples

every_message = pytest.mark.parametrize("codec", CODECS, ids=CODEC_NAMES)

# What a scanner refuses although protobuf takes it: no serializer writes it, or the contract knows no such value.
STRICTER_THAN_PROTOBUF = ("wire type 3", "wire type 4", "longer than it needs", "outcome")


def parse(proto_class: type[Message], data: bytes) -> Message | None:
    proto = proto_class()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        return None
    proto.DiscardUnknownFields()
    return proto


def assert_scans_as_protobuf(codec: Codec, data: bytes) -> None:
    """Either both refuse, or both read the same; a refusal is MalformedMessage and nothing else."""
    expected = parse(codec.proto_class, data)
    scanned, refusal = None, ""
    try:
        scanned = codec.scan(data)
    except MalformedMessage as error:
        refusal = str(error)
    if scanned is None:
        assert expected is None or any(reason in refusal for reason in STRICTER_THAN_PROTOBUF), refusal
    else:
        assert expected is not None
        assert serialize(to_proto(scanned, codec.proto_class)) == serialize(expected)


@every_message
@examples(Cost.HIGH)
@given(data=st.data())
def test_packed_bytes_equal_protobufs_and_scan_back(codec: Codec, data: st.DataObject) -> None:
    value = data.draw(values(codec.dataclass_type, codec.proto_class.DESCRIPTOR))
    packed = codec.pack(value)
    assert packed == serialize(to_proto(value, codec.proto_class))
    # memoryview == bytes compares contents, so slices equal what they were made of.
    assert codec.scan(packed) == value


@every_message
@examples(Cost.VERY_HIGH)
@given(data=st.data())
def test_a_truncated_message_is_refused_or_read_as_protobuf_reads_it(codec: Codec, data: st.DataObject) -> None:
    packed = codec.pack(data.draw(values(codec.dataclass_type, codec.proto_class.DESCRIPTOR)))
    for length in range(0, len(packed), max(1, len(packed) // 40)):
        assert_scans_as_protobuf(codec, packed[:length])


@every_message
@examples(Cost.HIGH)
@given(data=st.data())
def test_a_damaged_message_is_refused_or_read_as_protobuf_reads_it(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(codec.pack(data.draw(values(codec.dataclass_type, codec.proto_class.DESCRIPTOR))))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(packed)))
        damage = data.draw(st.binary(max_size=3))
        packed[place : place + data.draw(st.integers(0, 2))] = damage
    assert_scans_as_protobuf(codec, bytes(packed))


@every_message
@given(data=st.binary(max_size=64))
def test_random_bytes_are_refused_or_read_as_protobuf_reads_them(codec: Codec, data: bytes) -> None:
    assert_scans_as_protobuf(codec, data)


@every_message
@pytest.mark.parametrize("length", [b"\x80\x80\x80\x80\x00", b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x0f"])
@pytest.mark.parametrize("tag", [b"\x0a", b"\xfa\x01"], ids=["known", "unknown"])
def test_odd_lengths_are_refused_or_read_as_protobuf_reads_them(codec: Codec, tag: bytes, length: bytes) -> None:
    assert_scans_as_protobuf(codec, tag + length)


@every_message
def test_odd_varints_are_refused_or_read_as_protobuf_reads_them(codec: Codec) -> None:
    for data in messages_with_one_odd_varint(codec.proto_class.DESCRIPTOR):
        assert_scans_as_protobuf(codec, data)


# Of every wire type; those of fixed length and long tags also with bytes that would be a varint without an end.
UNKNOWN_FIELDS = b"".join(
    (
        b"\xf8\x01\x96\x01",
        b"\xf9\x0112345678",
        b"\xfa\x01\x03abc",
        b"\xfd\x011234",
        b"\x0d\x80\x80\x80\x80",
        b"\x09" + b"\xff" * 8,
        b"\xfd\xff\xff\x7f\xff\xff\xff\xff",
        b"\xf9\xff\xff\x7f" + b"\xff" * 8,
    )
)


@every_message
@examples(Cost.VERY_HIGH)
@given(data=st.data())
def test_unknown_fields_are_skipped(codec: Codec, data: st.DataObject) -> None:
    value = data.draw(values(codec.dataclass_type, codec.proto_class.DESCRIPTOR))
    packed = codec.pack(value)
    assert codec.scan(UNKNOWN_FIELDS + packed + UNKNOWN_FIELDS) == value


@every_message
@examples(Cost.VERY_HIGH)
@given(data=st.data())
def test_fields_of_a_later_version_are_skipped_however_deep(codec: Codec, data: st.DataObject) -> None:
    """What a newer peer adds to an append, or to a position in a fetch, is in a message within messages."""
    value = data.draw(values(codec.dataclass_type, codec.proto_class.DESCRIPTOR))
    assert codec.scan(with_later_fields(to_proto(value, codec.proto_class))) == value


def test_every_dataclass_of_a_message_has_its_fields_in_order() -> None:
    def check(dataclass_type: Any, proto_class: Any) -> None:
        names = [field.name for field in dataclasses.fields(dataclass_type)]
        assert names == [field.name for field in proto_class.DESCRIPTOR.fields]

    for codec in CODECS:
        check(codec.dataclass_type, codec.proto_class)
