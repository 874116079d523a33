"""When offsets are forgotten (KIP-211), and groups with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas_logstore.core.coordinator.groups.records import GroupMetadataKey
from tests.unit.logstore.coordinator.support import QUICK, World, subscription

RETENTION_MS = 100_000
CONFIG = replace(QUICK, offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=1_000)


def world_with_offset(**changes: Any) -> World:
    world = World(CONFIG)
    assert world.commit_error(world.commit_offset(5, **changes)) == ErrorCode.NONE
    return world


def keep_alive(world: World, joined: list[JoinGroupResponse], ms: int) -> None:
    for _ in range(ms // 5_000):
        world.advance(5_000)
        for each in joined:
            assert world.heartbeat(each) == ErrorCode.NONE


def groups_of(world: World) -> list[str]:
    return [group.group_id for group in world.groups]


class TestSimpleGroups:
    def test_each_offset_ages_from_its_own_commit(self) -> None:
        world = world_with_offset()
        world.advance(50_000)
        world.commit_offset(6, partition=1)
        world.advance(RETENTION_MS - 50_000 - 1_000)
        assert world.fetch_offset() == 5
        world.advance(2_000)
        assert (world.fetch_offset(), world.fetch_offset(partition=1)) == (-1, 6)
        world.advance(50_000)
        assert world.fetch_offset(partition=1) == -1

    def test_with_the_last_one_the_group_is_gone_and_stays_so(self) -> None:
        world = world_with_offset()
        world.advance(RETENTION_MS + 1_000)
        assert groups_of(world) == []
        assert [(type(key), value) for key, value in world.log.entries()][-1] == (GroupMetadataKey, None)
        world.reload()
        assert groups_of(world) == []

    def test_who_joins_in_vain_does_not_make_its_offsets_ageless(self) -> None:
        world = world_with_offset()
        world.join(protocols=[])
        reported = world.body_of(world.join(session_timeout_ms=6_000), JoinGroupResponse)
        world.leave(MemberIdentity(reported.member_id))
        world.join(session_timeout_ms=6_000)
        world.advance(6_000)
        assert groups_of(world) == ["group"]
        world.advance(RETENTION_MS)
        assert world.fetch_offset() == -1


class TestExplicitRetention:
    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_counts_instead_of_the_configured_one(self, version: int) -> None:
        world = world_with_offset(version=version, retention_ms=10_000)
        world.reload()
        world.advance(9_000)
        assert world.fetch_offset() == 5
        world.advance(2_000)
        assert world.fetch_offset() == -1

    def test_may_be_longer(self) -> None:
        world = world_with_offset(version=2, retention_ms=2 * RETENTION_MS)
        world.advance(RETENTION_MS + 1_000)
        assert world.fetch_offset() == 5

    @pytest.mark.parametrize("retention_ms", [-(1 << 63), -2, 0])
    def test_that_is_over_already(self, retention_ms: int) -> None:
        world = world_with_offset(version=2, retention_ms=retention_ms)
        world.advance(2_000)
        assert world.fetch_offset() == -1

    def test_beyond_the_end_of_time(self) -> None:
        world = world_with_offset(version=2, retention_ms=(1 << 63) - 1)
        world.advance(2 * RETENTION_MS)
        assert world.fetch_offset() == 5


class TestGroupsWithMembers:
    def test_offsets_age_from_when_the_group_became_empty(self) -> None:
        world = World(CONFIG)
        (member,) = world.stable_group(1)
        world.commit_offset(5, generation_id=1, member_id=member.member_id)
        keep_alive(world, [member], RETENTION_MS)
        world.leave(MemberIdentity(member.member_id))
        world.advance(RETENTION_MS - 2_000)
        assert world.fetch_offset() == 5
        world.reload()
        world.advance(4_000)
        assert world.fetch_offset() == -1
        assert groups_of(world) == []

    def test_what_consumers_are_subscribed_to_does_not_age(self) -> None:
        world = World(CONFIG)
        (member,) = world.stable_group(1)
        for topic in ("topic", "other"):
            world.commit_offset(5, topic=topic, generation_id=1, member_id=member.member_id)
        keep_alive(world, [member], RETENTION_MS + 10_000)
        assert (world.fetch_offset(), world.fetch_offset(topic="other")) == (5, -1)

    @pytest.mark.parametrize(
        "metadata", [b"", b"\0\0\0\0\0\1\0\5topi", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\1\xff"]
    )
    def test_nothing_ages_while_subscriptions_cannot_be_read(self, metadata: bytes) -> None:
        world = World(CONFIG)
        (member,) = world.stable_group(1, protocols=[JoinGroupRequestProtocol("range", metadata)])
        world.commit_offset(5, topic="other", generation_id=1, member_id=member.member_id)
        keep_alive(world, [member], RETENTION_MS + 10_000)
        assert world.fetch_offset(topic="other") == 5

    def test_nothing_ages_while_members_are_no_consumers(self) -> None:
        world = World(CONFIG)
        (member,) = world.stable_group(1, protocol_type="connect")
        world.commit_offset(5, generation_id=1, member_id=member.member_id)
        keep_alive(world, [member], RETENTION_MS + 10_000)
        assert world.fetch_offset() == 5

    def test_subscriptions_are_those_of_the_generation(self) -> None:
        world = World(CONFIG)
        (member,) = world.stable_group(1)
        world.commit_offset(5, generation_id=1, member_id=member.member_id)
        protocols = [JoinGroupRequestProtocol("range", subscription("elsewhere"))]
        again = world.joined(world.join(member.member_id, protocols=protocols))
        world.all_sync([again])
        keep_alive(world, [again], RETENTION_MS + 10_000)
        assert world.fetch_offset() == -1


class TestTheLog:
    def test_that_refuses_is_asked_again_later(self) -> None:
        world = world_with_offset()
        world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        world.advance(RETENTION_MS + 5_000)
        assert not world.coordinator.has_work
        world.log.refusal = ErrorCode.NONE
        assert world.fetch_offset() == 5
        world.advance(2_000)
        assert world.fetch_offset() == -1

    def test_many_groups_are_looked_at_over_several_steps(self) -> None:
        world = World(CONFIG)
        for number in range(1_200):
            world.commit_offset(5, group_id=f"group {number}")
        world.now_ms += RETENTION_MS + 1_000
        world.turn()
        left = len(groups_of(world))
        assert 0 < left < 1_200
        turns = 0
        while world.coordinator.has_work:
            world.turn()
            turns += 1
        assert turns > 0
        assert groups_of(world) == []
