"""The data channel's messages: the first byte picks one of the eight, the rest is its bytes.

Scanned by `barnabas.channel.generated.packing` and by protobuf: both refuse, or both read the same. A refusal is
MalformedMessage and nothing else.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.fuzz.target import Target
from tests.property.channel_messages import CODECS
from tests.property.test_channel_packing import assert_scans_as_protobuf

_NUMBERS: Final = (0, 1, 2, 127, 128, 300, 2**31 - 1)
_OUTCOMES_MAX: Final = 3


def check(data: bytes) -> None:
    if data:
        assert_scans_as_protobuf(CODECS[data[0] % len(CODECS)], data[1:])


def build(random: Random) -> bytes:
    number = random.randrange(len(CODECS))
    message = CODECS[number].proto_class()
    _fill(random, message)
    return bytes([number]) + message.SerializeToString(deterministic=True)


def _fill(random: Random, message: Message) -> None:
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.3:
            continue
        if field.is_repeated:
            for _ in range(random.randint(0, 2)):
                if field.type == FieldDescriptor.TYPE_MESSAGE:
                    _fill(random, getattr(message, field.name).add())
                else:
                    getattr(message, field.name).append(_scalar(random, field))
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            getattr(message, field.name).SetInParent()
            _fill(random, getattr(message, field.name))
        else:
            setattr(message, field.name, _scalar(random, field))


def _scalar(random: Random, field: Any) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return random.choice(("", "a", "é" * 70))
        case FieldDescriptor.TYPE_BYTES:
            return random.choice((b"", b"i" * 16, b"r" * 130))
        case FieldDescriptor.TYPE_BOOL:
            return random.random() < 0.5
        case FieldDescriptor.TYPE_ENUM:
            return random.randint(0, _OUTCOMES_MAX)
        case _:
            return random.choice(_NUMBERS)


TARGET = Target("channel", check, build)
