"""Client quotas at the controller: validated as Kafka does, kept in etcd, known to gateways and not to others."""

from __future__ import annotations

import math

import pytest

from barnabas.cluster.keys import decode_record, encode_record
from barnabas.cluster.quotas.entities import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    Entity,
    QuotaAlteration,
    QuotaChange,
    QuotaEntityPart,
    client_quota,
    entity_of,
)
from barnabas.ports.etcd import Delete, Get, Put, Txn
from barnabas.wire.errors import ErrorCode
from tests.unit.controller.cluster import KEYS, Cluster, ControllerNode

ALICE: Entity = (("user", "alice"),)
DEFAULT_USER: Entity = (("user", None),)
BOTH: Entity = (("client-id", "c"), ("user", "alice"))
ADDRESS: Entity = (("ip", "10.0.0.1"),)
LONG_MAX = 2**63 - 1


def alteration(entity: Entity, *changes: QuotaChange, **values: float) -> QuotaAlteration:
    parts = [QuotaEntityPart(*part) for part in entity]
    return QuotaAlteration(parts, [*changes, *(QuotaChange(key, value) for key, value in values.items())])


class Scene:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.controller: ControllerNode = self.cluster.controller("controller-0")
        self.cluster.logstore(1)
        self.cluster.settle()
        self.gateway = self.controller.subscribers[self.cluster.gateway(self.controller)]
        self.cluster.settle()

    def alter(self, *alterations: QuotaAlteration, validate_only: bool = False) -> list[tuple[int, str]]:
        request_id = self.controller.request(AlterClientQuotasRequest(list(alterations), 5000, validate_only))
        self.cluster.settle()
        response = self.controller.responses[request_id]
        assert isinstance(response, AlterClientQuotasResponse)
        assert self.gateway.revision >= response.revision
        return [(each.error_code, each.error_message) for each in response.results]

    @property
    def known(self) -> dict[Entity, dict[str, float]]:
        """What the gateway knows."""
        return self.gateway.client_quotas


def test_quotas_are_known_to_gateways_when_they_are_answered() -> None:
    scene = Scene()
    answered = scene.alter(
        alteration(ALICE, producer_byte_rate=1e6, request_percentage=12.5),
        alteration(BOTH, consumer_byte_rate=LONG_MAX),
        alteration(ADDRESS, connection_creation_rate=10),
    )
    assert answered == [(0, "")] * 3
    assert scene.known == {
        ALICE: {"producer_byte_rate": 1e6, "request_percentage": 12.5},
        BOTH: {"consumer_byte_rate": float(LONG_MAX)},
        ADDRESS: {"connection_creation_rate": 10.0},
    }
    key = KEYS.client_quota(ALICE)
    (stored,) = scene.cluster.etcd.get(Get(key))
    assert decode_record(KEYS, key, stored.value) == client_quota(ALICE, scene.known[ALICE])


def test_a_quota_is_changed_and_removed_by_its_key() -> None:
    scene = Scene()
    scene.alter(alteration(DEFAULT_USER, producer_byte_rate=1, consumer_byte_rate=2))
    gone = QuotaChange("producer_byte_rate", 0, remove=True)
    assert scene.alter(alteration(DEFAULT_USER, gone, consumer_byte_rate=3)) == [(0, "")]
    assert scene.known == {DEFAULT_USER: {"consumer_byte_rate": 3.0}}
    absent = QuotaChange("unknown_key", 0, remove=True)
    assert scene.alter(alteration(DEFAULT_USER, absent)) == [(0, "")], "as Kafka: what is not there is removed"
    scene.alter(alteration(DEFAULT_USER, QuotaChange("consumer_byte_rate", 0, remove=True)))
    assert scene.known == {}
    assert scene.cluster.etcd.get(Get(KEYS.client_quota(DEFAULT_USER))) == ()


def test_validation_alone_changes_nothing() -> None:
    scene = Scene()
    answered = scene.alter(alteration(ALICE, producer_byte_rate=1), alteration(ALICE, nonsense=1), validate_only=True)
    assert [code for code, _ in answered] == [0, ErrorCode.INVALID_REQUEST]
    assert scene.known == {}


def test_a_gateway_that_subscribes_later_gets_all_and_logstores_get_none() -> None:
    scene = Scene()
    scene.alter(alteration(ALICE, producer_byte_rate=1))
    late = scene.controller.subscribers[scene.cluster.gateway(scene.controller, "gateway-1")]
    scene.cluster.logstore(2)
    scene.cluster.settle()
    assert late.client_quotas == {ALICE: {"producer_byte_rate": 1.0}}
    for logstore in scene.cluster.logstores.values():
        updates = [each.update_metadata for each in logstore.requests if each.update_metadata is not None]
        assert updates
        assert not any(update.client_quotas for update in updates)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (alteration(()), "Invalid empty client quota entity"),
        (alteration((("planet", "earth"),)), "Unhandled client quota entity type: planet"),
        (alteration((("user", ""),)), "Empty user not supported"),
        (
            alteration((("ip", None), ("user", "a"))),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (alteration((("ip", "300.1.1.1"),)), "300.1.1.1 is not a valid IP or resolvable host."),
        (alteration(ALICE, connection_creation_rate=1), "Invalid configuration key connection_creation_rate"),
        (alteration(ADDRESS, producer_byte_rate=1), "Invalid configuration key producer_byte_rate"),
        (alteration(ALICE, producer_byte_rate=0), "Quota producer_byte_rate must be greater than 0"),
        (alteration(ALICE, producer_byte_rate=-1), "Quota producer_byte_rate must be greater than 0"),
        (alteration(ALICE, request_percentage=math.nan), "Quota request_percentage must be greater than 0"),
        (alteration(ALICE, request_percentage=math.inf), "Quota request_percentage must be a finite number"),
        (alteration(ALICE, producer_byte_rate=1.5), "producer_byte_rate cannot be a fractional value."),
        (alteration(ALICE, producer_byte_rate=1e30), "Proposed value for producer_byte_rate is too large for a LONG."),
        (
            alteration(ADDRESS, connection_creation_rate=2**31),
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_and_the_rest_is_done(asked: QuotaAlteration, message: str) -> None:
    scene = Scene()
    assert scene.alter(asked, alteration(BOTH, controller_mutation_rate=0.5)) == [
        (ErrorCode.INVALID_REQUEST, message),
        (0, ""),
    ]
    assert scene.known == {BOTH: {"controller_mutation_rate": 0.5}}


def test_a_value_that_cannot_be_read_is_no_quota_and_can_be_replaced() -> None:
    scene = Scene()
    scene.alter(alteration(ALICE, producer_byte_rate=1))
    key = KEYS.client_quota(ALICE)
    scene.cluster.etcd.txn(Txn((), (Put(key, b"\xff"),)))
    scene.cluster.settle()
    assert scene.known == {}
    assert scene.alter(alteration(ALICE, consumer_byte_rate=2)) == [(0, "")]
    assert scene.known == {ALICE: {"consumer_byte_rate": 2.0}}
    scene.cluster.etcd.txn(Txn((), (Put(key, b"{}"),)))
    scene.cluster.settle()
    scene.cluster.etcd.txn(Txn((), (Delete(key),)))
    scene.cluster.settle()
    assert scene.known == {}


def test_the_number_of_gateways_is_published() -> None:
    scene = Scene()
    assert scene.gateway.gateways == 1
    scene.cluster.gateway(scene.controller, "gateway-1")
    scene.cluster.settle()
    assert scene.gateway.gateways == 2


def test_an_entity_is_a_map() -> None:
    assert entity_of([("user", "a"), ("client-id", None), ("user", "b")]) == (("client-id", None), ("user", "b"))
    record = client_quota(BOTH, {"producer_byte_rate": 0.5e6})
    assert decode_record(KEYS, KEYS.client_quota(BOTH), encode_record(record)) == record
