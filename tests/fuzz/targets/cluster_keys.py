"""Keys and values in etcd, as the controller's image takes them: the first byte picks the key, the rest is the value.

A value that can't be read is set aside by its key; nothing is raised, and what is read has the types that it says.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from barnabas.cluster.acls import Acl
from barnabas.cluster.delegation_tokens import DelegationToken
from barnabas.cluster.keys import (
    ClusterRecord,
    ControllerEpochRecord,
    ControllerRegistration,
    DeletionRecord,
    GatewayRegistration,
    Keys,
    LogstoreRegistration,
    MemberRecord,
    PartitionChunk,
    PartitionRecord,
    ProducerIdsRecord,
    PurgatoryRegistration,
    Record,
    Registration,
    Role,
    TopicRecord,
    decode_record,
    decode_registration,
    encode_record,
    encode_registration,
)
from barnabas.cluster.operation_records import (
    BalanceRecord,
    ControllerHistoryRecord,
    ControllerTermRecord,
    DrainRecord,
)
from barnabas.cluster.quotas.entities import client_quota
from barnabas.cluster.scram import UserScramCredential
from barnabas.ports.etcd import KeyValue, WatchBatch, WatchEvent
from barnabas_controller.core.state.image import ControllerImage
from tests.fuzz.target import Target

_TOPIC_ID: Final = b"0123456789abcdef"
_KEYS: Final = Keys()
_PARTITION: Final = PartitionRecord(1, 2, 3, (1, 2, 3), (1,), 7, (3,), (1,), (2,), True)
_ACL: Final = Acl(2, 4, "team-", "User:alice", "*", 3, 3)
_CREDENTIAL: Final = UserScramCredential("alice", 1, 4096, b"0123456789", bytes(32), bytes(range(32)))
_TOKEN: Final = DelegationToken("id", "User:a", "User:b", ["User:c"], 1, 2, 3, bytes(32), [_CREDENTIAL])
_QUOTA: Final = client_quota((("client-id", "c"), ("user", None)), {"producer_byte_rate": 1e6})
_RECORDS: Final[dict[str, Record]] = {
    _KEYS.cluster: ClusterRecord("AAAAAAAAAAAAAAAAAAAAAA"),
    _KEYS.controller_epoch: ControllerEpochRecord(3),
    _KEYS.member(Role.LOGSTORE, "1"): MemberRecord(Role.LOGSTORE, "1", {"data": "a:1"}),
    _KEYS.topic("t"): TopicRecord("t", _TOPIC_ID, 2, 1, {"retention.ms": "5"}),
    _KEYS.chunk(_TOPIC_ID, 0): PartitionChunk(_TOPIC_ID, 0, (_PARTITION, _PARTITION)),
    _KEYS.deletion(_TOPIC_ID): DeletionRecord("t", _TOPIC_ID, 2),
    _KEYS.producer_ids: ProducerIdsRecord(1000),
    _KEYS.operations.drain(2): DrainRecord(2, True, 7),
    _KEYS.operations.balance: BalanceRecord(7),
    _KEYS.operations.controller_history: ControllerHistoryRecord((ControllerTermRecord(1, "c", "a:4", 7),)),
    _KEYS.acl(_ACL): _ACL,
    _KEYS.credentials.key_of(_CREDENTIAL): _CREDENTIAL,
    _KEYS.credentials.key_of(_TOKEN): _TOKEN,
    _KEYS.client_quota(_QUOTA.of()): _QUOTA,
}
_CONTROLLER: Final = ControllerRegistration("c", "i", "a:4")
_REGISTRATIONS: Final[dict[str, tuple[Role, Registration]]] = {
    _KEYS.election: (Role.CONTROLLER, _CONTROLLER),
    _KEYS.registration(Role.LOGSTORE, "1"): (Role.LOGSTORE, LogstoreRegistration(1, "i", "d", "a:1", "a:2")),
    _KEYS.registration(Role.GATEWAY, "g"): (Role.GATEWAY, GatewayRegistration("g", "i", {"PLAINTEXT": "a:9"})),
    _KEYS.registration(Role.PURGATORY, "p"): (Role.PURGATORY, PurgatoryRegistration("p", "i", "a:3")),
    _KEYS.registration(Role.CONTROLLER, "c"): (Role.CONTROLLER, _CONTROLLER),
}
_ALL_KEYS: Final = [*_RECORDS, *_REGISTRATIONS]


def check(data: bytes) -> None:
    if not data:
        return
    key, value = _ALL_KEYS[data[0] % len(_ALL_KEYS)], data[1:]
    image = ControllerImage(_KEYS)
    image.apply(WatchBatch(1, (WatchEvent(KeyValue(key, value, 1, 1)),)))
    if key not in image.unreadable:
        read: Record | Registration | None
        if key in _REGISTRATIONS:
            read = decode_registration(_REGISTRATIONS[key][0], value)
        else:
            read = decode_record(_KEYS, key, value)
        assert read is not None
        plain = msgspec.to_builtins(read, builtin_types=(bytes,))
        assert msgspec.convert(plain, type(read), builtin_types=(bytes,)) == read
    image.apply(WatchBatch(2, (WatchEvent(KeyValue(key, b"", 0, 2), deleted=True),)))
    assert image.unreadable == {}


def build(random: Random) -> bytes:
    number = random.randrange(len(_ALL_KEYS))
    key = _ALL_KEYS[number]
    value = encode_registration(_REGISTRATIONS[key][1]) if key in _REGISTRATIONS else encode_record(_RECORDS[key])
    return bytes([number]) + value


TARGET = Target("cluster_keys", check, build)
