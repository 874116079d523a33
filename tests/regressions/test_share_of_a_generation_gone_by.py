"""A member asked again for its share while the log was slow, and was dropped from the group before the log went on: it
got the assignment of its old generation when the new one had already given that to another member.
"""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sync_group import SyncGroupResponse
from tests.unit.logstore.coordinator.support import World


@pytest.mark.parametrize("is_static", [False, True])
def test_a_share_that_waited_for_the_log_is_looked_at_again_before_it_is_sent(is_static: bool) -> None:
    world = World()
    leader, follower = world.stable_group(2, instances=is_static, rebalance_timeout_ms=8_000)
    world.log.commits_at_once = False
    world.commit_offset(5, generation_id=1, member_id=follower.member_id)
    late = world.sync(follower)
    assert not world.is_answered(late), "an answer rests on everything that was written before"

    # The leader begins a new generation, and the follower does not come. A static one keeps its place, and no more.
    request = world.join(leader.member_id, rebalance_timeout_ms=8_000)
    world.advance(4_000)
    if is_static:
        world.heartbeat(follower)
    world.advance(4_000)
    joined = world.joined(request)
    assert joined.generation_id == 2
    world.sync(joined, {leader.member_id: b"everything"})
    world.commit()

    reported = world.body_of(late, SyncGroupResponse)
    assert reported.error_code == (ErrorCode.REBALANCE_IN_PROGRESS if is_static else ErrorCode.UNKNOWN_MEMBER_ID)
    assert reported.assignment == b""


def test_a_share_that_was_waited_for_is_looked_at_again_as_well() -> None:
    world = World()
    leader, follower = world.joined_group(2, rebalance_timeout_ms=8_000)
    waiting = world.sync(follower)
    world.sync(leader, {follower.member_id: b"his"})
    world.log.commits_at_once = False
    world.commit_offset(5, generation_id=1, member_id=leader.member_id)
    late = world.collect(waiting)
    assert not world.is_answered(late)

    request = world.join(leader.member_id, rebalance_timeout_ms=8_000)
    world.advance(8_000)
    world.sync(world.joined(request), {leader.member_id: b"everything"})
    world.commit()
    assert world.body_of(late, SyncGroupResponse).error_code == ErrorCode.UNKNOWN_MEMBER_ID
