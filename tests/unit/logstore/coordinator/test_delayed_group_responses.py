"""Joins and syncs that may soon be answered are held back for a moment; then they get the usual wait."""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.group import Group
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.runtime.timers import Timers
from tests.unit.logstore.coordinator.support import PARTITION, World

DELAY_MS, HOLD_MS = 10, 60


def holding_world(members: int = 2) -> tuple[World, JoinGroupResponse, list[JoinGroupResponse]]:
    """A generation of a leader and its followers, none of whom has synced."""
    world = World(GroupConfig(initial_rebalance_delay_ms=DELAY_MS, hold_ms=HOLD_MS))
    requests = [world.first_join()[1] for _ in range(members)]
    assert not world.answers.keys() & set(requests)
    world.advance(2 * DELAY_MS)
    leader, *followers = [world.body_of(each, JoinGroupResponse) for each in requests]
    assert len(leader.members) == members
    return world, leader, followers


def test_who_is_held_is_answered_as_soon_as_the_group_has_come_so_far() -> None:
    world, leader, (follower,) = holding_world()
    waiting = world.sync(follower)
    world.advance(HOLD_MS - 1)
    assert not world.is_answered(waiting)
    world.sync(leader, {leader.member_id: b"one", follower.member_id: b"two"})
    world.turn()
    assert world.body_of(waiting, SyncGroupResponse).assignment == b"two"


def test_after_a_moment_the_answer_is_to_wait() -> None:
    world, leader, (follower,) = holding_world()
    waiting = world.sync(follower)
    world.advance(HOLD_MS)
    assert not world.is_over(world.wait_of(waiting))
    world.sync(leader, {follower.member_id: b"two"})
    world.turn()
    assert world.awaited(waiting, SyncGroupResponse).assignment == b"two"


def test_each_is_held_for_its_own_time() -> None:
    world, _, (early, late) = holding_world(3)
    waiting = world.sync(early)
    world.advance(HOLD_MS // 3)
    later = world.sync(late)
    world.advance(HOLD_MS - HOLD_MS // 3)
    assert world.is_answered(waiting)
    assert not world.is_answered(later)
    world.advance(HOLD_MS // 3)
    assert world.is_answered(later)


def test_a_step_that_does_not_answer_it_does_not_prolong_its_time() -> None:
    world, leader, (follower,) = holding_world()
    waiting = world.sync(follower)
    world.advance(HOLD_MS - 1)
    _, newcomer = world.first_join()
    world.turn()
    # The rebalance that begins with it ends the sync.
    assert world.body_of(waiting, SyncGroupResponse).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = world.join(leader.member_id)
    world.advance(1)
    assert not world.is_answered(newcomer)
    world.advance(HOLD_MS)
    assert not world.is_over(world.wait_of(newcomer))
    assert not world.is_over(world.wait_of(rejoin))
    world.join(follower.member_id)
    world.turn()
    assert world.awaited(newcomer, JoinGroupResponse).generation_id == leader.generation_id + 1


def test_who_is_held_is_answered_when_the_coordinator_is_lost() -> None:
    world, _, (follower,) = holding_world()
    waiting = world.sync(follower)
    world.lose()
    assert world.error_of(waiting) == ErrorCode.NOT_COORDINATOR
    world.lead()
    world.advance(2 * HOLD_MS)


def test_who_was_answered_with_a_wait_is_not_held_when_it_comes_back() -> None:
    world, _, (follower,) = holding_world()
    waiting = world.sync(follower)
    world.advance(HOLD_MS)
    assert not world.is_over(world.wait_of(world.collect(waiting)))


def raises(*arguments: object) -> None:
    raise RuntimeError("planted")


@pytest.mark.parametrize(("owner", "method"), [(LedShard, "_lose_waiting"), (Timers, "cancel"), (Rebalancing, "stop")])
def test_whatever_fails_as_a_coordinator_is_lost_the_rest_of_it_is_ended(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    world, _, (follower,) = holding_world()
    waiting = world.sync(follower)
    stopped: list[Group] = []
    stop = Rebalancing.stop
    monkeypatch.setattr(Rebalancing, "stop", lambda self, group: (stopped.append(group), stop(self, group)))
    with monkeypatch.context() as planted:
        planted.setattr(owner, method, raises)
        with pytest.raises((RuntimeError, ExceptionGroup), match="planted"):
            world.coordinator.on_lost(PARTITION, world.epoch, world.now_ms)
    world.take()
    assert world.error_of(waiting) == ErrorCode.NOT_COORDINATOR
    assert len(stopped) == (0 if owner is Rebalancing else 1)
    world.lead()
    world.advance(2 * HOLD_MS)
