"""SCRAM credentials at the controller: validated as Kafka does, kept in etcd, known to gateways and not to others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.cluster.keys import Role, decode_record, encode_record
from barnabas.cluster.scram import (
    AlterScramCredentialsRequest,
    AlterScramCredentialsResponse,
    ScramUser,
    UserScramCredential,
)
from barnabas.ports.etcd import Delete, Get, Put, Txn
from barnabas.wire.errors import ErrorCode
from tests.unit.controller.cluster import KEYS, Cluster, ControllerNode

ALICE = UserScramCredential("alice", 1, 4096, b"salt", b"stored" * 5, b"server" * 5)
ALICE_512 = replace(ALICE, mechanism=2)
BOB = replace(ALICE, user="b/o,b=ü", iterations=16384)


class Scene:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.controller: ControllerNode = self.cluster.controller("controller-0")
        self.cluster.logstore(1)
        self.cluster.settle()
        self.gateway = self.controller.subscribers[self.cluster.gateway(self.controller)]
        self.cluster.settle()

    def alter(self, *upsertions: UserScramCredential, delete: tuple[ScramUser, ...] = ()) -> dict[str, tuple[int, str]]:
        request = AlterScramCredentialsRequest(list(delete), list(upsertions), 5000)
        request_id = self.controller.request(request)
        self.cluster.settle()
        response = self.controller.responses[request_id]
        assert isinstance(response, AlterScramCredentialsResponse)
        assert self.gateway.revision >= response.revision
        return {each.user: (each.error_code, each.error_message) for each in response.results}

    @property
    def known(self) -> set[UserScramCredential]:
        """What the gateway knows."""
        return set(self.gateway.scram_credentials.values())


def test_a_credential_is_known_to_gateways_when_it_is_answered() -> None:
    scene = Scene()
    assert scene.alter(ALICE, ALICE_512, BOB) == {"alice": (0, ""), "b/o,b=ü": (0, "")}
    assert scene.known == {ALICE, ALICE_512, BOB}
    key = KEYS.credentials.scram_credential(1, "b/o,b=ü")
    assert [decode_record(KEYS, each.key, each.value) for each in scene.cluster.etcd.get(Get(key))] == [BOB]


def test_a_credential_is_replaced_and_deleted() -> None:
    scene = Scene()
    scene.alter(ALICE, ALICE_512)
    other = replace(ALICE, salt=b"other")
    assert scene.alter(other) == {"alice": (0, "")}
    assert scene.known == {other, ALICE_512}
    assert scene.alter(delete=(ScramUser("alice", 2),)) == {"alice": (0, "")}
    assert scene.known == {other}


def test_a_gateway_that_subscribes_later_gets_all() -> None:
    scene = Scene()
    scene.alter(ALICE, BOB)
    late = scene.controller.subscribers[scene.cluster.gateway(scene.controller, "gateway-1")]
    scene.cluster.settle()
    assert set(late.scram_credentials.values()) == {ALICE, BOB}


def test_logstores_and_purgatory_pods_get_no_keys_of_users() -> None:
    scene = Scene()
    pods = [scene.controller.subscribers[scene.controller.subscribe(Role.PURGATORY, "purgatory-0")]]
    scene.alter(ALICE)
    pods.append(scene.controller.subscribers[scene.controller.subscribe(Role.PURGATORY, "purgatory-1")])
    scene.cluster.settle()
    assert [pod.revision >= scene.gateway.revision for pod in pods] == [True, True]
    assert not any(pod.scram_credentials for pod in pods)
    scene.cluster.logstore(2)
    scene.cluster.settle()
    for logstore in scene.cluster.logstores.values():
        updates = [each.update_metadata for each in logstore.requests if each.update_metadata is not None]
        assert updates
        assert not any(update.scram_credentials for update in updates)


@pytest.mark.parametrize(
    ("upsertion", "code", "message"),
    [
        (replace(ALICE, user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (replace(ALICE, mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (replace(ALICE, mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (replace(ALICE, iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (replace(ALICE, iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (replace(ALICE, user="a" * 1001), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username or salt is too long"),
        (replace(ALICE, salt=bytes(1001)), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username or salt is too long"),
    ],
)
def test_what_kafka_refuses_is_refused_and_the_rest_is_done(
    upsertion: UserScramCredential, code: ErrorCode, message: str
) -> None:
    scene = Scene()
    results = scene.alter(upsertion, BOB)
    assert results[upsertion.user] == (code, message)
    assert results[BOB.user] == (0, "")
    assert scene.known == {BOB}


def test_a_user_is_changed_as_a_whole_or_not_at_all() -> None:
    scene = Scene()
    assert scene.alter(ALICE, replace(ALICE_512, iterations=1))["alice"][0] == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert not scene.known


def test_a_credential_that_is_altered_twice_is_not_altered() -> None:
    scene = Scene()
    for upsertions, deletions in (((ALICE, ALICE), ()), ((ALICE,), (ScramUser("alice", 1),))):
        code, message = scene.alter(*upsertions, delete=deletions)["alice"]
        assert code == ErrorCode.DUPLICATE_RESOURCE
        assert message == "A user credential cannot be altered twice in the same request"
    assert not scene.known


def test_what_does_not_exist_is_not_deleted() -> None:
    scene = Scene()
    scene.alter(ALICE)
    assert scene.alter(delete=(ScramUser("alice", 2),))["alice"] == (
        ErrorCode.RESOURCE_NOT_FOUND,
        "Attempt to delete a user credential that does not exist",
    )
    assert scene.known == {ALICE}


def test_a_credential_that_can_not_be_read_lets_no_client_in_and_can_be_set_or_deleted() -> None:
    scene = Scene()
    scene.alter(ALICE, BOB)
    key = KEYS.credentials.scram_credential(1, "alice")
    scene.cluster.etcd.txn(Txn((), (Put(key, encode_record(BOB)),)))
    scene.cluster.settle()
    assert scene.known == {BOB}
    assert scene.alter(delete=(ScramUser("alice", 1),))["alice"] == (0, "")
    scene.alter(ALICE)
    assert scene.known == {ALICE, BOB}
    scene.cluster.etcd.txn(Txn((), (Delete(key),)))
    scene.cluster.settle()
    assert scene.known == {BOB}


def test_no_key_is_shown() -> None:
    assert "stored" not in repr(ALICE).replace("stored_key", "")
    assert "b'" not in repr(ALICE)
