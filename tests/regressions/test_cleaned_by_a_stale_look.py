"""Logs are looked at over several ticks, and the dirtiest one is cleaned after the last of them: what was seen of it
may not be true any more.

Where retention had removed all its closed segments meanwhile, the order raised and the logstore ended; after a cut it
named the active segment, of which records that were appended later were compacted away.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.maintenance.cleaning import LOGS_PER_TICK
from tests.unit.logstore.compaction.test_cleaning import (
    COMPACTED,
    EXCHANGE,
    READ,
    WATCH,
    CleaningHost,
    keyed_batch,
    topic,
)


def test_a_log_that_lost_its_segments_between_look_and_order_is_not_cleaned() -> None:
    host = CleaningHost()
    host.greet(EXCHANGE, READ, WATCH, WATCH + 10)
    configs = COMPACTED | {"cleanup.policy": "compact,delete"}
    host.lead(topic(configs=configs, partitions=LOGS_PER_TICK + 1))
    for key in "abab":
        assert host.append(keyed_batch(key)).error_code == ErrorCode.NONE
    host.flush()
    for _ in range(2):
        host.now_ms += 15_000
        host.core.tick(host.now_ms)
        host.settle()
    (log,) = [each.log for each in host.core.partitions if each.partition == 0]
    assert len(log.segments) > 1
    assert not log.is_being_cleaned

    log.move_log_start(log.segments.active.base_offset)
    log.retire_segments(len(log.segments) - 1)
    for _ in range(3):
        host.now_ms += 100
        host.core.tick(host.now_ms)
        host.settle()
    assert not log.is_being_cleaned
