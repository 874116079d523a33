"""Members that do half of what they should, in numbers, and with everything as long as it can be: Kafka's own errors,
what is kept for them goes when their time is over, and the group continues for well-behaved members.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from tests.unit.logstore.coordinator.support import DELAY_MS, QUICK, FakeLog, World, commit_request, subscription

MANY = 1_000
MEBIBYTE = 1 << 20
# How many may wait in vain: the heap of deadlines is twice as long as there are deadlines, and a little.
SPARE_DEADLINES = 70


def the_group(world: World) -> Group:
    group = world.groups.get("group")
    assert group is not None
    return group


def assert_nothing_is_kept(world: World) -> None:
    assert not list(world.groups)
    assert len(world.deadlines) == 0
    assert len(world.deadlines._heap) < SPARE_DEADLINES


def assert_somebody_new_gets_in(world: World) -> None:
    _, request = world.first_join(rebalance_timeout_ms=10_000)
    world.advance(3 * DELAY_MS)
    joined = world.joined(request)
    assert (joined.error_code, len(joined.members)) == (ErrorCode.NONE, 1)
    (share,) = world.all_sync([joined])
    assert share.error_code == ErrorCode.NONE


class TestWhoJoinsAndNeverSyncs:
    def test_alone_it_is_put_out_and_the_group_is_empty(self) -> None:
        world = World()
        world.joined_group(1, rebalance_timeout_ms=8_000)
        world.advance(8_000)
        assert the_group(world).state is GroupState.EMPTY
        assert len(world.deadlines) == 0
        assert_somebody_new_gets_in(world)

    def test_however_often_it_comes_back_the_others_have_their_shares_when_it_stays_away(self) -> None:
        world = World()
        (member,) = world.stable_group(1, rebalance_timeout_ms=8_000)
        for _ in range(5):
            _, bad = world.first_join(rebalance_timeout_ms=8_000)
            request = world.join(member.member_id, rebalance_timeout_ms=8_000)
            world.sync(world.joined(request), {})
            assert len(the_group(world).members) == 2
            assert world.joined(bad).error_code == ErrorCode.NONE
            world.advance(4_000)
            assert world.heartbeat(world.joined(request)) == ErrorCode.NONE
            world.advance(4_000)
            assert world.heartbeat(world.joined(request)) == ErrorCode.REBALANCE_IN_PROGRESS
        again = world.joined(world.join(member.member_id, rebalance_timeout_ms=8_000))
        (share,) = world.all_sync([again])
        assert share.error_code == ErrorCode.NONE
        assert list(the_group(world).members) == [member.member_id]


class TestAThousandThatVanish:
    def test_with_the_ids_that_they_were_given(self) -> None:
        world = World()
        for _ in range(MANY):
            reported = world.body_of(world.join(session_timeout_ms=6_000), JoinGroupResponse)
            assert reported.error_code == ErrorCode.MEMBER_ID_REQUIRED
        world.advance(6_000)
        assert_nothing_is_kept(world)
        assert world.log.next_offset == 0

    def test_while_they_wait_for_their_first_generation(self) -> None:
        """The join of each has been parked, and its connection is gone."""
        world = World()
        for _ in range(MANY):
            world.join(version=3, session_timeout_ms=6_000, rebalance_timeout_ms=6_000)
        world.advance(6_000)
        assert the_group(world).state is GroupState.COMPLETING_REBALANCE
        world.advance(6_000)
        assert the_group(world).state is GroupState.EMPTY
        assert len(world.deadlines) == 0
        assert_somebody_new_gets_in(world)

    def test_out_of_a_stable_group_in_which_one_lives_on(self) -> None:
        world = World()
        requests = [world.join(version=3) for _ in range(MANY)]
        world.advance(3 * DELAY_MS)
        joined = [world.joined(each) for each in requests]
        leader = next(each for each in joined if each.leader == each.member_id)
        world.sync(leader, {})
        for each in joined:
            assert world.synced(world.sync(each)).error_code == ErrorCode.NONE
        assert the_group(world).state is GroupState.STABLE
        for _ in range(2):
            world.advance(6_000)
            world.heartbeat(leader)
        request = world.join(leader.member_id)
        again = world.joined(request)
        assert [each.member_id for each in again.members] == [leader.member_id]
        world.all_sync([again])
        assert world.heartbeat(again) == ErrorCode.NONE
        assert len(world.deadlines) <= 2

    def test_with_groups_of_their_own(self) -> None:
        world = World()
        for number in range(MANY):
            world.join(group_id=f"group {number}", session_timeout_ms=6_000)
        world.advance(6_000)
        assert_nothing_is_kept(world)

    def test_a_group_has_no_more_members_than_it_may(self) -> None:
        world = World(replace(QUICK, max_size=10))
        ids = [world.body_of(world.join(), JoinGroupResponse).member_id for _ in range(MANY)]
        refused = 0
        for member_id in ids:
            request = world.join(member_id)
            if world.answers[request].wait is None:
                reported = world.body_of(request, JoinGroupResponse)
                assert (reported.error_code, reported.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
                refused += 1
        assert refused == MANY - 10
        assert not the_group(world).pending_joins, "who is turned away is not waited for"
        world.advance(3 * DELAY_MS)
        assert len(the_group(world).members) == 10


class TestFencedCommits:
    def commit_errors(self, world: World, **who: Any) -> set[ErrorCode]:
        return {world.commit_error(world.commit_offset(6, **who)) for _ in range(3)}

    def test_of_a_replaced_static_member(self) -> None:
        world = World()
        (member,) = world.stable_group(1, instances=True)
        who: dict[str, Any] = {"generation_id": 1, "member_id": member.member_id, "instance_id": "instance 0"}
        assert world.commit_error(world.commit_offset(5, **who)) == ErrorCode.NONE
        world.join(group_instance_id="instance 0")
        assert self.commit_errors(world, **who) == {ErrorCode.FENCED_INSTANCE_ID}
        world.reload()
        assert self.commit_errors(world, **who) == {ErrorCode.FENCED_INSTANCE_ID}
        assert world.fetch_offset() == 5

    def test_of_a_member_whose_session_is_over_and_that_does_not_know(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        who: dict[str, Any] = {"generation_id": 1, "member_id": member.member_id}
        assert world.commit_error(world.commit_offset(5, **who)) == ErrorCode.NONE
        world.advance(10_000)
        assert self.commit_errors(world, **who) == {ErrorCode.UNKNOWN_MEMBER_ID}
        _, request = world.first_join()
        world.advance(DELAY_MS)
        world.all_sync([world.joined(request)])
        assert self.commit_errors(world, **who) == {ErrorCode.UNKNOWN_MEMBER_ID}
        assert world.fetch_offset() == 5

    def test_of_a_member_that_has_missed_a_generation(self) -> None:
        world = World()
        leader, follower = world.stable_group(2)
        world.join(leader.member_id)
        world.join(follower.member_id)
        who: dict[str, Any] = {"generation_id": 1, "member_id": follower.member_id}
        assert self.commit_errors(world, **who) == {ErrorCode.ILLEGAL_GENERATION}
        assert world.fetch_offset() == -1


class TestDeletedTopics:
    """The gateway refuses commits for topics that it does not know; what has come in before is the coordinator's."""

    def test_a_topic_goes_from_under_members_that_read_it(self) -> None:
        world = World()
        (member,) = world.stable_group(1)
        who: dict[str, Any] = {"generation_id": 1, "member_id": member.member_id}
        world.commit_offset(5, **who)
        world.delete_topics("topic")
        world.turn()
        assert world.fetch_offset() == -1
        assert world.heartbeat(member) == ErrorCode.NONE
        world.reload()
        assert world.fetch_offset() == -1
        assert world.heartbeat(member) == ErrorCode.NONE

    def test_a_commit_on_its_way_when_the_topic_was_deleted_ages_like_any_other(self) -> None:
        world = World(replace(QUICK, offsets_retention_ms=100_000, offsets_retention_check_interval_ms=1_000))
        world.delete_topics("topic")
        world.turn()
        assert world.commit_error(world.commit_offset(5)) == ErrorCode.NONE
        assert world.fetch_offset() == 5
        world.advance(102_000)
        assert_nothing_is_kept(world)


@pytest.mark.parametrize("group_id", ["x" * 32_767, "é" * 16_383], ids=["ascii", "two bytes each"])
class TestGroupIdsOf32Kilobytes:
    def test_a_whole_life(self, group_id: str) -> None:
        world = World()
        _, request = world.first_join(group_id=group_id)
        world.advance(DELAY_MS)
        joined = world.joined(request)
        share = world.synced(world.sync(joined, {joined.member_id: b"share"}, group_id=group_id))
        assert share.assignment == b"share"
        world.reload()
        assert world.heartbeat(joined, group_id=group_id) == ErrorCode.NONE
        listed = world.ask(ListGroupsRequest(), 5, ListGroupsResponse)
        assert [each.group_id for each in listed.groups] == [group_id]
        assert world.leave(MemberIdentity(joined.member_id), group_id=group_id) == [ErrorCode.NONE]
        deleted = world.ask(DeleteGroupsRequest([group_id]), 2, DeleteGroupsResponse)
        assert deleted.results[0].error_code == ErrorCode.NONE
        assert_nothing_is_kept(world)
        world.reload()
        assert_nothing_is_kept(world)

    @pytest.mark.parametrize("version", range(7))
    def test_that_is_unknown(self, group_id: str, version: int) -> None:
        world = World()
        described = world.ask(DescribeGroupsRequest([group_id]), version, DescribeGroupsResponse)
        assert (described.groups[0].group_id, described.groups[0].group_state) == (group_id, "Dead")


class TestMetadataOfAMegabyte:
    def test_of_an_offset_is_no_request(self) -> None:
        """A string has no more than 32,767 bytes, even where the length could say more."""
        world = World()
        body = encode_body(commit_request(5, metadata="here"), 9)
        length = bytes([0x81, 0x80, 0x40])
        large = body.replace(b"\x05here", length + b"x" * MEBIBYTE)
        assert len(large) > MEBIBYTE
        assert world.error_of(world.send_body(ApiKey.OFFSET_COMMIT, 9, large)) == ErrorCode.INVALID_REQUEST
        assert_nothing_is_kept(world)

    def test_of_a_subscription_is_taken_as_long_as_the_group_fits_into_a_batch(self) -> None:
        world = World(log=FakeLog(bytes_max=2 * MEBIBYTE))
        protocols = [JoinGroupRequestProtocol("range", subscription("topic") + bytes(MEBIBYTE))]
        (member,) = world.stable_group(1, protocols=protocols)
        world.reload()
        assert world.heartbeat(member) == ErrorCode.NONE

    def test_of_a_subscription_that_no_batch_holds_stops_the_group_until_that_member_is_gone(self) -> None:
        """Kafka's own way: the record is too large, and all get UNKNOWN_SERVER_ERROR and have to join again."""
        world = World()
        (member,) = world.stable_group(1)
        protocols = [JoinGroupRequestProtocol("range", subscription("topic") + bytes(MEBIBYTE))]
        large_id, large = world.first_join(protocols=protocols)
        joined = world.joined(world.join(member.member_id))
        assert joined.leader == member.member_id
        assert [len(each.metadata) > MEBIBYTE for each in joined.members] == [False, True]
        waiting = world.sync(world.joined(large))
        assert world.synced(world.sync(joined, {})).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert world.synced(waiting).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert world.heartbeat(joined) == ErrorCode.REBALANCE_IN_PROGRESS

        request = world.join(member.member_id)
        assert world.leave(MemberIdentity(large_id)) == [ErrorCode.NONE]
        again = world.joined(request)
        (share,) = world.all_sync([again])
        assert share.error_code == ErrorCode.NONE
        assert world.heartbeat(again) == ErrorCode.NONE
