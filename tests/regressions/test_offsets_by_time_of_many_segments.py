"""A lookup of an offset by time walked over all segments of its partition in one turn of the event loop, and after a
restart it opened two files of each.

With thousands of segments other clients waited for that turn, and on a cold disk the loop for each of the files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import OffsetAtTimestamp
from barnabas_logstore.core.storage.effects import FindTimestampsEffect, OpenSegmentEffect
from barnabas_logstore.core.storage.log.features.timestamp_lookup import (
    MAX_TIMESTAMP,
    SEGMENTS_MAX,
    LookupEffect,
)
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.compiled import COUNTS, interpreted_only
from tests.regressions.test_aborted_transactions_of_many_segments import BISECTION_LINES, CountingDisk, reopened
from tests.unit.logstore.compaction.support import clean
from tests.unit.logstore.storage.support import WALL_MS, append, batch, new_log, settle

SEGMENTS = 3 * SEGMENTS_MAX + 5
CONFIG = TopicConfig(segment_bytes=200, index_interval_bytes=0)
LATE_MS = WALL_MS + 10_000


def with_segments(disk: CountingDisk, count: int = SEGMENTS, config: TopicConfig = CONFIG) -> PartitionLog:
    """Segments of two batches with one record, each a millisecond later than the one before."""
    log = new_log(disk, config)
    for number in range(2 * count):
        append(log, batch(1, timestamp_ms=WALL_MS + number))
    settle(disk, log)
    assert len(log.segments) == count
    return reopened(disk, log, config)


def ask(
    disk: CountingDisk,
    log: PartitionLog,
    timestamp_ms: int,
    meanwhile: Callable[[LookupEffect], None] = lambda effect: None,
    *,
    may_open: bool = False,
) -> tuple[OffsetAtTimestamp, list[LookupEffect]]:
    """The answer, and what workers had to do for it. The event loop opens nothing, unless it `may_open`; `meanwhile`
    is called before each effect is carried out.
    """
    lookup = log.lookup_timestamp(timestamp_ms, log.log_end_offset, lambda codec, data, limit: None)
    effects: list[LookupEffect] = []
    result = None
    while True:
        disk.take_opened()
        try:
            effect = lookup.send(result)  # type: ignore[arg-type]  # the union of all
        except StopIteration as done:
            assert may_open or disk.take_opened() == []
            return done.value, effects
        assert may_open or disk.take_opened() == []
        effects.append(effect)
        meanwhile(effect)
        result = execute(disk, effect)


def walks(effects: list[LookupEffect]) -> list[int]:
    """How many segments' files were asked for their largest timestamp, turn by turn."""
    return [len(effect.indexes) for effect in effects if isinstance(effect, FindTimestampsEffect)]


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [(WALL_MS + 2 * SEGMENTS - 2, 2 * SEGMENTS - 2), (MAX_TIMESTAMP, 2 * SEGMENTS - 1), (LATE_MS, -1)],
)
def test_a_turn_looks_at_some_segments_and_workers_open_their_files(timestamp_ms: int, offset: int) -> None:
    disk = CountingDisk()
    log = with_segments(disk)
    found, effects = ask(disk, log, timestamp_ms)
    assert found.offset == offset
    assert max(walks(effects)) <= SEGMENTS_MAX
    assert sum(walks(effects)) == SEGMENTS - 2, "a start learns the last two"
    # What has been read once is known, but a turn looks at as few.
    again, effects = ask(disk, log, timestamp_ms)
    assert again == found
    assert walks(effects) == [0] * (SEGMENTS // SEGMENTS_MAX)


def test_one_of_the_first_segments_is_found_at_once() -> None:
    disk = CountingDisk()
    log = with_segments(disk)
    found, effects = ask(disk, log, WALL_MS + 7)
    assert found.offset == 7
    assert walks(effects) == [SEGMENTS_MAX]
    assert walks(ask(disk, log, WALL_MS + 7)[1]) == []


def longest_turn(disk: CountingDisk, log: PartitionLog, timestamp_ms: int) -> int:
    """How many lines the event loop runs at most between two effects of a lookup."""
    lookup = log.lookup_timestamp(timestamp_ms, log.log_end_offset, lambda codec, data, limit: None)
    result: object = None
    count = longest = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    while True:
        count = 0
        sys.settrace(trace)  # type: ignore[arg-type]
        try:
            effect = lookup.send(result)  # type: ignore[arg-type]
        except StopIteration:
            return longest
        finally:
            sys.settrace(None)
            longest = max(longest, count)
        result = execute(disk, effect)


@interpreted_only(COUNTS)
@pytest.mark.parametrize("timestamp_ms", [MAX_TIMESTAMP, LATE_MS])
def test_what_a_turn_does_is_independent_of_the_number_of_segments(timestamp_ms: int) -> None:
    disks = [CountingDisk(), CountingDisk()]
    logs = [with_segments(disk, count * SEGMENTS_MAX) for disk, count in zip(disks, (3, 6), strict=True)]
    for _ in range(2):
        few, many = (longest_turn(disk, log, timestamp_ms) for disk, log in zip(disks, logs, strict=True))
        assert many <= few + BISECTION_LINES


def delete_oldest(disk: CountingDisk, log: PartitionLog, count: int) -> None:
    """They leave the log, and their files get their last names."""
    log.retire_segments(count)
    while (effect := log.begin_retirement()) is not None:
        execute(disk, effect)
        log.retirement.done(effect)


@pytest.mark.parametrize("kind", [FindTimestampsEffect, OpenSegmentEffect])
@pytest.mark.parametrize("timestamp_ms", [WALL_MS + 6, MAX_TIMESTAMP])
def test_segments_that_are_deleted_while_they_are_asked(timestamp_ms: int, kind: type[LookupEffect]) -> None:
    """The first that is left, and its records, are the answer."""
    disk = CountingDisk()
    log = with_segments(disk, 10)

    def meanwhile(effect: LookupEffect) -> None:
        if isinstance(effect, kind) and len(log.segments) == 10:
            delete_oldest(disk, log, 5)

    found, _ = ask(disk, log, timestamp_ms, meanwhile)
    assert len(log.segments) == 5
    assert found.offset == (19 if timestamp_ms == MAX_TIMESTAMP else 10)


def test_the_largest_timestamp_is_deleted_while_its_segment_is_opened() -> None:
    disk = CountingDisk()
    log = new_log(disk, CONFIG)
    for timestamp_ms in (5, 900, 7, 800, 30, 6):
        append(log, batch(1, timestamp_ms=WALL_MS + timestamp_ms))
    settle(disk, log)
    log = reopened(disk, log, CONFIG)

    def meanwhile(effect: LookupEffect) -> None:
        if isinstance(effect, OpenSegmentEffect) and len(log.segments) == 3:
            delete_oldest(disk, log, 1)

    found, _ = ask(disk, log, MAX_TIMESTAMP, meanwhile)
    assert found == OffsetAtTimestamp(WALL_MS + 800, 3, 0)


def with_distinct_keys(disk: CountingDisk, count: int, config: TopicConfig) -> PartitionLog:
    log = new_log(disk, config)
    for number in range(2 * count):
        append(log, build_batch([Record(b"%05d" % number, b"v", WALL_MS + number)]))
    settle(disk, log)
    assert len(log.segments) == count
    return reopened(disk, log, config)


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("timestamp_ms", [WALL_MS + 2 * SEGMENTS_MAX, MAX_TIMESTAMP, LATE_MS])
def test_segments_that_are_cleaned_while_they_are_asked(timestamp_ms: int, at: int) -> None:
    """Several become one, also the last of one turn and the first of the next. The keys differ: nothing is removed."""
    disk = CountingDisk()
    config = replace(CONFIG, cleanup_policy="compact")
    log = with_distinct_keys(disk, SEGMENTS_MAX + 6, config)
    log.apply_config(replace(config, segment_bytes=10_000))
    steps = [0]

    def meanwhile(effect: LookupEffect) -> None:
        if steps[0] == at:
            clean(disk, log)
        steps[0] += 1

    found, _ = ask(disk, log, timestamp_ms, meanwhile, may_open=True)
    last = 2 * (SEGMENTS_MAX + 6) - 1
    expected = {MAX_TIMESTAMP: last, LATE_MS: -1}
    assert found.offset == expected.get(timestamp_ms, timestamp_ms - WALL_MS)
