"""A read_committed fetch walked over all later segments of its partition in the event loop, and opened a file of each.

With 3,000 segments that was 31 ms for a partition's first fetch, and on a cold disk the loop waited for each of them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import Records
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import AbortedTransaction, FoundAborted
from barnabas_logstore.core.storage.effects import FindAbortedEffect
from barnabas_logstore.core.storage.log.features.aborted_lookup import SEGMENTS_MAX, AbortedLookup
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.compiled import COUNTS, interpreted_only
from tests.sim.disk_model import DiskModel, ModelFile
from tests.unit.logstore.compaction.support import clean
from tests.unit.logstore.storage.support import WALL_MS, append, batch, close, new_log, reopen, run_read, settle
from tests.unit.logstore.storage.test_transactions import end, write

OPEN_PRODUCER = 9
BISECTION_LINES = 10
"""So many more may be run for three times as many segments."""


class CountingDisk(DiskModel):
    def __init__(self) -> None:
        super().__init__()
        self.opens: list[str] = []

    def open(self, path: str, *, create: bool = False) -> ModelFile:
        self.opens.append(path)
        return super().open(path, create=create)

    def take_opened(self) -> list[str]:
        opens, self.opens = self.opens, []
        return opens


def reopened(disk: CountingDisk, log: PartitionLog, config: TopicConfig) -> PartitionLog:
    """The log after a restart: nothing of its closed segments' files is in memory."""
    close(disk, log)
    log = reopen(disk, config, recovery_point=log.log_end_offset).log
    settle(disk, log)
    return log


def log_without(disk: CountingDisk, segments: int, aborted_from: int | None = None) -> PartitionLog:
    """A log whose segments have two batches each. From number `aborted_from` on each has a transaction that aborted."""
    config = TopicConfig(segment_bytes=150, index_interval_bytes=0)
    log = new_log(disk, config)
    for number in range(segments):
        if aborted_from is not None and number >= aborted_from:
            write(log, number - aborted_from)
            end(log, commit=False)
        else:
            append(log, batch(1, timestamp_ms=WALL_MS))
            append(log, batch(1, timestamp_ms=WALL_MS))
        settle(disk, log)
    return reopened(disk, log, config)


def read_at(disk: CountingDisk, log: PartitionLog, offset: int) -> tuple[ReadPlan, Records]:
    plan = log.plan_read(offset, 1, log.log_end_offset, min_one_batch=True)
    assert isinstance(plan, ReadPlan)
    records = log.finish_read(plan, run_read(disk, plan.effect))
    assert isinstance(records, memoryview)
    return plan, records


def look_up(
    disk: CountingDisk, log: PartitionLog, offset: int
) -> tuple[list[AbortedTransaction] | ErrorCode, list[FindAbortedEffect]]:
    """The aborted transactions of one batch, and what workers had to do. The event loop opens nothing for it."""
    plan, records = read_at(disk, log, offset)
    disk.take_opened()
    lookup = log.aborted_transactions(plan, records)
    effects: list[FindAbortedEffect] = []
    result: FoundAborted | None = None
    while not isinstance(lookup, list | ErrorCode):
        try:
            effect = lookup.send(result)
        except StopIteration as done:
            lookup = done.value
            break
        assert disk.take_opened() == []
        effects.append(effect)
        result = effect.result.of(execute(disk, effect))  # type: ignore[arg-type]  # the union of all
        disk.take_opened()
    assert disk.take_opened() == []
    return lookup, effects


def finish(disk: CountingDisk, lookup: AbortedLookup, effect: FindAbortedEffect) -> object:
    """The answer of a lookup that waits for `effect`."""
    while True:
        found = execute(disk, effect)
        assert isinstance(found, FoundAborted)
        try:
            effect = lookup.send(found)
        except StopIteration as done:
            return done.value


def lines_of(disk: CountingDisk, log: PartitionLog, offset: int) -> int:
    """How many lines the event loop runs for one lookup."""
    plan, records = read_at(disk, log, offset)
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        lookup = log.aborted_transactions(plan, records)
        if not isinstance(lookup, list | ErrorCode):
            lookup.send(None)
    finally:
        sys.settrace(None)
    return count


def test_segments_without_aborted_transactions_are_not_asked() -> None:
    disk = CountingDisk()
    log = log_without(disk, 100)
    assert len(log.segments) >= 100
    assert look_up(disk, log, 0) == ([], [])


@interpreted_only(COUNTS)
@pytest.mark.parametrize("aborted_from", [None, 0, 25])
def test_what_the_event_loop_does_is_independent_of_the_number_of_segments(aborted_from: int | None) -> None:
    counts = []
    for segments in (2 * SEGMENTS_MAX, 6 * SEGMENTS_MAX):
        disk = CountingDisk()
        counts.append(lines_of(disk, log_without(disk, segments, aborted_from), 0))
    assert counts[1] <= counts[0] + BISECTION_LINES, counts


def test_files_are_read_by_workers_and_only_once_if_they_do_not_matter() -> None:
    disk = CountingDisk()
    segments = 3 * SEGMENTS_MAX
    log = log_without(disk, segments, aborted_from=0)
    aborted, effects = look_up(disk, log, 0)
    assert [(each.first_offset, each.last_offset) for each in aborted] == [(0, 1)]  # type: ignore[union-attr]
    assert all(len(effect.paths) <= SEGMENTS_MAX for effect in effects)
    # From the second segment on no transaction can have begun before the end of the records.
    again, effects = look_up(disk, log, 0)
    assert again == aborted
    assert [len(effect.paths) for effect in effects] == [1]


def with_one_that_spans(disk: CountingDisk, segments: int, config: TopicConfig) -> PartitionLog:
    """A transaction is open while many others abort: its marker is in the last segment."""
    log = new_log(disk, config)
    write(log, 0, producer_id=OPEN_PRODUCER)
    for number in range(segments):
        write(log, number)
        end(log, commit=False)
        settle(disk, log)
    end(log, commit=False, producer_id=OPEN_PRODUCER)
    settle(disk, log)
    return reopened(disk, log, replace(config, segment_bytes=10_000))


def test_a_transaction_whose_marker_is_far_away_is_named_and_comes_first() -> None:
    disk = CountingDisk()
    log = with_one_that_spans(disk, 2 * SEGMENTS_MAX, TopicConfig(segment_bytes=150, index_interval_bytes=0))
    for _ in range(2):
        for offset in (0, 1, 101):
            aborted, effects = look_up(disk, log, offset)
            assert isinstance(aborted, list)
            assert aborted[0][:2] == (OPEN_PRODUCER, 0)
            assert [each.first_offset for each in aborted] == sorted(each.first_offset for each in aborted)
            assert all(len(effect.paths) <= SEGMENTS_MAX for effect in effects)
    # What does not matter has been read once, and is passed over.
    assert sum(len(effect.paths) for effect in look_up(disk, log, 101)[1]) <= 4


def test_a_segment_that_is_cleaned_while_its_index_is_read() -> None:
    disk = CountingDisk()
    log = with_one_that_spans(disk, 4, TopicConfig(segment_bytes=150, index_interval_bytes=0, cleanup_policy="compact"))
    plan, records = read_at(disk, log, 3)
    lookup = log.aborted_transactions(plan, records)
    assert not isinstance(lookup, list | ErrorCode)
    effect = lookup.send(None)
    clean(disk, log)
    result: FoundAborted = effect.result.of(execute(disk, effect))  # type: ignore[arg-type, assignment]
    assert None in result.files
    # What is there now is asked.
    effect = lookup.send(result)
    result = effect.result.of(execute(disk, effect))  # type: ignore[arg-type, assignment]
    with pytest.raises(StopIteration) as done:
        lookup.send(result)
    assert {each.first_offset for each in done.value.value} >= {0, 3}


@pytest.mark.parametrize("segment_bytes", [300, 500, 1_000])
def test_the_last_segment_of_one_turn_is_put_together_with_the_first_of_the_next(segment_bytes: int) -> None:
    """The one that has replaced both was passed over, and with it a transaction whose marker is there."""
    disk = CountingDisk()
    config = TopicConfig(segment_bytes=150, index_interval_bytes=0, cleanup_policy="compact")
    log = with_one_that_spans(disk, SEGMENTS_MAX, config)
    assert len(log.segments.with_aborted(0, 2 * SEGMENTS_MAX)) > SEGMENTS_MAX
    expected = look_up(disk, log, 0)[0]
    plan, records = read_at(disk, log, 0)
    lookup = log.aborted_transactions(plan, records)
    assert not isinstance(lookup, list | ErrorCode)
    effect = lookup.send(None)
    assert effect.paths == [], "all that is known does not matter"
    log.apply_config(config)
    append(log, batch(1, timestamp_ms=WALL_MS))
    log.apply_config(replace(config, segment_bytes=segment_bytes))
    settle(disk, log)
    clean(disk, log)
    assert finish(disk, lookup, effect) == expected
