"""Static members (KIP-345): one that comes back takes its place, its predecessor is fenced, and no other member is
disturbed.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupResponse
from tests.unit.logstore.coordinator.support import World


def instance_of(joined: JoinGroupResponse) -> str:
    return joined.member_id.rsplit("-", 1)[0]


def back(world: World, joined: JoinGroupResponse, *, version: int = 9, **changes: Any) -> int:
    """The static member has lost its id, and joins as if it were new."""
    return world.join(version=version, group_instance_id=instance_of(joined), **changes)


class TestStable:
    def test_a_follower_comes_back_without_a_rebalance(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, instances=True)
        again = world.joined(back(world, follower))
        assert again.member_id not in ("", follower.member_id)
        assert (again.generation_id, again.leader, again.members) == (1, leader.member_id, [])
        assert not again.skip_assignment
        assert world.heartbeat(leader) == ErrorCode.NONE
        share = world.synced(world.sync(again))
        assert share.assignment == f"share of {follower.member_id}".encode()

    def test_the_leader_comes_back_and_is_asked_to_assign_nothing(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, instances=True)
        again = world.joined(back(world, leader))
        assert again.skip_assignment
        assert again.leader == again.member_id
        assert {each.member_id for each in again.members} == {again.member_id, follower.member_id}
        assert world.heartbeat(follower) == ErrorCode.NONE

    @pytest.mark.parametrize("version", [5, 6, 7, 8])
    def test_before_v9_the_leader_gets_the_id_of_the_leader_that_it_was(self, version: int) -> None:
        """Otherwise it would compute new assignments without a rebalance."""
        world = World()
        leader, _ = world.stable_group(2, instances=True)
        again = world.joined(back(world, leader, version=version))
        assert again.leader == leader.member_id != again.member_id
        assert again.members == []

    def test_the_old_id_is_fenced_by_instance_and_unknown_without(self) -> None:
        world = World()
        _, follower = world.stable_group(2, instances=True)
        back(world, follower)
        fenced: dict[str, Any] = {"group_instance_id": instance_of(follower)}
        assert world.heartbeat(follower, **fenced) == ErrorCode.FENCED_INSTANCE_ID
        assert world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.synced(world.sync(follower, **fenced)).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert world.joined(world.join(follower.member_id, **fenced)).error_code == ErrorCode.FENCED_INSTANCE_ID
        identity = MemberIdentity(follower.member_id, instance_of(follower))
        assert world.leave(identity) == [ErrorCode.FENCED_INSTANCE_ID]

    def test_other_protocols_rebalance_if_they_change_what_is_selected(self) -> None:
        world = World()
        both = [JoinGroupRequestProtocol("a", b"a"), JoinGroupRequestProtocol("b", b"b")]
        leader, follower = world.stable_group(2, instances=True, protocols=both)
        request = back(world, follower, protocols=both[1:])
        assert world.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
        world.join(leader.member_id, group_instance_id=instance_of(leader), protocols=both)
        assert world.joined(request).protocol_name == "b"

    def test_it_is_stored_before_it_is_answered(self) -> None:
        world = World()
        _, follower = world.stable_group(2, instances=True)
        world.log.commits_at_once = False
        request = back(world, follower)
        assert not world.is_answered(request)
        world.commit()
        again = world.body_of(request, JoinGroupResponse)
        world.reload()
        assert world.heartbeat(again) == ErrorCode.NONE
        assert world.synced(world.sync(again)).assignment == f"share of {follower.member_id}".encode()

    def test_when_it_cannot_be_stored_no_member_is_fenced(self) -> None:
        world = World()
        _, follower = world.stable_group(2, instances=True)
        world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        refused = world.joined(back(world, follower))
        assert (refused.error_code, refused.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
        assert world.heartbeat(follower, group_instance_id=instance_of(follower)) == ErrorCode.NONE

    def test_a_rebalance_that_begins_before_it_is_stored_answers(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, instances=True)
        world.log.commits_at_once = False
        request = back(world, follower)
        world.join(leader.member_id, group_instance_id=instance_of(leader))
        assert not world.is_answered(request)
        world.commit()
        assert world.body_of(request, JoinGroupResponse).generation_id == 2

    def test_who_waits_longer_for_the_log_than_its_session_expires_after_all(self) -> None:
        """While it waits it need not say that it lives; afterwards it has to."""
        world = World()
        (member,) = world.stable_group(1, instances=True)
        world.log.commits_at_once = False
        request = back(world, member)
        world.advance(15_000)
        world.commit()
        again = world.body_of(request, JoinGroupResponse)
        world.advance(9_999)
        assert world.heartbeat(again) == ErrorCode.NONE
        world.advance(10_000)
        assert world.heartbeat(again) == ErrorCode.UNKNOWN_MEMBER_ID


class TestRebalancing:
    def test_in_the_join_phase_the_new_id_takes_the_place_and_who_waits_by_the_old_one_is_fenced(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, instances=True)
        waiting = world.join(leader.member_id, group_instance_id=instance_of(leader))
        request = back(world, leader)
        assert world.joined(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
        world.join(follower.member_id, group_instance_id=instance_of(follower))
        assert world.joined(request).generation_id == 2

    def test_in_the_sync_phase_all_join_again(self) -> None:
        """The leader may be assigning to the old id."""
        world = World()
        leader, follower = world.joined_group(2, instances=True)
        waiting = world.sync(follower, group_instance_id=instance_of(follower))
        request = back(world, follower)
        assert world.synced(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert world.synced(world.sync(leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        world.join(leader.member_id, group_instance_id=instance_of(leader))
        assert world.joined(request).generation_id == 2

    def test_who_does_not_join_again_keeps_its_place_until_its_session_is_over(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, instances=True, rebalance_timeout_ms=2_000)
        request = world.join(leader.member_id, group_instance_id=instance_of(leader), rebalance_timeout_ms=2_000)
        world.advance(2_000)
        reported = world.joined(request)
        assert {each.group_instance_id for each in reported.members} == {instance_of(leader), instance_of(follower)}
        assert reported.generation_id == 2

    def test_a_group_of_absent_members_waits_for_their_sessions_however_short_their_rebalance(self) -> None:
        world = World()
        joined = world.stable_group(2, instances=True, rebalance_timeout_ms=0)
        world.leave(MemberIdentity("", instance_of(joined[0])))
        turns = 0
        while world.coordinator.next_deadline_ms() is not None and turns < 30 and world.now_ms < 60_000:
            world.advance(1_000)
            turns += 1
        assert world.heartbeat(joined[1]) == ErrorCode.UNKNOWN_MEMBER_ID


class TestByInstance:
    def test_two_of_one_instance_never_are_members_at_once(self) -> None:
        world = World()
        first = world.join(group_instance_id="instance")
        second = world.join(group_instance_id="instance")
        world.advance(1_000)
        assert world.joined(first).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert [each.member_id for each in world.joined(second).members] == [world.joined(second).member_id]

    def test_an_instance_without_a_member_is_unknown(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        assert world.heartbeat(member, group_instance_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID

    def test_before_v3_a_heartbeat_has_no_instance(self) -> None:
        world = World()
        (member,) = world.stable_group(1, instances=True)
        reported = world.ask(HeartbeatRequest("group", 1, member.member_id), 2, HeartbeatResponse)
        assert reported.error_code == ErrorCode.NONE

    def test_a_static_member_leaves_by_its_instance_alone(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, instances=True)
        assert world.leave(MemberIdentity("", instance_of(follower))) == [ErrorCode.NONE]
        assert world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
        assert world.leave(MemberIdentity("", "stranger")) == [ErrorCode.UNKNOWN_MEMBER_ID]

    def test_instances_outlive_a_takeover(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, instances=True)
        world.reload()
        again = world.joined(back(world, follower))
        assert (again.generation_id, again.error_code) == (1, ErrorCode.NONE)
        assert world.heartbeat(leader) == ErrorCode.NONE
        synced = world.body_of(world.sync(again), SyncGroupResponse)
        assert synced.assignment == f"share of {follower.member_id}".encode()
