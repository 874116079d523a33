"""ACLs at the controller: valid ones are written once, deleted by filters, and known to every gateway."""

from __future__ import annotations

import pytest

from barnabas.cluster.acls import ANY, MATCH, Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from barnabas.cluster.keys import decode_record, encode_record
from barnabas.cluster.messages import CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse
from barnabas.ports.etcd import Get, Put, Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.topics import acl_changes
from tests.unit.controller.cluster import KEYS, LEASE_MS, Cluster, ControllerNode

READ = Acl(ResourceType.TOPIC, PatternType.LITERAL, "orders", "User:alice", "*", Operation.READ, PermissionType.ALLOW)
DENIED = Acl(
    ResourceType.TOPIC, PatternType.PREFIXED, "ord", "User:bob", "10.0.0.1", Operation.ALL, PermissionType.DENY
)
EVERY = AclFilter()


class Scene:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.controller: ControllerNode = self.cluster.controller("controller-0")
        self.cluster.logstore(1)
        self.cluster.settle()
        self.gateway = self.controller.subscribers[self.cluster.gateway(self.controller)]
        self.cluster.settle()

    def create(self, *acls: Acl) -> CreateAclsResponse:
        request_id = self.controller.request(CreateAclsRequest(list(acls), 5000))
        self.cluster.settle()
        response = self.controller.responses[request_id]
        assert isinstance(response, CreateAclsResponse)
        return response

    def delete(self, *filters: AclFilter) -> DeleteAclsResponse:
        request_id = self.controller.request(DeleteAclsRequest(list(filters), 5000))
        self.cluster.settle()
        response = self.controller.responses[request_id]
        assert isinstance(response, DeleteAclsResponse)
        return response

    def put(self, key: str, value: bytes) -> None:
        self.cluster.etcd.txn(Txn((), (Put(key, value),)))
        self.cluster.settle()

    @property
    def known(self) -> set[Acl]:
        """What the gateway knows."""
        return set(self.gateway.acls)


def test_a_created_acl_is_known_to_gateways_when_it_is_answered() -> None:
    scene = Scene()
    assert scene.gateway.knows_acls
    response = scene.create(READ, DENIED)
    assert [each.error_code for each in response.results] == [0, 0]
    assert scene.known == {READ, DENIED}
    assert scene.gateway.revision >= response.revision
    assert [decode_record(KEYS, each.key, each.value) for each in scene.cluster.etcd.get(Get(KEYS.acl(READ)))] == [READ]


def test_an_acl_that_exists_is_created_without_a_write() -> None:
    scene = Scene()
    scene.create(READ)
    (before,) = scene.cluster.etcd.get(Get(KEYS.acl(READ)))
    assert [each.error_code for each in scene.create(READ, READ).results] == [0, 0]
    assert [before] == list(scene.cluster.etcd.get(Get(KEYS.acl(READ))))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("resource_type", ANY, "Invalid resourceType ANY"),
        ("resource_type", 99, "Invalid resourceType UNKNOWN"),
        ("pattern_type", ANY, "Invalid patternType ANY"),
        ("pattern_type", MATCH, "Invalid patternType MATCH"),
        ("operation", ANY, "Invalid operation ANY"),
        ("operation", 77, "Invalid operation UNKNOWN"),
        ("permission_type", ANY, "Invalid permissionType ANY"),
        ("resource_name", "", "Invalid empty resource name"),
        ("resource_type", ResourceType.CLUSTER, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ("principal", "alice", "Could not parse principal from `alice`: it has no type, such as User:"),
        ("resource_name", "x" * 40_000, "A name, a principal or a host has no more than 32767 bytes"),
    ],
)
def test_an_invalid_acl_is_refused_and_the_others_are_created(field: str, value: object, message: str) -> None:
    scene = Scene()
    values = {each: getattr(READ, each) for each in READ.__struct_fields__} | {field: value}
    refused, created = scene.create(Acl(**values), DENIED).results
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert created.error_code == 0
    assert scene.known == {DENIED}


def test_filters_delete_what_they_match_and_name_it() -> None:
    scene = Scene()
    scene.create(READ, DENIED)
    first, second, third = scene.delete(
        AclFilter(ResourceType.TOPIC, MATCH, "orders", principal="User:bob"),
        AclFilter(operation=Operation.WRITE),
        AclFilter(pattern_type=77),
    ).results
    assert (first.error_code, first.acls) == (0, [DENIED])
    assert (second.error_code, second.acls) == (0, [])
    assert (third.error_code, third.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    assert scene.known == {READ}
    assert scene.delete(EVERY, EVERY).results[1].acls == [READ]
    assert scene.known == set()
    assert not scene.cluster.etcd.get(Get(KEYS.acl(READ)))


def test_filters_by_name_and_pattern() -> None:
    """As Kafka's `ResourcePatternFilter`."""
    wildcard = Acl(ResourceType.TOPIC, PatternType.LITERAL, "*", "User:a", "*", Operation.READ, PermissionType.ALLOW)

    def matched(pattern_type: int, name: str | None) -> set[str]:
        asked = AclFilter(ResourceType.TOPIC, pattern_type, name)
        return {acl.resource_name for acl in (READ, DENIED, wildcard) if asked.matches(acl)}

    assert matched(ANY, None) == matched(MATCH, None) == {"orders", "ord", "*"}
    assert matched(ANY, "orders") == {"orders"}
    assert matched(MATCH, "orders") == {"orders", "ord", "*"}
    assert matched(MATCH, "or") == {"*"}
    assert matched(MATCH, "ord") == {"ord", "*"}
    assert matched(PatternType.LITERAL, "orders") == {"orders"}
    assert matched(PatternType.LITERAL, "ord") == set()
    assert matched(PatternType.PREFIXED, "orders") == set()
    assert matched(PatternType.PREFIXED, "ord") == {"ord"}
    assert matched(PatternType.LITERAL, None) == {"orders", "*"}


def test_no_request_deletes_more_than_kafka_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "DELETED_MAX", 1)
    scene = Scene()
    scene.create(READ, DENIED)
    every, one = scene.delete(EVERY, AclFilter(principal="User:bob")).results
    assert (every.error_code, every.acls) == (ErrorCode.POLICY_VIOLATION, [])
    assert one.acls == [DENIED]
    assert scene.known == {READ}


def test_many_acls_are_written_in_parts_and_reach_the_next_controller() -> None:
    scene = Scene()
    many = [READ, *(Acl(2, 3, f"topic-{number}", "User:a", "*", 3, 3) for number in range(250))]
    assert not any(each.error_code for each in scene.create(*many).results)
    assert scene.known == set(many)
    successor = scene.cluster.controller("controller-1")
    scene.controller.cut_off = True
    scene.cluster.advance(LEASE_MS + 1000)
    assert successor.is_active()
    gateway = successor.subscribers[scene.cluster.gateway(successor)]
    scene.cluster.settle()
    assert set(gateway.acls) == set(many)


def test_an_acl_that_can_not_be_read_may_be_a_denial() -> None:
    """Gateways learn that they do not know all, until the value can be read or is gone."""
    scene = Scene()
    scene.create(READ, DENIED)
    scene.put(KEYS.acl(DENIED), b"not json")
    assert not scene.gateway.knows_acls
    assert scene.known == {READ}
    scene.put(KEYS.acl(DENIED), encode_record(DENIED))
    assert scene.gateway.knows_acls
    assert scene.known == {READ, DENIED}


def test_an_acl_under_anothers_key_is_not_read() -> None:
    scene = Scene()
    scene.put(KEYS.acl(READ), encode_record(DENIED))
    assert not scene.gateway.knows_acls
    assert scene.known == set()
