"""What becomes of all waiting requests when the log refuses, fails or goes to another leader; and steps, by which they
are woken.
"""

from __future__ import annotations

import pytest

from barnabas.channel.messages import GroupCollect, GroupWait
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupResponse
from tests.unit.logstore.coordinator.support import PARTITION, STREAM, World, commit_request, join_request


class TestLostLeadership:
    def test_who_waits_for_the_log_is_answered(self) -> None:
        world = World()
        leader, _ = world.joined_group(2)
        world.log.commits_at_once = False
        sent = [world.commit_offset(5, group_id="other"), world.sync(leader, {})]
        assert not any(map(world.is_answered, sent))
        world.lose()
        assert {world.error_of(each) for each in sent} == {ErrorCode.NOT_COORDINATOR}

    def test_who_waits_for_others_is_woken(self) -> None:
        world = World()
        leader, _ = world.stable_group(2)
        wait = world.wait_of(world.join(leader.member_id))
        assert not world.is_over(wait)
        world.lose()
        assert world.is_over(wait)
        assert world.error_of(world.send_collect(wait, ApiKey.JOIN_GROUP, 9)) == ErrorCode.NOT_COORDINATOR
        world.lead()
        assert world.is_over(wait)
        assert world.error_of(world.send_collect(wait, ApiKey.JOIN_GROUP, 9)) == ErrorCode.NOT_COORDINATOR

    def test_everything_is_for_somebody_else_to_answer(self) -> None:
        world = World()
        world.lose()
        assert world.error_of(world.join()) == ErrorCode.NOT_COORDINATOR
        assert world.error_of(world.commit_offset(5)) == ErrorCode.NOT_COORDINATOR

    def test_an_old_epoch_has_nothing_to_say(self) -> None:
        world = World()
        world.commit_offset(5)
        world.lead()
        world.coordinator.on_lost(PARTITION, world.epoch - 1, world.now_ms)
        world.coordinator.on_committed(PARTITION, world.epoch - 1, 1_000, world.now_ms)
        world.coordinator.on_read(PARTITION, world.epoch - 1, memoryview(b""), 0, world.now_ms)
        assert world.fetch_offset() == 5

    def test_a_new_epoch_without_a_word_about_the_old_one(self) -> None:
        world = World()
        world.log.commits_at_once = False
        request = world.commit_offset(5)
        world.lead(loads=False)
        world.turn()
        assert world.error_of(request) == ErrorCode.NOT_COORDINATOR

    def test_deadlines_of_what_is_lost_do_nothing(self) -> None:
        world = World()
        world.stable_group(3)
        world.join(session_timeout_ms=6_000)
        world.lose()
        assert len(world.deadlines) == 0
        world.advance(60_000)

    def test_after_a_takeover_everybody_has_a_whole_session(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        world.advance(9_000)
        world.reload()
        world.advance(9_000)
        assert world.heartbeat(leader) == world.heartbeat(follower) == ErrorCode.NONE
        world.advance(1_000)
        world.heartbeat(leader)
        world.advance(9_000)
        assert world.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


class TestFailedAppends:
    """`check_append` has allowed it, and then it fails, under the same epoch: the state is loaded again."""

    def test_what_was_reported_of_it_is_void(self) -> None:
        world = World()
        world.commit_offset(5)
        world.log.fails_appends = True
        request = world.commit_offset(6)
        assert world.error_of(request) == ErrorCode.NOT_COORDINATOR
        world.log.fails_appends = False
        world.load()
        assert world.fetch_offset() == 5

    def test_members_go_on_with_what_is_stored(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        waiting = world.join(leader.member_id)
        world.log.fails_appends = True
        world.commit_offset(6, generation_id=1, member_id=follower.member_id)
        world.log.fails_appends = False
        wait = world.wait_of(waiting)
        assert world.is_over(wait), "steps never start over under one epoch"
        collect = world.send_collect(wait, ApiKey.JOIN_GROUP, 9)
        assert world.error_of(collect) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        world.load()
        assert world.error_of(world.send_collect(wait, ApiKey.JOIN_GROUP, 9)) == ErrorCode.NOT_COORDINATOR
        assert world.heartbeat(leader) == world.heartbeat(follower) == ErrorCode.NONE

    def test_of_a_topic_that_is_deleted_is_not_forgotten(self) -> None:
        world = World()
        world.commit_offset(5)
        world.delete_topics("topic")
        world.log.fails_appends = True
        world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        world.turn()
        world.log.refusal = ErrorCode.NONE
        world.coordinator.on_leadership(PARTITION, world.epoch, world.log, world.now_ms)
        world.log.fails_appends = False
        world.load()
        assert world.fetch_offset() == -1


class TestSteps:
    def test_who_waits_in_a_group_that_is_deleted_and_recreated_is_woken(self) -> None:
        world = World()
        member_id, request = world.first_join()
        world.leave(MemberIdentity(member_id))
        world.advance(100)
        deleted = world.ask(DeleteGroupsRequest(["group"]), 2, DeleteGroupsResponse)
        assert deleted.results[0].error_code == ErrorCode.NONE
        wait = world.wait_of(request)
        assert world.is_over(wait)
        world.first_join()
        assert world.is_over(wait)
        assert world.joined(request).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_who_is_woken_too_early_is_sent_to_wait_again(self) -> None:
        world = World()
        first, second, _ = world.stable_group(3)
        waiting = world.join(first.member_id)
        world.join(second.member_id, protocols=join_request().protocols[:1])
        world.leave(MemberIdentity(second.member_id))
        assert world.is_over(world.wait_of(waiting))
        again = world.collect(waiting)
        assert not world.is_over(world.wait_of(again))

    def test_collecting_changes_nothing(self) -> None:
        world = World()
        leader, follower = world.joined_group(2)
        waiting = world.sync(follower)
        assert world.wait_of(world.collect(waiting)) == world.wait_of(waiting)
        world.sync(leader, {follower.member_id: b"his"})
        for _ in range(3):
            assert world.synced(waiting).assignment == b"his"
        step = world.state_of("group")
        assert world.body_of(world.collect(waiting), SyncGroupResponse).assignment == b"his"
        assert world.state_of("group") == step

    def test_collecting_without_a_wait_is_refused(self) -> None:
        world = World()
        leader, _ = world.joined_group(2)
        wait = GroupWait(world.epoch, "group", leader.member_id, 1, 0, 0)
        assert world.error_of(world.send_collect(wait, ApiKey.SYNC_GROUP, 5)) == ErrorCode.NOT_COORDINATOR
        stranger = GroupWait(world.epoch, "group", "nobody", 1, 0, 0)
        reported = world.body_of(world.send_collect(stranger, ApiKey.JOIN_GROUP, 9), JoinGroupResponse)
        assert reported.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize(
        ("api_key", "version"), [(ApiKey.HEARTBEAT, 4), (ApiKey.JOIN_GROUP, 10), (ApiKey.SYNC_GROUP, -1)]
    )
    def test_nonsense_is_refused(self, api_key: int, version: int) -> None:
        world = World()
        collect = GroupCollect(1, PARTITION, api_key, version, world.epoch, "group", "member", 1)
        world.coordinator.on_collect(STREAM, collect)
        world.turn()
        assert world.error_of(1) == ErrorCode.INVALID_REQUEST


class TestCalls:
    @pytest.mark.parametrize(
        ("api_key", "version", "body"),
        [
            (ApiKey.HEARTBEAT, 4, b""),
            (ApiKey.HEARTBEAT, 4, b"\xff" * 10),
            (ApiKey.HEARTBEAT, 5, b""),
            (ApiKey.HEARTBEAT, -1, b""),
            (ApiKey.OFFSET_FETCH, 10, b""),
            (ApiKey.OFFSET_COMMIT, 1, b""),
            (ApiKey.PRODUCE, 3, b""),
            (999, 0, b""),
        ],
    )
    def test_what_is_no_request_is_refused(self, api_key: int, version: int, body: bytes) -> None:
        world = World()
        assert world.error_of(world.send_body(api_key, version, body)) == ErrorCode.INVALID_REQUEST

    def test_one_turn_writes_one_batch(self) -> None:
        world = World()
        for offset in range(5):
            world.begin(ApiKey.OFFSET_COMMIT, 9, encode_body(commit_request(offset), 9))
        world.turn()
        assert len(world.log.batches) == 1
        assert world.fetch_offset() == 4


class TestLoading:
    def test_calls_are_answered_with_a_wait_but_heartbeats_are_fine(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        world.commit_offset(5, group_id="other")
        world.lose()
        world.lead(loads=False)
        assert world.error_of(world.join()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert world.error_of(world.commit_offset(5)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        reported = world.ask(HeartbeatRequest("group", 1, member.member_id), 4, HeartbeatResponse)
        assert reported.error_code == ErrorCode.NONE
        world.load()
        assert world.heartbeat(member) == ErrorCode.NONE

    def test_asks_for_one_piece_at_a_time_however_many_turns_it_takes(self) -> None:
        world = World()
        for offset in range(5):
            world.commit_offset(offset)
        world.lose()
        world.lead(loads=False)
        for _ in range(3):
            world.turn()
        assert world.log.reads == [0]
        world.load()
        assert world.fetch_offset() == 4

    def test_starts_over_under_a_later_epoch(self) -> None:
        world = World()
        for offset in range(5):
            world.commit_offset(offset)
        world.lose()
        world.lead(loads=False)
        world.feed()
        world.lose()
        world.lead()
        assert world.fetch_offset() == 4
