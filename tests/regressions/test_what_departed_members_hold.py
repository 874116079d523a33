"""A member that is gone holds nothing of what it had joined with.

Found by a tenant that joined 60 groups of its own with 7 MiB of metadata each and was removed from all: its sessions,
of half an hour, were cancelled, but the heap of deadlines drops cancelled entries only when they outnumber the others,
and each had its member. A logstore held 420 MiB for half an hour, however few members it had.
"""

from __future__ import annotations

import gc

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.runtime.timers import Deadline, Timers
from tests.unit.logstore.coordinator.support import DELAY_MS, World

HALF_AN_HOUR_MS = 1_800_000
MINE = "departed"


def joined_and_gone(world: World) -> None:
    """Some that never sync, each in a group of its own, with the longest session there is."""
    for number in range(10):
        request = world.join(
            version=3,
            group_id=f"{MINE}-{number}",
            session_timeout_ms=HALF_AN_HOUR_MS,
            rebalance_timeout_ms=0,
        )
        world.advance(DELAY_MS)
        world.advance(1_000)
        assert world.joined(request).error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)


def members_alive() -> list[Member]:
    """Those of this test's groups: other tests' may be alive."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, Member) and each.client_host == "/of-the-departed"]


def test_a_member_that_was_removed_is_not_held_until_its_session_would_have_ended() -> None:
    world = World()
    world.client_host = "/of-the-departed"
    joined_and_gone(world)
    assert not members_alive()


def test_members_of_a_coordinator_that_lost_its_partition_are_not_held() -> None:
    world = World()
    world.client_host = "/of-the-departed"
    for number in range(10):
        world.join(version=3, group_id=f"{MINE}-{number}", session_timeout_ms=HALF_AN_HOUR_MS)
    assert len(members_alive()) == 10
    world.lose()
    world.answers.clear()
    assert not members_alive()


def test_a_deadline_that_was_ended_keeps_nothing_of_its_action() -> None:
    deadlines = Timers()
    done: list[int] = []
    ended, kept = (Deadline(lambda number=number: done.append(number)) for number in range(2))  # type: ignore[misc]
    action = ended.on_due
    deadlines.set(ended, 10)
    deadlines.set(kept, 10)
    deadlines.end(ended)
    deadlines.end(None)
    assert ended.on_due is not action
    assert len(deadlines) == 1
    deadlines.act(10)
    assert done == [1]
