"""The fields that the message classes of the data channel declare are those of their protos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from barnabas.channel import messages
from barnabas.channel.generated.packing import pack_exchange_request
from barnabas.channel.messages import Append, ExchangeRequest
from scripts.channel.packers import packer_text
from scripts.channel.packing import packing_source
from scripts.channel.proto_fields import fields_of, holds_slices
from scripts.channel.scanners import scanner_text
from tests.compiled import interpreted_only
from tests.property.channel_messages import CODECS
from tests.releases import ROOT

pytestmark = interpreted_only("reads annotations of messages, which compiled classes do not have")

_TYPES = {
    number: name.removeprefix("TYPE_").lower() for name, number in vars(FieldDescriptor).items() if name[:5] == "TYPE_"
}


def declared(message: type[Any], descriptor: Descriptor, seen: set[str]) -> None:
    if descriptor.full_name in seen:
        return
    seen.add(descriptor.full_name)
    fields = fields_of(message)
    assert [(field.name, field.type, field.number, field.is_repeated) for field in fields] == [
        (field.name, _TYPES[field.type], field.number, field.is_repeated) for field in descriptor.fields
    ]
    for field, proto in zip(fields, descriptor.fields, strict=True):
        assert field.has_presence == (proto.has_presence and not proto.is_repeated)
        if field.type == "message":
            declared(field.python_type, proto.message_type, seen)


def test_every_message_declares_the_fields_of_its_proto() -> None:
    seen: set[str] = set()
    for codec in CODECS:
        declared(codec.dataclass_type, codec.proto_class.DESCRIPTOR, seen)
    assert len(seen) == 49


def test_records_and_bodies_are_slices_and_ids_are_copies() -> None:
    slices = {
        (name, field.name)
        for name, message in vars(messages).items()
        if hasattr(message, "__dataclass_fields__")
        for field in fields_of(message)
        if field.is_slice
    }
    assert slices == {
        ("Append", "records"),
        ("ReadPartitionResult", "records"),
        ("ReplicaData", "records"),
        ("GroupCall", "body"),
        ("GroupAnswer", "body"),
    }
    assert holds_slices(messages.ReadResponse)
    assert not holds_slices(messages.ReadRequest)


@dataclass(slots=True)
class Descending:
    first: Annotated[int, "uint64", 2]
    second: Annotated[int, "uint64", 1]


@dataclass(slots=True)
class Unknown:
    value: Annotated[int, "fixed32", 1]


@dataclass(slots=True)
class LongTag:
    value: Annotated[int, "uint64", 16]


@pytest.mark.parametrize("message", [Descending, Unknown, LongTag])
def test_a_declaration_that_the_generators_do_not_serve_is_an_error(message: type[Any]) -> None:
    with pytest.raises(AssertionError):
        packer_text("pack", message)
    with pytest.raises(AssertionError):
        scanner_text("scan", message)


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_an_integer_that_no_unsigned_field_holds_is_a_bug_of_the_caller(value: int) -> None:
    with pytest.raises(AssertionError, match="does not fit"):
        pack_exchange_request(ExchangeRequest(appends=[Append(value, bytes(16), 0, 0, 1, b"")]))


def test_the_generated_module_is_that_of_the_declared_fields() -> None:
    """After a change to `messages.py`: scripts/packing."""
    assert (ROOT / "barnabas/channel/generated/packing.py").read_text() == packing_source()
