"""DescribeGroups, ListGroups and DeleteGroups: split over the coordinators, and put together."""

from __future__ import annotations

import pytest

from barnabas.cluster.acls import ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from barnabas_gateway.core.model.config import AddressPolicy
from tests.unit.gateway.groups import by_partition, group_world
from tests.unit.gateway.permissions import allow_if, deny_everything
from tests.unit.gateway.world import World

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def described(group_id: str) -> DescribedGroup:
    member = DescribedGroupMember("m-1", None, "client", "/10.0.0.1", b"topics", b"part")
    return DescribedGroup(0, None, group_id, "Stable", "consumer", "range", [member])


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_by_their_own_coordinators(version: int) -> None:
    world = group_world(1, 2)
    client = world.client()
    (first, third), (second, _) = by_partition(2, 2)
    client.ask(DescribeGroupsRequest([first, second, first, third]), ApiKey.DESCRIBE_GROUPS, version)
    one, two = world.logstores[1], world.logstores[2]
    assert one.group_request().groups == [first, third]
    assert two.group_request().groups == [second]
    one.group_answer(DescribeGroupsResponse(groups=[described(third)]))
    two.group_answer(DescribeGroupsResponse(groups=[described(second)]))
    reported = client.answers[-1].groups
    assert [(each.group_id, each.error_code, len(each.members)) for each in reported] == [
        (first, ErrorCode.NOT_COORDINATOR, 0),
        (second, 0, 1),
        (third, 0, 1),
    ]
    assert reported[1].members[0].client_host == "/10.0.0.1"


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_can_not_be_described_says_why(version: int) -> None:
    world = group_world(1, 2, -1)
    client = world.client()
    (first,), (second,), (third,) = by_partition(3)
    client.ask(DescribeGroupsRequest([first, second, third]), ApiKey.DESCRIBE_GROUPS, version)
    world.logstores[1].group_answer(error_code=LOADING)
    world.logstores[2].down()
    assert {each.group_id: each.error_code for each in client.answers[-1].groups} == {
        first: LOADING,
        second: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        third: ErrorCode.NOT_COORDINATOR,
    }


def test_a_coordinator_that_does_not_answer_holds_up_the_others_for_a_while_only() -> None:
    world = group_world(1, 2)
    client = world.client()
    (first,), (second,) = by_partition(2)
    client.ask(DescribeGroupsRequest([first, second]), ApiKey.DESCRIBE_GROUPS, 6)
    world.logstores[1].group_answer(DescribeGroupsResponse(groups=[described(first)]))
    world.pass_ms(5_100)
    assert [each.error_code for each in client.answers[-1].groups] == [0, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.logstores[2].group_answer(DescribeGroupsResponse(groups=[described(second)]))
    assert len(client.answers) == 1


def test_a_client_that_is_gone_waits_for_no_coordinator() -> None:
    world = group_world(1, 2)
    client = world.client()
    client.ask(DescribeGroupsRequest([each[0] for each in by_partition(2)]), ApiKey.DESCRIBE_GROUPS, 6)
    client.close()
    for logstore in world.logstores.values():
        logstore.group_answer(DescribeGroupsResponse())
    assert world.processor.next_deadline_ms() is None


# --- ListGroups ------------------------------------------------------------------------------------------------------


def listed(*group_ids: str) -> ListGroupsResponse:
    return ListGroupsResponse(groups=[ListedGroup(group_id, "consumer", "Stable", "classic") for group_id in group_ids])


def asked_to_list(world: World) -> list[int]:
    return [node_id for node_id, logstore in world.logstores.items() if logstore.group_calls]


@pytest.mark.parametrize("version", range(6))
def test_a_broker_lists_its_own_groups(version: int) -> None:
    world = group_world(1, 2)
    client = world.client(node_id=2)
    request = ListGroupsRequest(["Stable"] if version >= 4 else [], ["classic"] if version >= 5 else [])
    client.ask(request, ApiKey.LIST_GROUPS, version)
    assert asked_to_list(world) == [2]
    assert world.logstores[2].group_request() == request
    world.logstores[2].group_answer(listed("a", "b"))
    assert (client.answers[-1].error_code, [each.group_id for each in client.answers[-1].groups]) == (0, ["a", "b"])


@pytest.mark.parametrize("policy", list(AddressPolicy))
def test_the_cluster_lists_all_groups(policy: AddressPolicy) -> None:
    world = group_world(1, 2, address_policy=policy)
    client = world.client()
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 5)
    assert asked_to_list(world) == [1, 2]
    world.logstores[2].group_answer(listed("b"))
    world.logstores[1].group_answer(listed("a"))
    assert [each.group_id for each in client.answers[-1].groups] == ["b", "a"]


def test_groups_are_listed_before_there_are_any() -> None:
    world = World()
    client = world.client()
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 5)
    world.logstore.group_answer(listed())
    assert (client.answers[-1].error_code, client.answers[-1].groups) == (0, [])
    assert not world.calls, "listing makes no topic"


@pytest.mark.parametrize(
    ("refusal", "reported"),
    [
        (LOADING, LOADING),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (None, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_some_of_the_groups_are_not_taken_for_all(refusal: ErrorCode | None, reported: ErrorCode) -> None:
    world = group_world(1, 2)
    client = world.client()
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 5)
    world.logstores[1].group_answer(listed("a"))
    if refusal is None:
        world.logstores[2].down()
    else:
        world.logstores[2].group_answer(error_code=refusal)
    assert (client.answers[-1].error_code, client.answers[-1].groups) == (reported, [])


def test_a_broker_that_is_gone_lists_nothing() -> None:
    client = group_world().client(node_id=8)
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 5)
    assert client.answers[-1].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_who_may_not_describe_the_cluster_learns_what_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_if(monkeypatch, lambda _, resource: resource == (ResourceType.GROUP, "b"))
    world = group_world()
    client = world.client()
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 5)
    world.logstore.group_answer(listed("a", "b"))
    assert [each.group_id for each in client.answers[-1].groups] == ["b"]


# --- DeleteGroups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_by_their_own_coordinators(version: int) -> None:
    world = group_world(1, 2, -1)
    client = world.client()
    (first, other), (second, _), (leaderless, _) = by_partition(3, 2)
    client.ask(DeleteGroupsRequest([second, first, other, leaderless, first]), ApiKey.DELETE_GROUPS, version)
    assert world.logstores[1].group_request().groups_names == [first, other]
    busy = DeletableGroupResult(first, ErrorCode.NON_EMPTY_GROUP)
    world.logstores[1].group_answer(DeleteGroupsResponse(results=[busy]))
    world.logstores[2].group_answer(DeleteGroupsResponse(results=[DeletableGroupResult(second, 0)]))
    assert [(each.group_id, each.error_code) for each in client.answers[-1].results] == [
        (second, 0),
        (first, ErrorCode.NON_EMPTY_GROUP),
        (other, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (leaderless, ErrorCode.NOT_COORDINATOR),
    ]


def test_descriptions_and_deletions_have_to_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    deny_everything(monkeypatch)
    world = group_world()
    client = world.client()
    client.ask(DescribeGroupsRequest(["a"]), ApiKey.DESCRIBE_GROUPS, 6)
    client.ask(DeleteGroupsRequest(["a"]), ApiKey.DELETE_GROUPS, 2)
    assert [each.error_code for each in (*client.answers[0].groups, *client.answers[1].results)] == [DENIED, DENIED]
    assert not world.logstore.group_calls
