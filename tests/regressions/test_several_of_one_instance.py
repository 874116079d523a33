"""Of three processes that believed to be the same static member, the first got UNKNOWN_MEMBER_ID instead of
FENCED_INSTANCE_ID, as only the last id that an instance had had was remembered: it started over, and replaced the
newest.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from tests.unit.logstore.coordinator.support import World


def test_all_are_fenced_but_the_last_however_late_they_come_for_their_answer() -> None:
    world = World()
    requests = [world.join(group_instance_id="instance") for _ in range(4)]
    world.advance(1_000)
    *fenced, last = [world.joined(each) for each in requests]
    assert {each.error_code for each in fenced} == {ErrorCode.FENCED_INSTANCE_ID}
    assert (last.error_code, len(last.members)) == (ErrorCode.NONE, 1)


def test_what_is_remembered_of_an_instance_has_an_end() -> None:
    world = World()
    for _ in range(1_000):
        world.join(group_instance_id="instance")
    group = world.groups.get("group")
    assert group is not None
    assert len(group.members) == 1
    assert len(group.replaced["instance"]) < 10
    assert len(world.deadlines) == 2, "its session, and the join phase"
