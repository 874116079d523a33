"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.logstore.coordinator.support import World, subscription


def describe(world: World, *names: str, version: int = 6) -> list[DescribedGroup]:
    return world.ask(DescribeGroupsRequest(list(names)), version, DescribeGroupsResponse).groups


def listed(world: World, *, states: tuple[str, ...] = (), types: tuple[str, ...] = (), version: int = 5) -> list[str]:
    reported = world.ask(ListGroupsRequest(list(states), list(types)), version, ListGroupsResponse)
    assert reported.error_code == ErrorCode.NONE
    return [each.group_id for each in reported.groups]


def delete(world: World, *names: str, version: int = 2) -> list[ErrorCode]:
    reported = world.ask(DeleteGroupsRequest(list(names)), version, DeleteGroupsResponse)
    assert [each.group_id for each in reported.results] == list(names)
    return [ErrorCode(each.error_code) for each in reported.results]


class TestDescribe:
    @pytest.mark.parametrize("version", range(7))
    def test_a_stable_group_in_every_version(self, version: int) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        (reported,) = describe(world, "group", version=version)
        assert (reported.error_code, reported.group_state) == (ErrorCode.NONE, "Stable")
        assert (reported.protocol_type, reported.protocol_data) == ("consumer", "range")
        assert [(each.member_id, each.client_id, each.client_host) for each in reported.members] == [
            (leader.member_id, "client", "/10.0.0.7"),
            (follower.member_id, "client", "/10.0.0.7"),
        ]
        assert {each.member_metadata for each in reported.members} == {subscription("topic")}
        assert reported.members[1].member_assignment == f"share of {follower.member_id}".encode()

    def test_metadata_and_protocol_are_returned_of_a_stable_group_only(self) -> None:
        world = World()
        leader, _ = world.stable_group(2)
        world.join(leader.member_id)
        (reported,) = describe(world, "group")
        assert (reported.group_state, reported.protocol_data) == ("PreparingRebalance", "")
        assert {each.member_metadata for each in reported.members} == {b""}
        assert reported.members[0].member_assignment == f"share of {leader.member_id}".encode()

    def test_a_group_that_others_sync_in(self) -> None:
        world = World()
        world.joined_group(2)
        assert describe(world, "group")[0].group_state == "CompletingRebalance"

    def test_static_members_have_their_instances(self) -> None:
        world = World()
        world.stable_group(1, instances=True)
        assert describe(world, "group")[0].members[0].group_instance_id == "instance 0"
        assert describe(world, "group", version=3)[0].members[0].group_instance_id is None

    def test_a_simple_group_is_empty(self) -> None:
        world = World()
        world.commit_offset(5)
        (reported,) = describe(world, "group")
        assert (reported.group_state, reported.protocol_type, reported.members) == ("Empty", "", [])

    def test_a_group_that_is_not_there_is_dead_and_from_v6_on_an_error(self) -> None:
        world = World()
        for name in ("none", "", "x" * 32_767):
            (reported,) = describe(world, name, version=5)
            assert (reported.error_code, reported.error_message, reported.group_state) == (ErrorCode.NONE, None, "Dead")
            (reported,) = describe(world, name)
            assert (reported.error_code, reported.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
            assert reported.error_message == f"Group {name[:249]} not found."


class TestList:
    @pytest.fixture
    def world(self) -> World:
        world = World()
        world.stable_group(1)
        world.commit_offset(5, group_id="simple")
        return world

    @pytest.mark.parametrize("version", range(6))
    def test_in_every_version(self, world: World, version: int) -> None:
        reported = world.ask(ListGroupsRequest(), version, ListGroupsResponse).groups
        has_state, has_type = version >= 4, version >= 5
        assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in reported] == [
            ("group", "consumer", "Stable" * has_state, "classic" * has_type),
            ("simple", "", "Empty" * has_state, "classic" * has_type),
        ]

    def test_filters(self, world: World) -> None:
        assert listed(world, states=("stable",)) == ["group"]
        assert listed(world, states=(" EMPTY ", "Dead")) == ["simple"]
        assert listed(world, states=("Nonsense",)) == []
        assert listed(world, types=("Classic",)) == ["group", "simple"]
        assert listed(world, types=("consumer", "share", "nonsense")) == []
        assert listed(world, states=("Stable",), types=("consumer", "classic")) == ["group"]

    def test_while_a_partition_is_loaded_no_listing_is_said_to_be_complete(self, world: World) -> None:
        world.lose()
        world.lead(loads=False)
        assert world.error_of(world.send(ListGroupsRequest(), 5)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        world.load()
        assert listed(world) == ["group", "simple"]

    def test_without_a_partition_there_are_no_groups(self, world: World) -> None:
        world.lose()
        assert listed(world) == []

    def test_waits_for_what_it_tells(self, world: World) -> None:
        world.log.commits_at_once = False
        world.commit_offset(5, group_id="new")
        request = world.send(ListGroupsRequest(), 5)
        assert not world.is_answered(request)
        world.commit()
        assert len(world.body_of(request, ListGroupsResponse).groups) == 3

    def test_whose_partition_is_lost_meanwhile(self, world: World) -> None:
        world.log.commits_at_once = False
        world.commit_offset(5, group_id="new")
        request = world.send(ListGroupsRequest(), 5)
        world.lose()
        assert world.error_of(request) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def test_nonsense(self, world: World) -> None:
        assert world.error_of(world.send_body(16, 5, b"\xff")) == ErrorCode.INVALID_REQUEST


class TestDelete:
    @pytest.mark.parametrize("version", range(3))
    def test_an_empty_group_with_all_that_it_has_committed(self, version: int) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.commit_offset(5, generation_id=1, member_id=member.member_id)
        world.leave(MemberIdentity(member.member_id))
        assert delete(world, "group", version=version) == [ErrorCode.NONE]
        assert (listed(world), world.fetch_offset()) == ([], -1)
        world.reload()
        assert (listed(world), world.fetch_offset()) == ([], -1)

    def test_each_with_an_error_of_its_own(self) -> None:
        world = World()
        world.stable_group(1)
        world.commit_offset(5, group_id="simple")
        reported = delete(world, "group", "simple", "none", "simple", "")
        not_found = ErrorCode.GROUP_ID_NOT_FOUND
        assert reported == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE, not_found, not_found, not_found]

    def test_a_log_that_refuses(self) -> None:
        world = World()
        world.commit_offset(5)
        world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert delete(world, "group") == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert world.fetch_offset() == 5

    def test_who_was_given_an_id_in_it_is_unknown(self) -> None:
        world = World()
        world.commit_offset(5)
        reported = world.body_of(world.join(), JoinGroupResponse)
        assert delete(world, "group") == [ErrorCode.NONE]
        assert world.joined(world.join(reported.member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        world.advance(20_000)
        assert listed(world) == []
