"""JoinGroup: who is let in, under which id, and what the join phase waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from tests.unit.logstore.coordinator.support import DELAY_MS, QUICK, World, join_request, subscription

EVERY_JOIN_VERSION = range(10)


def error_of(world: World, request_id: int) -> ErrorCode:
    return ErrorCode(world.joined(request_id).error_code)


class TestIds:
    def test_from_v4_on_a_new_member_joins_again_with_the_id_that_it_is_given(self) -> None:
        world = World()
        reported = world.body_of(world.join(version=4), JoinGroupResponse)
        assert reported.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert reported.member_id.startswith("client-")
        request = world.join(reported.member_id, version=4)
        world.advance(DELAY_MS)
        joined = world.joined(request)
        assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.NONE, 1, reported.member_id)

    @pytest.mark.parametrize("version", range(4))
    def test_before_it_joins_at_once(self, version: int) -> None:
        world = World()
        request = world.join(version=version)
        world.advance(DELAY_MS)
        assert world.joined(request).member_id == "client-1"

    def test_a_static_member_has_its_id_from_its_instance_and_joins_at_once(self) -> None:
        world = World()
        request = world.join(group_instance_id="instance")
        world.advance(DELAY_MS)
        assert world.joined(request).member_id == "instance-1"

    def test_an_id_that_was_never_assigned_is_unknown(self) -> None:
        world = World()
        assert error_of(world, world.join("nobody")) == ErrorCode.UNKNOWN_MEMBER_ID
        world.stable_group(1)
        assert error_of(world, world.join("nobody")) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_id_that_is_not_joined_with_is_forgotten_after_the_session_timeout(self) -> None:
        world = World()
        reported = world.body_of(world.join(session_timeout_ms=6_000), JoinGroupResponse)
        world.advance(5_999)
        assert error_of(world, world.join("x")) == ErrorCode.UNKNOWN_MEMBER_ID
        world.advance(1)
        assert error_of(world, world.join(reported.member_id)) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_join_phase_waits_for_who_has_an_id_and_has_not_joined(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        pending = world.body_of(world.join(), JoinGroupResponse)
        again = world.join(member.member_id)
        assert not world.is_over(world.wait_of(again))
        late = world.join(pending.member_id)
        assert world.joined(again).generation_id == world.joined(late).generation_id == 2

    def test_the_join_phase_ends_when_who_has_an_id_is_given_up(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.join(session_timeout_ms=6_000)
        again = world.join(member.member_id)
        world.advance(6_000)
        assert world.joined(again).generation_id == 2

    def test_who_has_an_id_and_says_it_is_static_is_unknown(self) -> None:
        world = World()
        reported = world.body_of(world.join(), JoinGroupResponse)
        request = world.join(reported.member_id, group_instance_id="instance")
        assert error_of(world, request) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_client_id_longer_than_a_member_id_may_be_is_cut(self) -> None:
        world = World()
        request = world.send(join_request(), 3, client_id="é" * 16_000)
        world.advance(DELAY_MS)
        joined = world.joined(request)
        assert joined.member_id == "é" * 1_000 + "-1"
        world.all_sync([joined])
        assert world.heartbeat(joined) == ErrorCode.NONE


class TestRefusals:
    @pytest.mark.parametrize("version", EVERY_JOIN_VERSION)
    def test_without_a_group_id(self, version: int) -> None:
        world = World()
        refused = world.body_of(world.join("member", version=version, group_id=""), JoinGroupResponse)
        assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_GROUP_ID, "member")
        assert refused.protocol_name == (None if version >= 7 else "")
        assert (refused.generation_id, refused.leader, refused.members) == (-1, "", [])

    @pytest.mark.parametrize("session_timeout_ms", [-1, 0, 5_999, 1_800_001])
    def test_a_session_timeout_out_of_bounds(self, session_timeout_ms: int) -> None:
        world = World()
        request = world.join(session_timeout_ms=session_timeout_ms)
        assert error_of(world, request) == ErrorCode.INVALID_SESSION_TIMEOUT

    def test_the_bounds_themselves_are_allowed(self) -> None:
        world = World()
        for session_timeout_ms in (6_000, 1_800_000):
            assert error_of(world, world.join(session_timeout_ms=session_timeout_ms)) == ErrorCode.MEMBER_ID_REQUIRED

    @pytest.mark.parametrize("changes", [{"protocol_type": ""}, {"protocols": []}])
    def test_no_protocol_in_an_empty_group_which_is_not_kept(self, changes: dict[str, Any]) -> None:
        world = World()
        assert error_of(world, world.join(**changes)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert world.log.next_offset == 0
        assert not list(world.groups)

    @pytest.mark.parametrize(
        "changes", [{"protocol_type": "connect"}, {"protocols": [JoinGroupRequestProtocol("other", b"")]}]
    )
    def test_a_protocol_that_the_others_do_not_have(self, changes: dict[str, Any]) -> None:
        world = World()
        world.stable_group(1)
        assert error_of(world, world.join(**changes)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert error_of(world, world.join()) == ErrorCode.MEMBER_ID_REQUIRED


class TestMaxSize:
    config = replace(QUICK, max_size=2)

    def test_a_stable_group_that_is_full_takes_only_its_own_members_in(self) -> None:
        world = World(self.config)
        leader, _ = world.stable_group(2)
        refused = world.body_of(world.join(), JoinGroupResponse)
        assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert world.answers[world.join(leader.member_id)].wait is not None

    def test_ids_given_out_do_not_count_but_only_so_many_get_in(self) -> None:
        world = World(self.config)
        ids = [world.body_of(world.join(), JoinGroupResponse).member_id for _ in range(3)]
        first, second, third = [world.join(each) for each in ids]
        assert error_of(world, third) == ErrorCode.GROUP_MAX_SIZE_REACHED
        world.advance(3 * DELAY_MS)
        assert world.joined(first).generation_id == world.joined(second).generation_id == 1

    def test_of_a_group_that_is_too_large_by_now_the_last_to_join_again_has_to_go(self) -> None:
        """The limit became smaller: a loaded group rebalances, and goes on with as many as it may have."""
        large = World()
        joined = large.stable_group(3)
        world = World(self.config, large.log)
        first, second, third = [world.join(each.member_id) for each in joined]
        assert error_of(world, third) == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert len(world.joined(first).members) == 2
        assert world.joined(second).generation_id == 2


class TestKnownMembers:
    def test_a_follower_without_a_change_gets_the_generation_again(self) -> None:
        world = World()
        _, follower = world.stable_group(2)
        again = world.body_of(world.join(follower.member_id), JoinGroupResponse)
        assert (again.generation_id, again.members, again.leader) == (1, [], follower.leader)
        assert world.heartbeat(follower) == ErrorCode.NONE

    def test_a_follower_with_other_metadata_rebalances(self) -> None:
        world = World()
        _, follower = world.stable_group(2)
        protocols = [JoinGroupRequestProtocol("range", subscription("other"))]
        assert world.answers[world.join(follower.member_id, protocols=protocols)].wait is not None
        assert world.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_the_leader_rebalances_even_without_a_change(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        world.join(leader.member_id)
        assert world.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_who_has_missed_its_answer_gets_it_again_while_others_sync(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        assert world.joined(world.join(leader.member_id)) == leader
        assert world.joined(world.join(follower.member_id)) == follower
        assert len(leader.members) == 2
        assert not follower.members

    def test_a_change_while_others_sync_restarts_the_rebalance(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        protocols = [JoinGroupRequestProtocol("range", subscription("other"))]
        world.join(leader.member_id, protocols=protocols)
        assert world.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert world.synced(world.sync(follower)).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_who_joins_twice_gets_one_answer_by_both(self) -> None:
        """The client has lost its connection, and asks again by another one."""
        world = World()
        leader, follower = world.stable_group(2)
        first, second = world.join(leader.member_id), world.join(leader.member_id)
        world.join(follower.member_id)
        assert world.joined(first) == world.joined(second)

    def test_v0_has_no_rebalance_timeout_but_that_of_the_session(self) -> None:
        world = World()
        first = world.join(version=0, session_timeout_ms=6_000)
        world.advance(DELAY_MS)
        member = world.joined(first)
        second = world.join(version=0, session_timeout_ms=6_000)
        for _ in range(3):
            world.advance(1_999)
            assert world.heartbeat(member) == ErrorCode.REBALANCE_IN_PROGRESS
        world.advance(3)
        assert world.joined(second).generation_id == 2
        assert world.heartbeat(member) == ErrorCode.UNKNOWN_MEMBER_ID


class TestProtocols:
    def protocols(self, *names: str) -> list[JoinGroupRequestProtocol]:
        return [JoinGroupRequestProtocol(name, name.encode()) for name in names]

    def generation(self, *preferences: tuple[str, ...]) -> JoinGroupResponse:
        world = World()
        requests = [world.first_join(protocols=self.protocols(*names))[1] for names in preferences]
        world.advance(5 * DELAY_MS)
        joined = [world.joined(each) for each in requests]
        assert len({each.protocol_name for each in joined}) == 1
        return next(each for each in joined if each.leader == each.member_id)

    def test_what_all_support(self) -> None:
        assert self.generation(("a", "b"), ("b", "c")).protocol_name == "b"

    def test_what_most_like_best(self) -> None:
        assert self.generation(("a", "b"), ("b", "a"), ("b", "a")).protocol_name == "b"

    def test_a_favourite_that_not_all_support_counts_for_the_next(self) -> None:
        assert self.generation(("x", "a", "b"), ("y", "b", "a"), ("z", "b", "a")).protocol_name == "b"

    def test_only_the_leader_gets_the_members_with_their_metadata(self) -> None:
        leader = self.generation(("a", "b"), ("b", "c"))
        assert [each.metadata for each in leader.members] == [b"b", b"b"]
        assert leader.protocol_type == "consumer"

    @pytest.mark.parametrize("version", EVERY_JOIN_VERSION)
    def test_every_version_returns_the_protocol(self, version: int) -> None:
        world = World()
        if version < 4:
            request = world.join(version=version)
        else:
            _, request = world.first_join(version=version)
        world.advance(DELAY_MS)
        joined = world.joined(request)
        assert joined.protocol_name == "range"
        assert joined.protocol_type == ("consumer" if version >= 7 else None)
        assert [each.member_id for each in joined.members] == [joined.member_id]


class TestNewMembers:
    def test_one_that_vanishes_while_it_waits_is_given_up_after_a_while(self) -> None:
        world = World(GroupConfig(initial_rebalance_delay_ms=DELAY_MS, new_member_join_timeout_ms=20_000))
        (member,) = world.stable_group(1, rebalance_timeout_ms=1_000_000)
        _, request = world.first_join()
        for _ in range(4):
            world.advance(4_999)
            world.heartbeat(member)
        assert not world.is_over(world.wait_of(request))
        world.advance(5_000)
        assert error_of(world, request) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_one_that_has_joined_a_generation_waits_as_long_as_it_takes(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, rebalance_timeout_ms=40_000)
        request = world.join(follower.member_id, rebalance_timeout_ms=40_000, protocols=join_request().protocols)
        assert world.joined(request).generation_id == 1
        request = world.join(leader.member_id, rebalance_timeout_ms=40_000)
        for _ in range(4):
            world.advance(9_000)
            assert world.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
        assert not world.is_over(world.wait_of(request))
        world.advance(4_000)
        assert world.joined(request).generation_id == 2
