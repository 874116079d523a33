"""What one parked request raised ended the stream of its gateway, and every other request that was parked on it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import Completion, Outcome, ParkFetch, ParkProduce
from barnabas.wire.errors import ErrorCode
from barnabas_purgatory.core.meter import ENTRY
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.core.turn_work import SHORT
from tests.unit.purgatory.support import LEADER, STREAM
from tests.unit.purgatory.test_purgatory import condition, fetch, polled, produce, state

POISONOUS: Any = None
"""No condition: it raises when it is looked at, on both builds."""


@pytest.mark.parametrize("others", [1, 2 * SHORT], ids=["short", "long"])
def test_it_is_answered_as_if_its_time_were_over_and_others_wait_on(others: int) -> None:
    core = PurgatoryCore(now_ms=0)
    core.logstore_up(LEADER)
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.park_fetch(STREAM, fetch(2, polled(100)), 0)
    conditions = [condition(10, partition=1 + each) for each in range(others)]
    core.park_produce(STREAM, ParkProduce(3, 1_000, [*conditions, POISONOUS]), 0)
    polls = [polled(100, partition=1 + each) for each in range(others)]
    core.park_fetch(STREAM, ParkFetch(4, 500, 1, [*polls, POISONOUS]), 0)
    answers = core.take_outputs().completions[STREAM]
    core.expire(1)
    answers += core.take_outputs().completions.get(STREAM, [])
    assert [(each.entry_id, each.outcome) for each in answers] == [(3, Outcome.EXPIRED), (4, Outcome.EXPIRED)]
    assert answers[0].error_codes == [ErrorCode.REQUEST_TIMED_OUT] * (others + 1)
    assert core.contained.counts[ENTRY] == 2

    core.partition_states(LEADER, [state(10, position=200)])
    left = core.take_outputs().completions[STREAM]
    assert left == [Completion(1, Outcome.SATISFIED, [ErrorCode.NONE]), Completion(2, Outcome.SATISFIED, [])]
    core.expire(2)
    core.take_outputs()
    assert (core.entries, core.watched_partitions) == (0, 0)
