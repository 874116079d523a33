"""A leader of `__consumer_offsets` whose follower is gone, and no controller that takes it out of the ISR: appends are
taken, and nothing is committed. A consumer that fetches its offsets is to wait for that, gives up after a while and
asks again. Each of these answers was kept for the day when the watermark moves, by every client that asked, for as
long as it lasted.

What waits has an end now. Beyond it COORDINATOR_NOT_AVAILABLE is said at once: what was asked may be done, ask again.
"""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.runtime import led_shard
from tests.unit.logstore.coordinator.support import World


def test_who_comes_when_much_waits_is_sent_away_and_what_waits_is_answered_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(led_shard, "WAITING_BYTES_MAX", 3_000)
    world = World()
    world.log.commits_at_once = False
    requests = [world.commit_offset(offset) for offset in range(100)]
    waiting = [each for each in requests if not world.is_answered(each)]
    assert 0 < len(waiting) < 20
    refused = [each for each in requests if each not in waiting]
    assert {world.error_of(each) for each in refused} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}

    world.commit()
    assert {world.commit_error(each) for each in waiting} == {ErrorCode.NONE}
    assert world.fetch_offset() == 99, "what was not answered was done"

    again = world.commit_offset(100)
    assert not world.is_answered(again), "there is room again"
    world.lose()
    world.lead()
    assert not world.is_answered(world.commit_offset(101)), "and after it was lost as well"
