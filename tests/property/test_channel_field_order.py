"""A scanner accepts the fields of a message in any order, and a field twice, as protobuf does.

Packers write fields in ascending order, and scanners are compiled for it: what is not in order takes another path
through their code.
"""

from __future__ import annotations

from random import Random

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from tests.property.channel_messages import CODEC_NAMES, CODECS, Codec, serialize, to_proto, values
from tests.property.test_channel_packing import UNKNOWN_FIELDS, assert_scans_as_protobuf
from tests.tiers import Cost, examples

every_message = pytest.mark.parametrize("codec", CODECS, ids=CODEC_NAMES)


def length(data: bytes) -> bytes:
    """The varint of a length below 2**28, and the bytes."""
    number = len(data)
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number]) + data


def shuffled(proto: Message, random: Random) -> bytes:
    """The bytes of a message with its fields in a random order, at every depth, some fields twice, some unknown."""
    parts = []
    for field, value in proto.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            tag = bytes([field.number << 3 | 2])
            parts += [tag + length(shuffled(each, random)) for each in (value if field.is_repeated else [value])]
            continue
        alone = type(proto)()
        alone.MergeFrom(proto)
        for other, _ in proto.ListFields():
            if other.number != field.number:
                alone.ClearField(other.name)
        parts.append(serialize(alone))
    if parts:
        parts += [random.choice(parts) for _ in range(random.randrange(3))]
    parts += [UNKNOWN_FIELDS] * random.randrange(2)
    random.shuffle(parts)
    return b"".join(parts)


@every_message
@examples(Cost.HIGH)
@given(data=st.data(), random=st.randoms(use_true_random=False))
def test_fields_in_any_order_are_read_as_protobuf_reads_them(codec: Codec, data: st.DataObject, random: Random) -> None:
    value = data.draw(values(codec.dataclass_type, codec.proto_class.DESCRIPTOR))
    assert_scans_as_protobuf(codec, shuffled(to_proto(value, codec.proto_class), random))


@every_message
@examples(Cost.HIGH)
@given(data=st.data())
def test_messages_in_a_row_are_merged_as_protobuf_merges_them(codec: Codec, data: st.DataObject) -> None:
    any_value = values(codec.dataclass_type, codec.proto_class.DESCRIPTOR)
    assert_scans_as_protobuf(codec, codec.pack(data.draw(any_value)) + codec.pack(data.draw(any_value)))
