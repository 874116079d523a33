"""Heartbeat, LeaveGroup and sessions: which members live on, and what becomes of a group when one does not."""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tests.unit.logstore.coordinator.support import World


class TestHeartbeat:
    def test_each_refusal_has_its_error(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        for changes, error in (
            ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
            ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
            ({}, ErrorCode.NONE),
        ):
            assert world.heartbeat(member, **changes) == error

    @pytest.mark.parametrize("version", range(5))
    def test_in_every_version(self, version: int) -> None:
        world = World()
        (member,) = world.stable_group(1)
        reported = world.ask(HeartbeatRequest("group", 1, member.member_id), version, HeartbeatResponse)
        assert reported.error_code == ErrorCode.NONE

    def test_counts_while_others_sync(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        assert world.heartbeat(leader) == world.heartbeat(follower) == ErrorCode.NONE

    def test_of_an_empty_group_is_unknown(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.leave(MemberIdentity(member.member_id))
        assert world.heartbeat(member) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_does_not_wait_for_the_log(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.log.commits_at_once = False
        world.commit_offset(5, generation_id=1, member_id=member.member_id)
        assert world.heartbeat(member) == ErrorCode.NONE


class TestSessions:
    def test_a_member_that_says_nothing_is_taken_for_gone_and_the_others_join_again(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        world.heartbeat(follower)
        world.advance(9_999)
        assert world.heartbeat(leader) == ErrorCode.NONE
        world.advance(1)
        assert world.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
        assert world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
        assert len(world.joined(world.join(leader.member_id)).members) == 1

    def test_a_commit_says_that_it_lives(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.advance(9_999)
        world.commit_offset(5, generation_id=1, member_id=member.member_id)
        world.advance(9_999)
        assert world.heartbeat(member) == ErrorCode.NONE

    def test_a_refused_heartbeat_does_not(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.advance(9_999)
        assert world.heartbeat(member, generation_id=0) == ErrorCode.ILLEGAL_GENERATION
        world.advance(1)
        assert world.heartbeat(member) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_timeout_of_the_last_join_counts(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        again = world.joined(world.join(member.member_id, session_timeout_ms=6_000))
        world.all_sync([again])
        world.advance(6_000)
        assert world.heartbeat(again) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_with_the_last_one_the_group_is_empty_and_that_is_stored(self) -> None:
        world = World()
        world.stable_group(1)
        world.advance(10_000)
        _, value = world.log.entries()[-1]
        assert value is not None
        assert (value.generation, value.members, value.leader, value.protocol) == (2, [], None, None)  # type: ignore[union-attr]


class TestLeave:
    def test_by_member_id(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        assert world.leave(MemberIdentity(follower.member_id)) == [ErrorCode.NONE]
        assert world.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
        assert world.leave(MemberIdentity(follower.member_id)) == [ErrorCode.UNKNOWN_MEMBER_ID]

    def test_several_each_with_an_error_of_its_own(self) -> None:
        world = World()
        first, second, third = world.stable_group(3)
        reported = world.leave(
            MemberIdentity(first.member_id),
            MemberIdentity("nobody"),
            MemberIdentity(second.member_id),
            MemberIdentity(second.member_id),
            MemberIdentity("", None),
        )
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert reported == [ErrorCode.NONE, unknown, ErrorCode.NONE, unknown, unknown]
        assert world.heartbeat(third) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_an_unknown_member_does_not_disturb_the_group(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        assert world.leave(MemberIdentity("nobody")) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert world.heartbeat(member) == ErrorCode.NONE

    def test_of_a_group_that_is_not_there_or_has_no_name(self) -> None:
        world = World()
        assert world.leave(MemberIdentity("nobody")) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert world.leave(MemberIdentity("nobody"), group_id="") == [ErrorCode.INVALID_GROUP_ID]

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_before_v3_one_member_whose_error_is_that_of_all(self, version: int) -> None:
        world = World()
        (member,) = world.stable_group(1)
        request = LeaveGroupRequest("group", member.member_id)
        for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            reported = world.ask(request, version, LeaveGroupResponse)
            assert (reported.error_code, reported.members) == (expected, [])

    def test_who_waits_for_its_join_is_answered(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        waiting = world.join(leader.member_id)
        world.leave(MemberIdentity(leader.member_id))
        assert world.joined(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.joined(world.join(follower.member_id)).leader == follower.member_id

    def test_the_last_one_that_others_have_waited_for_ends_the_join_phase(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        waiting = world.join(leader.member_id)
        world.leave(MemberIdentity(follower.member_id))
        assert world.joined(waiting).generation_id == 2

    def test_in_the_sync_phase_all_join_again(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        world.leave(MemberIdentity(leader.member_id))
        assert world.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert world.joined(world.join(follower.member_id)).generation_id == 2

    def test_who_was_given_an_id_and_has_not_joined_leaves_nothing_behind(self) -> None:
        world = World()
        reported = world.body_of(world.join(), JoinGroupResponse)
        assert world.leave(MemberIdentity(reported.member_id)) == [ErrorCode.NONE]
        assert not list(world.groups)
        assert world.joined(world.join(reported.member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
