"""The cluster's records and registrations survive etcd, and keys never run into each other."""

from __future__ import annotations

import json
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    registration_addresses,
)
from barnabas.cluster.operation_records import (
    BalanceRecord,
    ControllerHistoryRecord,
    ControllerTermRecord,
    DrainRecord,
)
from barnabas.ports.etcd import prefix_end

KEYS = Keys("/another/prefix/")
names = st.text(alphabet=ascii_letters + digits + "._-", min_size=1, max_size=249)
topic_ids = st.binary(min_size=16, max_size=16)
ints = st.integers(-1, 2**31 - 1)
node_ids = st.lists(ints, min_size=1, max_size=3).map(tuple)
partitions = st.builds(PartitionRecord, ints, ints, ints, node_ids, node_ids, st.integers(-1, 2**63 - 1))
texts = st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3)


@st.composite
def keyed_records(draw: st.DrawFn) -> tuple[str, Record]:
    topic, topic_id = draw(names), draw(topic_ids)
    chunk = draw(st.integers(0, 99_999))
    role, member_id = draw(st.sampled_from(Role)), draw(names)
    keyed: list[tuple[str, Record]] = [
        (KEYS.cluster, ClusterRecord(topic)),
        (KEYS.controller_epoch, ControllerEpochRecord(chunk)),
        (KEYS.member(role, member_id), MemberRecord(role, member_id, draw(texts), chunk)),
        (KEYS.topic(topic), TopicRecord(topic, topic_id, chunk, 1, draw(texts))),
        (KEYS.chunk(topic_id, chunk), PartitionChunk(topic_id, chunk, tuple(draw(st.lists(partitions, max_size=3))))),
        (KEYS.deletion(topic_id), DeletionRecord(topic, topic_id, chunk)),
        (KEYS.producer_ids, ProducerIdsRecord(draw(st.integers(0, 2**63 - 1)))),
        (KEYS.operations.drain(chunk), DrainRecord(chunk, draw(st.booleans()), draw(ints))),
        (KEYS.operations.balance, BalanceRecord(draw(ints))),
        (
            KEYS.operations.controller_history,
            ControllerHistoryRecord((ControllerTermRecord(chunk, topic, member_id, draw(ints)),)),
        ),
    ]
    return draw(st.sampled_from(keyed))


@given(keyed_records())
def test_records_come_back_as_they_were(keyed: tuple[str, Record]) -> None:
    key, record = keyed
    assert decode_record(KEYS, key, encode_record(record)) == record


REGISTRATIONS: list[tuple[Role, Registration, dict[str, str]]] = [
    (
        Role.LOGSTORE,
        LogstoreRegistration(1, "i", "d", "data:1", "control:2", "rack", "boot"),
        {"data": "data:1", "control": "control:2"},
    ),
    (
        Role.GATEWAY,
        GatewayRegistration("g", "i", {"PLAINTEXT": "kafka:1"}, "ops:2"),
        {"PLAINTEXT": "kafka:1", "ops": "ops:2"},
    ),
    (Role.GATEWAY, GatewayRegistration("g", "i"), {}),
    (Role.PURGATORY, PurgatoryRegistration("p", "i", "park:1"), {"park": "park:1"}),
    (Role.CONTROLLER, ControllerRegistration("c", "i", "ops:1"), {"ops": "ops:1"}),
]


@pytest.mark.parametrize(("role", "registration", "addresses"), REGISTRATIONS)
def test_registrations_come_back_with_their_addresses(
    role: Role, registration: Registration, addresses: dict[str, str]
) -> None:
    assert decode_registration(role, encode_registration(registration)) == registration
    assert registration_addresses(registration) == addresses


@pytest.mark.parametrize(("role", "registration", "addresses"), REGISTRATIONS)
def test_fields_of_a_newer_version_are_skipped(
    role: Role, registration: Registration, addresses: dict[str, str]
) -> None:
    fields = json.loads(encode_registration(registration)) | {"of_a_newer_version": 1}
    assert decode_registration(role, json.dumps(fields).encode()) == registration


def test_keys_that_the_controller_does_not_write_are_no_records() -> None:
    for key in (KEYS.registration(Role.LOGSTORE, "1"), KEYS.election, "/elsewhere/topics/a", "/another/prefix/new"):
        assert decode_record(KEYS, key, b"{}") is None


def test_a_topic_named_like_a_directory_stays_inside_its_own() -> None:
    for topic in ("partitions", "cluster", "controller"):
        record = TopicRecord(topic, bytes(16), 1, 1, {})
        assert decode_record(KEYS, KEYS.topic(topic), encode_record(record)) == record


def test_a_prefix_without_a_slash_would_hold_another_clusters_keys() -> None:
    with pytest.raises(AssertionError):
        Keys("/barnabas")


@given(names)
def test_a_prefix_range_holds_exactly_what_begins_with_it(name: str) -> None:
    end = prefix_end("/a/")
    assert "/a/" <= "/a/" + name < end
    assert not "/a/" <= "/b/" + name < end
