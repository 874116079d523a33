"""A key in etcd of bytes that are not UTF-8 ended each process that followed its prefix, at each of its starts.

So did a value with half a surrogate pair, which JSON can spell: no log line and no message can have it.

With users in etcd a service may write its registration, or that of any member of its role: its stolen key could so end
all controllers for good.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import (
    BrokerConfigsRecord,
    GatewayRegistration,
    Keys,
    Role,
    TopicRecord,
    encode_record,
    encode_registration,
)
from barnabas.ports.etcd import KeyValue, Snapshot, WatchBatch, WatchEvent
from barnabas.runtime.etcd import values
from barnabas_controller.core.state.image import ControllerImage
from barnabas_protos.etcd.v1 import rpc_pb2 as pb

KEYS = Keys()
POD = KEYS.registration(Role.GATEWAY, "pod")
KEY = POD.encode() + b"\xff"


def event(kind: pb.Event.EventType, revision: int) -> WatchBatch:
    key_value = pb.KeyValue(key=KEY, value=b"{}", create_revision=1, mod_revision=revision, lease=7)
    return WatchBatch(revision, (values.watch_event(pb.Event(type=kind, kv=key_value)),))


@pytest.mark.parametrize("is_there_at_the_start", [True, False])
def test_a_controller_finds_it_unreadable_until_it_is_deleted(is_there_at_the_start: bool) -> None:
    image = ControllerImage(KEYS)
    if is_there_at_the_start:
        image.load(Snapshot(1, values.key_values([pb.KeyValue(key=KEY, value=b"{}", create_revision=1)])))
    else:
        image.apply(event(pb.Event.PUT, 1))
    assert list(image.unreadable) == [f"{POD}\\xff"]
    assert image.gateways == {}
    image.apply(event(pb.Event.DELETE, 2))
    assert image.unreadable == {}


@pytest.mark.parametrize("half", [b"\\ud800", b"\xed\xa0\x80"])
def test_half_a_surrogate_pair_makes_a_value_unreadable(half: bytes) -> None:
    whole = {
        POD: encode_registration(GatewayRegistration("pod", "incarnation", ops_address="HALF")),
        KEYS.topic("t"): encode_record(TopicRecord("t", bytes(16), 1, 1, {"HALF": "1"})),
        KEYS.broker_configs(1): encode_record(BrokerConfigsRecord(1, {"k": "HALF"})),
        KEYS.topic("HALF"): encode_record(TopicRecord("HALF", bytes(16), 1, 1, {})),
    }
    image = ControllerImage(KEYS)
    for revision, (key, value) in enumerate(whole.items(), start=1):
        changed = KeyValue(key, value.replace(b"HALF", half), revision, revision)
        image.apply(WatchBatch(revision, (WatchEvent(changed),)))
    assert image.unreadable.keys() == whole.keys()
    assert all(reason.encode() for reason in image.unreadable.values()), "a log line can have it"


def test_a_whole_pair_is_read() -> None:
    image = ControllerImage(KEYS)
    record = BrokerConfigsRecord(1, {"k": "\N{PARTY POPPER}"})
    value = encode_record(record)
    assert rb"\ud83c\udf89" in value
    image.apply(WatchBatch(1, (WatchEvent(KeyValue(KEYS.broker_configs(1), value, 1, 1)),)))
    assert image.broker_configs == {1: record}
