"""The cluster's dataclasses mirror their protobuf messages, and convert both ways."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from typing import Any, TypeVar

import msgspec
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from barnabas.cluster import administration, delegation_tokens, features, messages, scram
from barnabas.cluster.messages import (
    Broker,
    ControlRequest,
    LeaderAndIsr,
    PartitionMetadata,
    Purgatory,
    StopReplica,
    StopReplicaPartition,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.cluster.quotas import entities, shares
from barnabas.runtime.protobuf import from_proto, from_proto_in_steps, to_proto, to_proto_in_steps
from barnabas.wire.primitives import Steps
from barnabas_protos.controller.v1 import cluster_pb2, membership_pb2
from barnabas_protos.logstore.v1 import administration_pb2, control_pb2

T = TypeVar("T")


def _is_message(each: Any) -> bool:
    return dataclasses.is_dataclass(each) or (isinstance(each, type) and issubclass(each, msgspec.Struct))


DATACLASSES = {
    name: each
    for module in (administration, delegation_tokens, features, messages, entities, shares, scram)
    for name, each in inspect.getmembers(module, inspect.isclass)
    if _is_message(each) and each is not scram.ScramCredential
}
PYTHON_TYPES: dict[int, type] = {
    FieldDescriptor.CPPTYPE_INT32: int,
    FieldDescriptor.CPPTYPE_INT64: int,
    FieldDescriptor.CPPTYPE_UINT32: int,
    FieldDescriptor.CPPTYPE_UINT64: int,
    FieldDescriptor.CPPTYPE_BOOL: bool,
    FieldDescriptor.CPPTYPE_DOUBLE: float,
}


def proto_class(name: str) -> type[Message]:
    (found,) = (
        getattr(module, name)
        for module in (administration_pb2, cluster_pb2, control_pb2, membership_pb2)
        if name in module.DESCRIPTOR.message_types_by_name
    )
    return typing.cast("type[Message]", found)


def expected_hint(field: FieldDescriptor) -> Any:
    """The annotation that a dataclass must have for a field."""
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        if field.message_type.GetOptions().map_entry:
            return dict[str, str]
        inner: Any = DATACLASSES[field.message_type.name]
        return list[inner] if field.is_repeated else inner | None
    if field.type == FieldDescriptor.TYPE_STRING:
        inner = str
    elif field.type == FieldDescriptor.TYPE_BYTES:
        inner = bytes
    else:
        inner = PYTHON_TYPES[field.cpp_type]
    if field.containing_oneof is not None:
        return inner | None
    return list[inner] if field.is_repeated else inner


@pytest.mark.parametrize("name", DATACLASSES)
def test_a_dataclass_mirrors_its_message_field_by_field(name: str) -> None:
    hints = typing.get_type_hints(DATACLASSES[name])
    expected = {field.name: expected_hint(field) for field in proto_class(name).DESCRIPTOR.fields}
    if issubclass(DATACLASSES[name], msgspec.Struct):
        expected = {each: tuple[int, ...] if hint == list[int] else hint for each, hint in expected.items()}
    assert hints == expected


def sample(dataclass_type: type, number: int = 1) -> Any:
    """A value of a dataclass without a single default in it."""

    def of(hint: Any) -> Any:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is list:
            return [of(arguments[0]), of(arguments[0])]
        if origin is tuple:
            return (of(arguments[0]), of(arguments[0]))
        if origin is dict:
            return {"retention.ms": "1", "cleanup.policy": "delete"}
        if origin is types.UnionType:
            return of(arguments[0])
        if _is_message(hint):
            return sample(typing.cast("type", hint), number + 1)
        return {int: number, float: number / 2, bool: True, str: f"s{number}", bytes: b"b%d" % number}[hint]

    return dataclass_type(**{name: of(hint) for name, hint in typing.get_type_hints(dataclass_type).items()})


@pytest.mark.parametrize("name", [name for name in DATACLASSES if name != "ControlRequest"])
def test_a_value_converts_there_and_back(name: str) -> None:
    value = sample(DATACLASSES[name])
    proto = to_proto(value, proto_class(name))
    again = proto_class(name).FromString(proto.SerializeToString())
    assert from_proto(DATACLASSES[name], again) == value


def finished(steps: Steps[T]) -> tuple[T, int]:
    """What they come to, and how many elements they were charged."""
    elements = 0
    while True:
        try:
            elements += next(steps)
        except StopIteration as end:
            return end.value, elements


@pytest.mark.parametrize("name", [name for name in DATACLASSES if name != "ControlRequest"])
def test_a_value_converts_in_steps_as_it_does_at_once(name: str) -> None:
    value, proto_type = sample(DATACLASSES[name]), proto_class(name)
    proto, _ = finished(to_proto_in_steps(value, proto_type))
    assert proto == to_proto(value, proto_type)
    again, _ = finished(from_proto_in_steps(DATACLASSES[name], proto))
    assert again == value


def test_an_absent_message_is_absent_in_steps_too() -> None:
    command = ControlRequest(1, 2, 3, stop_replica=StopReplica([]))
    proto, _ = finished(to_proto_in_steps(command, control_pb2.ControlRequest))
    assert finished(from_proto_in_steps(ControlRequest, proto)) == (command, 0)


def test_each_message_of_a_list_is_a_step() -> None:
    partitions = [PartitionMetadata(number, -1, 7, 9, (1, 2), ()) for number in range(100)]
    topics = [TopicMetadata(f"orders-{each}", b"i" * 16, {}, partitions) for each in range(3)]
    command = ControlRequest(1, 2, 3, leader_and_isr=LeaderAndIsr(False, topics))
    proto, packed = finished(to_proto_in_steps(command, control_pb2.ControlRequest))
    _, read = finished(from_proto_in_steps(ControlRequest, proto))
    assert packed == read == 3 * (100 + 1)


def test_one_command_of_a_control_request_is_set_and_the_others_absent() -> None:
    partition = PartitionMetadata(0, -1, 7, 9, (1, 2), ())
    topic = TopicMetadata("orders", b"i" * 16, {}, [partition])
    commands = [
        ControlRequest(1, 2, 3, leader_and_isr=LeaderAndIsr(True, [topic])),
        ControlRequest(1, 2, 3, stop_replica=StopReplica([StopReplicaPartition("orders", b"i" * 16, 0, -2, True)])),
        ControlRequest(
            1,
            2,
            3,
            update_metadata=UpdateMetadata(5, False, "c", 2, [Broker(1, "h:1", 9)], [Purgatory("p", "h:2")], []),
        ),
        # A message that is empty and present is not a message that is absent.
        ControlRequest(1, 2, 3, stop_replica=StopReplica([])),
    ]
    for command in commands:
        proto = control_pb2.ControlRequest.FromString(to_proto(command, control_pb2.ControlRequest).SerializeToString())
        assert from_proto(ControlRequest, proto) == command


def test_what_a_message_leaves_out_has_protobufs_default() -> None:
    assert from_proto(messages.CreateTopicResult, membership_pb2.CreateTopicResult()).partitions == 0


def test_a_value_that_its_field_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError):
        to_proto(Broker(1 << 40, "h:1", 9), cluster_pb2.Broker)
