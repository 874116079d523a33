"""The join and sync phases: what they wait for, for how long, and the answers at their end."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.records import GroupMetadataValue
from tests.unit.logstore.coordinator.support import DELAY_MS, FakeLog, World


def stored_groups(log: FakeLog) -> list[GroupMetadataValue]:
    return [value for _, value in log.entries() if isinstance(value, GroupMetadataValue)]


class TestFirstRebalance:
    config = GroupConfig(initial_rebalance_delay_ms=3_000)

    def test_waits_for_others_for_a_while(self) -> None:
        world = World(self.config)
        _, request = world.first_join()
        world.advance(2_999)
        assert not world.is_over(world.wait_of(request))
        world.advance(1)
        assert world.joined(request).generation_id == 1

    def test_waits_again_when_somebody_has_come_meanwhile(self) -> None:
        world = World(self.config)
        _, first = world.first_join()
        world.advance(2_000)
        _, second = world.first_join()
        world.advance(1_000)
        assert not world.is_over(world.wait_of(first))
        world.advance(3_000)
        assert len(world.joined(first).members) == 2
        assert world.joined(second).generation_id == 1

    def test_but_no_longer_than_the_rebalance_timeout(self) -> None:
        world = World(self.config)
        requests = []
        for _ in range(7):
            requests.append(world.first_join(rebalance_timeout_ms=7_000)[1])
            world.advance(1_000)
        assert {world.joined(each).generation_id for each in requests} == {1}
        assert world.now_ms == 7_000

    def test_with_all_gone_leaves_an_empty_generation(self) -> None:
        world = World(self.config)
        member_id, request = world.first_join()
        assert world.leave(MemberIdentity(member_id)) == [ErrorCode.NONE]
        assert world.joined(request).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        world.advance(3_000)
        assert stored_groups(world.log)[-1] == GroupMetadataValue("consumer", 1, None, None, world.wall_ms, [])


class TestJoinPhase:
    def test_ends_when_all_have_joined(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        _, new = world.first_join()
        again = world.join(leader.member_id)
        assert not world.is_over(world.wait_of(new))
        world.join(follower.member_id)
        assert len(world.joined(again).members) == 3
        assert world.joined(new).generation_id == 2

    def test_ends_without_those_who_take_too_long(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, rebalance_timeout_ms=8_000)
        request = world.join(leader.member_id, rebalance_timeout_ms=8_000)
        world.advance(4_000)
        world.heartbeat(follower)
        world.advance(3_999)
        assert not world.is_over(world.wait_of(request))
        world.advance(1)
        assert [each.member_id for each in world.joined(request).members] == [leader.member_id]
        assert world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_lasts_as_long_as_the_most_patient_member_wants(self) -> None:
        world = World()
        _, first = world.first_join(rebalance_timeout_ms=8_000)
        _, second = world.first_join(rebalance_timeout_ms=20_000)
        world.advance(3 * DELAY_MS)
        leader, follower = world.joined(first), world.joined(second)
        world.all_sync([leader, follower])
        request = world.join(leader.member_id, rebalance_timeout_ms=8_000)
        world.advance(9_000)
        world.heartbeat(follower)
        assert not world.is_over(world.wait_of(request))

    def test_elects_another_leader_when_the_old_one_does_not_come(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, rebalance_timeout_ms=8_000)
        _, new = world.first_join(rebalance_timeout_ms=8_000)
        request = world.join(follower.member_id, rebalance_timeout_ms=8_000)
        world.advance(8_000)
        joined = world.joined(request)
        assert joined.leader in (follower.member_id, world.joined(new).member_id)
        assert leader.member_id not in {each.member_id for each in joined.members}

    def test_of_endless_patience_ends_with_the_session_of_who_is_gone(self) -> None:
        world = World()
        leader, follower = world.stable_group(2, rebalance_timeout_ms=0x7FFF_FFFF)
        request = world.join(leader.member_id, rebalance_timeout_ms=0x7FFF_FFFF)
        world.advance(10_000)
        assert world.joined(request).generation_id == 2
        assert world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("rebalance_timeout_ms", [0, -1, -0x8000_0000])
    def test_without_patience_there_is_no_time_to_sync_in(self, rebalance_timeout_ms: int) -> None:
        world = World()
        leader, follower = world.joined_group(2, rebalance_timeout_ms=rebalance_timeout_ms)
        world.advance(1)
        assert world.heartbeat(leader) == world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
        _, request = world.first_join()
        world.advance(DELAY_MS)
        assert world.joined(request).error_code == ErrorCode.NONE


class TestSyncPhase:
    def test_tells_everybody_its_share_when_the_leader_has_said_so(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        assert not world.is_over(world.wait_of(waiting))
        reported = world.body_of(world.sync(leader, {follower.member_id: b"his"}), SyncGroupResponse)
        assert (reported.error_code, reported.assignment) == (ErrorCode.NONE, b"")
        assert (reported.protocol_type, reported.protocol_name) == ("consumer", "range")
        assert world.synced(waiting).assignment == b"his"

    def test_nothing_is_answered_before_it_is_committed(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        world.log.commits_at_once = False
        sent = world.sync(leader, {follower.member_id: b"his"})
        assert not world.is_answered(sent)
        assert not world.is_over(world.wait_of(waiting))
        world.commit()
        assert world.body_of(sent, SyncGroupResponse).error_code == ErrorCode.NONE
        assert world.synced(waiting).assignment == b"his"

    def test_stores_what_it_tells(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        world.sync(leader, {leader.member_id: b"hers", follower.member_id: b"his", "stranger": b"nobody's"})
        stored = stored_groups(world.log)[-1]
        assert (stored.generation, stored.leader, stored.protocol) == (1, leader.member_id, "range")
        shares = {each.member_id: each.assignment for each in stored.members}
        assert shares == {leader.member_id: b"hers", follower.member_id: b"his"}

    def test_a_leader_that_repeats_itself_with_other_words_changes_nothing(self) -> None:
        """Answers must equal what is stored, whichever of its requests comes first."""
        world = World()
        leader, follower = world.joined_group(2)
        world.log.commits_at_once = False
        first = world.sync(leader, {follower.member_id: b"first"})
        second = world.sync(leader, {follower.member_id: b"second"})
        world.commit()
        assert world.body_of(first, SyncGroupResponse) == world.body_of(second, SyncGroupResponse)
        assert world.synced(world.sync(follower)).assignment == b"first"
        world.reload()
        assert world.synced(world.sync(follower)).assignment == b"first"

    def test_who_syncs_late_is_answered_at_once(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        world.sync(leader, {follower.member_id: b"his"})
        assert world.body_of(world.sync(follower), SyncGroupResponse).assignment == b"his"

    def test_a_leader_that_does_not_sync_is_taken_for_gone(self) -> None:
        world = World()
        leader, follower = world.joined_group(2, rebalance_timeout_ms=8_000)
        waiting = world.sync(follower)
        world.advance(4_000)
        world.heartbeat(leader)
        world.advance(4_000)
        assert world.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert world.heartbeat(leader) == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.joined(world.join(follower.member_id)).leader == follower.member_id

    def test_a_follower_that_does_not_sync_is_taken_for_gone_though_the_group_is_stable(self) -> None:
        world = World()
        leader, follower = world.joined_group(2, rebalance_timeout_ms=8_000)
        world.sync(leader, {})
        world.advance(4_000)
        world.heartbeat(follower)
        world.heartbeat(leader)
        world.advance(4_000)
        assert world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_who_waits_for_the_leader_need_not_say_that_it_lives(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        for _ in range(5):
            world.advance(9_000)
            world.heartbeat(leader)
        world.sync(leader, {})
        assert world.synced(waiting).error_code == ErrorCode.NONE
        world.advance(9_999)
        assert world.heartbeat(follower) == ErrorCode.NONE

    def test_a_rebalance_before_it_is_committed_makes_it_void(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        world.log.commits_at_once = False
        sent = world.sync(leader, {follower.member_id: b"his"})
        waiting = world.sync(follower)
        _, new = world.first_join()
        world.commit()
        assert world.body_of(sent, SyncGroupResponse).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert world.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        world.join(leader.member_id)
        world.join(follower.member_id)
        assert world.joined(new).generation_id == 2

    def test_a_share_that_is_collected_in_a_later_generation_is_not_sent_any_more(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        world.sync(leader, {follower.member_id: b"his"})
        world.join(leader.member_id)
        world.join(follower.member_id)
        assert world.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_share_that_is_collected_while_all_join_again_still_is_theirs(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        world.sync(leader, {follower.member_id: b"his"})
        world.join(leader.member_id)
        assert world.synced(waiting).assignment == b"his"

    def test_assignments_larger_than_a_batch(self) -> None:
        world = World(log=FakeLog(bytes_max=10_000))
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        reported = world.synced(world.sync(leader, {follower.member_id: bytes(10_000)}))
        assert reported.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert world.synced(waiting).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert world.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS

    @pytest.mark.parametrize(
        ("refusal", "reported"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        ],
    )
    def test_a_log_that_refuses(self, refusal: ErrorCode, reported: ErrorCode) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        world.log.refusal = refusal
        assert world.synced(world.sync(leader, {})).error_code == reported
        assert world.synced(waiting).error_code == reported
        world.log.refusal = ErrorCode.NONE
        requests = [world.join(each.member_id) for each in (leader, follower)]
        assert {world.joined(each).generation_id for each in requests} == {2}


class TestSyncRefusals:
    def error(self, world: World, joined: JoinGroupResponse, **changes: Any) -> ErrorCode:
        return ErrorCode(world.synced(world.sync(joined, **changes)).error_code)

    def test_each_has_its_error(self) -> None:
        world = World()
        (member,) = world.joined_group(1)
        for changes, error in (
            ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
            ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
            ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"group_instance_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            assert self.error(world, member, **changes) == error
        assert self.error(world, member, protocol_type="consumer", protocol_name="range") == ErrorCode.NONE

    def test_while_all_join_again(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        world.join(leader.member_id)
        assert self.error(world, follower) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_of_an_empty_group(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.leave(MemberIdentity(member.member_id))
        assert self.error(world, member) == ErrorCode.UNKNOWN_MEMBER_ID
