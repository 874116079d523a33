"""DescribeAcls, CreateAcls and DeleteAcls with an authorizer; without one: test_without_security.py."""

from __future__ import annotations

from typing import Any

from barnabas.cluster import messages as cluster
from barnabas.cluster.acls import ANY, CLUSTER, Acl, AclFilter, Operation
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas_gateway.core.model.config import AuthorizerConfig
from barnabas_gateway.core.model.request_context import ANONYMOUS
from tests.unit.gateway.world import Client, World, topic

READ = Acl(2, 3, "orders", "User:alice", "*", 3, 3)
WRITE = Acl(2, 3, "orders", "User:alice", "10.0.0.1", 4, 3)
DENIED = Acl(3, 4, "team-", "User:bob", "*", 2, 2)


def on_cluster(operation: Operation) -> Acl:
    return Acl(*CLUSTER[:1], 3, CLUSTER[1], str(ANONYMOUS), "*", operation, 3)


def acl_world(*acls: Acl, super_users: frozenset[str] = frozenset()) -> World:
    world = World(authorizer=AuthorizerConfig(True, super_users))
    world.update(topic(), acls=list(acls), knows_acls=True)
    return world


def admin_world(*acls: Acl) -> World:
    return acl_world(*acls, super_users=frozenset({str(ANONYMOUS)}))


def describe(client: Client, asked: DescribeAclsRequest, version: int = 3) -> Any:
    client.ask(asked, ApiKey.DESCRIBE_ACLS, version)
    return client.answers[-1]


def create(client: Client, *acls: Acl) -> None:
    creations = [
        AclCreation(
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for acl in acls
    ]
    client.ask(CreateAclsRequest(creations), ApiKey.CREATE_ACLS, 3)


def delete(client: Client, *filters: DeleteAclsFilter) -> None:
    client.ask(DeleteAclsRequest(list(filters)), ApiKey.DELETE_ACLS, 3)


def test_acls_are_described_by_pattern() -> None:
    client = admin_world(READ, WRITE, DENIED).client()
    answer = describe(client, DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY))
    assert answer.error_code == 0
    orders, team = answer.resources
    assert (orders.resource_type, orders.pattern_type, orders.resource_name) == (2, 3, "orders")
    assert [(each.principal, each.host, each.operation, each.permission_type) for each in orders.acls] == [
        ("User:alice", "*", 3, 3),
        ("User:alice", "10.0.0.1", 4, 3),
    ]
    assert (team.resource_type, team.pattern_type, team.resource_name) == (3, 4, "team-")
    of_bob = describe(client, DescribeAclsRequest(ANY, None, ANY, "User:bob", None, ANY, ANY))
    assert [each.resource_name for each in of_bob.resources] == ["team-"]
    # A number that a later Kafka may have matches nothing here; 0 is what no client may send.
    assert describe(client, DescribeAclsRequest(99, None, ANY, None, None, ANY, ANY)).resources == []
    unknown = describe(client, DescribeAclsRequest(ANY, None, ANY, None, None, 0, ANY))
    assert unknown.error_code == ErrorCode.INVALID_REQUEST


def test_a_description_needs_to_be_allowed() -> None:
    everything = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
    assert describe(acl_world().client(), everything).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = describe(acl_world(on_cluster(Operation.DESCRIBE)).client(), everything)
    assert [each.resource_name for each in answer.resources] == ["kafka-cluster"]


def test_the_controller_creates_acls_and_the_answer_waits_for_this_gateway() -> None:
    world = admin_world()
    client = world.client()
    create(client, READ, DENIED)
    (call,) = world.calls
    assert isinstance(call.request, cluster.CreateAclsRequest)
    assert call.request.acls == [READ, DENIED]
    refused = cluster.AclResult(ErrorCode.INVALID_REQUEST, "no")
    world.controller_answers(cluster.CreateAclsResponse([cluster.AclResult(0), refused], world.revision + 1))
    assert not client.answers
    world.update(topic(), acls=[READ], knows_acls=True)
    assert [(each.error_code, each.error_message) for each in client.answers[-1].results] == [
        (0, None),
        (ErrorCode.INVALID_REQUEST, "no"),
    ]
    lines = [line for line in world.logs if line.event == "ACL created"]
    assert [line.fields["acl"] for line in lines] == ["ALLOW READ on TOPIC LITERAL orders to User:alice from *"]
    assert lines[0].fields["principal"] == str(ANONYMOUS)


def test_an_invalid_acl_does_not_reach_the_controller() -> None:
    world = admin_world()
    client = world.client()
    create(client, Acl(2, ANY, "orders", "User:alice", "*", 3, 3))
    assert not world.calls
    (result,) = client.answers[-1].results
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Invalid patternType ANY")


def test_the_controller_deletes_what_filters_match() -> None:
    world = admin_world(READ, WRITE)
    client = world.client()
    delete(
        client, DeleteAclsFilter(2, "orders", 2, None, None, ANY, ANY), DeleteAclsFilter(0, None, 3, None, None, 1, 1)
    )
    (call,) = world.calls
    assert isinstance(call.request, cluster.DeleteAclsRequest)
    assert call.request.filters == [AclFilter(2, 2, "orders")]
    world.controller_answers(cluster.DeleteAclsResponse([cluster.DeletedAcls(0, "", [READ, WRITE])], world.revision))
    deleted, refused = client.answers[-1].filter_results
    assert [(each.resource_name, each.operation) for each in deleted.matching_acls] == [("orders", 3), ("orders", 4)]
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert [line.event for line in world.logs] == ["ACL deleted"] * 2


def test_changes_need_to_be_allowed() -> None:
    world = acl_world(on_cluster(Operation.DESCRIBE))
    client = world.client()
    create(client, READ)
    delete(client, DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY))
    assert not world.calls
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [each.error_code for each in client.answers[0].results] == [denied]
    assert [each.error_code for each in client.answers[1].filter_results] == [denied]
    world.update(topic(), acls=[on_cluster(Operation.ALTER)], knows_acls=True)
    create(client, READ)
    assert len(world.calls) == 1


def test_many_deletions_leave_a_bounded_number_of_records() -> None:
    world = admin_world()
    client = world.client()
    delete(client, DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY))
    acls = [Acl(2, 3, f"t{number}", "User:a", "*", 3, 3) for number in range(500)]
    world.controller_answers(cluster.DeleteAclsResponse([cluster.DeletedAcls(0, "", acls)], world.revision))
    while not client.answers:
        world.turn()
    assert len(client.answers[-1].filter_results[0].matching_acls) == 500
    assert len(world.logs) == 200
    assert world.logs[-1].fields["left_out"] == 300


def test_without_an_answer_nothing_is_said_to_be_done() -> None:
    world = admin_world()
    client = world.client()
    create(client, READ)
    world.controller_answers(None)
    assert [each.error_code for each in client.answers[-1].results] == [ErrorCode.REQUEST_TIMED_OUT]
