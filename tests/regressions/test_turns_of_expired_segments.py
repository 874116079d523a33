"""A run of expired segments left its log in one turn, however long it was, and one effect renamed all of its files.

Each check copied the list of all segments as well. With thousands of segments, as after `retention.ms` has been
lowered, other clients waited for that turn.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from barnabas_logstore.core.maintenance.retention import SEGMENTS_PER_TICK
from barnabas_logstore.core.storage.effects import RetireEffect
from barnabas_logstore.core.storage.log.features.log_retention import SEGMENTS_MAX
from barnabas_logstore.core.storage.log.features.log_retirement import RENAMED_AT_ONCE
from tests.unit.logstore.service.support import EXCHANGE, READ, WALL_MS, Host, batch, topic

CHECK_MS = 1_000
TICK_MS = 100
OLD_MS = WALL_MS - 100_000
SEGMENTS = 2 * SEGMENTS_PER_TICK + 10
"""Of each of two logs."""


def with_segments(configs: dict[str, str]) -> Host:
    """Two logs of many segments with one batch each, all durable; the last one is of now."""
    host = Host(retention_check_interval_ms=CHECK_MS)
    host.greet(EXCHANGE, READ)
    host.lead(topic(partitions=2, configs={"segment.ms": "1", **configs}))
    for number in range(SEGMENTS):
        for partition in (0, 1):
            host.append(batch(timestamp_ms=OLD_MS + 10 * number), partition=partition)
    for partition in (0, 1):
        host.append(batch(timestamp_ms=WALL_MS), partition=partition)
    host.core.tick(0)
    host.settle()
    assert segments(host) == [SEGMENTS + 1] * 2
    return host


def segments(host: Host) -> list[int]:
    return [len(partition.log.segments) for partition in host.core.partitions]


def ticks_until(host: Host, is_over: Callable[[], bool]) -> tuple[list[list[int]], list[RetireEffect]]:
    """How many segments each tick has left in the logs, and the effects that have renamed files."""
    left, renames = [segments(host)], []
    host.holds_effects = True
    host.now_ms = CHECK_MS - TICK_MS
    while not is_over():
        host.now_ms += TICK_MS
        assert host.now_ms < 2 * CHECK_MS, "it waits for the next check"
        host.core.tick(host.now_ms)
        left.append(segments(host))
        host.turn()
        while host.held:
            renames += [effect for effect in host.held if isinstance(effect, RetireEffect)]
            host.run_effects()
            host.turn()
    return left, renames


@pytest.mark.parametrize("configs", [{"retention.ms": "5000"}, {"retention.bytes": "1", "retention.ms": "-1"}])
def test_a_tick_retires_some_and_the_next_one_goes_on(configs: dict[str, str]) -> None:
    host = with_segments(configs)
    left, renames = ticks_until(host, lambda: segments(host) == [1, 1])
    retired = [[before - after for before, after in zip(*each, strict=True)] for each in pairwise(left)]
    assert max(sum(each) for each in retired) <= SEGMENTS_PER_TICK
    assert max(max(each) for each in retired) <= SEGMENTS_MAX
    # One of them does not wait for the other.
    assert retired[0] == [SEGMENTS_MAX, SEGMENTS_MAX]
    assert max(len(effect.segments) for effect in renames) <= RENAMED_AT_ONCE
    assert sum(len(effect.segments) for effect in renames) == 2 * SEGMENTS
    assert [partition.log.log_start_offset for partition in host.core.partitions] == [SEGMENTS] * 2


def test_what_was_retired_before_its_files_could_be_renamed() -> None:
    """A flush may need them: then more than an effect may rename has been retired once it is over."""
    host = with_segments({"retention.ms": "-1"})
    log = host.core.partitions[0].log
    log.retire_segments(3 * RENAMED_AT_ONCE)
    counts = []
    while (effect := log.begin_retirement()) is not None:
        counts.append(len(effect.segments))
        log.retirement.done(effect)
    assert counts == [RENAMED_AT_ONCE] * 3
    assert log.retirement.is_idle
