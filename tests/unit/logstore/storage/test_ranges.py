"""Ranges of files instead of records: the same bytes, however late they are read, or fewer."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import DeleteFilesEffect
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import WALL_MS, append, batch, new_log, read, reopen, run_read, settle
from tests.unit.logstore.storage.test_log_start import retire
from tests.unit.logstore.storage.test_truncation import cut

DAY_MS = 24 * 60 * 60 * 1000


def range_of(disk: DiskModel, log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> FileRange:
    plan = log.plan_read(offset, max_bytes, log.log_end_offset, min_one_batch=True, range_bytes_min=1)
    assert isinstance(plan, ReadPlan)
    found = log.finish_read(plan, run_read(disk, plan.effect))
    assert isinstance(found, FileRange)
    return found


def content(disk: DiskModel, found: FileRange) -> bytes:
    """What a sender finds there now."""
    return disk.read_at(found.file, found.position, found.length)  # type: ignore[arg-type]  # a model's file


def filled(disk: DiskModel, batches: int = 30, config: TopicConfig | None = None) -> PartitionLog:
    log = new_log(disk, config)
    for number in range(batches):
        append(log, batch(2, value_bytes=(10, 300, 5000)[number % 3]))
    settle(disk, log)
    return log


@pytest.mark.parametrize(
    "config", [TopicConfig(), TopicConfig(segment_bytes=12_000), TopicConfig(index_interval_bytes=0)]
)
@pytest.mark.parametrize("max_bytes", [1, 400, 6000, 1 << 20])
def test_a_range_has_the_bytes_of_a_read(config: TopicConfig, max_bytes: int) -> None:
    disk = DiskModel()
    log = filled(disk, config=config)
    for offset in range(60):
        assert content(disk, range_of(disk, log, offset, max_bytes)) == read(disk, log, offset, max_bytes)


def test_what_is_short_is_copied() -> None:
    disk = DiskModel()
    log = filled(disk)
    plan = log.plan_read(0, 300, 60, min_one_batch=True, range_bytes_min=301)
    assert isinstance(plan, ReadPlan)
    assert isinstance(log.finish_read(plan, run_read(disk, plan.effect)), memoryview)


def test_a_range_ends_where_another_program_has_cut_the_file() -> None:
    disk = DiskModel()
    log = filled(disk, 3)
    end = log.segments.active.byte_count
    disk.truncate(log.segments.active.file, end - 10)
    assert range_of(disk, log, 0).length == end - 10
    plan = log.plan_read(4, 100, 6, min_one_batch=True, range_bytes_min=1)
    assert isinstance(plan, ReadPlan)
    assert log.finish_read(plan, run_read(disk, plan.effect)) == b""


@pytest.mark.parametrize("config", [TopicConfig(), TopicConfig(segment_bytes=700)])
@pytest.mark.parametrize("offset", [0, 2, 3, 8, 14, 19])
def test_a_range_never_has_what_came_after_a_truncation(config: TopicConfig, offset: int) -> None:
    """An unclean election truncates what a slow client is still being sent."""
    disk = DiskModel()
    log = new_log(disk, config)
    for _ in range(10):
        append(log, batch(2))
    settle(disk, log)
    ranges = {start: range_of(disk, log, start) for start in range(0, 20, 2)}
    before = {start: content(disk, found) for start, found in ranges.items()}
    cut(disk, log, offset)
    for _ in range(10):
        append(log, batch(2, value_bytes=21), leader_epoch=7)
        settle(disk, log)
    for start, found in ranges.items():
        assert before[start].startswith(content(disk, found))


def test_a_log_that_was_cut_goes_on_in_another_segment_after_a_restart_too() -> None:
    disk = DiskModel()
    log = filled(disk, 10)
    found = range_of(disk, log, 4)
    before = content(disk, found)
    cut(disk, log, 11)
    again = reopen(disk, recovery_point=log.recovery_point).log
    assert again.next_offset == 10
    append(again, batch(2, value_bytes=77))
    settle(disk, again)
    assert before.startswith(content(disk, found))
    assert [segment.base_offset for segment in again.segments.all()] == [0, 10]
    assert read(disk, again, 10) == read(disk, log_of(disk), 10)


def log_of(disk: DiskModel) -> PartitionLog:
    return reopen(disk).log


def test_the_segment_that_was_cut_knows_its_largest_timestamp() -> None:
    disk = DiskModel()
    log = new_log(disk)
    for number in range(10):
        append(log, batch(1, timestamp_ms=WALL_MS + number))
        settle(disk, log)
    cut(disk, log, 6)
    closed = reopen(disk, recovery_point=6, shut_down_cleanly=True).log.segments.first
    assert closed.max_timestamp() == (WALL_MS + 5, 5)


def test_a_range_outlives_its_segment() -> None:
    disk = DiskModel()
    log = filled(disk, config=TopicConfig(segment_bytes=12_000, retention_ms=0))
    found = range_of(disk, log, 0)
    before = content(disk, found)
    execute(disk, DeleteFilesEffect("/data", retire(disk, log, 60, WALL_MS + 9 * DAY_MS)))
    assert read(disk, log, 0) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert content(disk, found) == before


@pytest.mark.parametrize("seed", range(20))
def test_ranges_of_a_log_that_is_cut_again_and_again(seed: int) -> None:
    random = Random(seed)
    disk = DiskModel()
    log = new_log(disk, TopicConfig(segment_bytes=2000, index_interval_bytes=random.choice((0, 300, 4096))))
    ranges: list[tuple[FileRange, bytes]] = []
    for epoch in range(12):
        for _ in range(random.randrange(12)):
            append(log, batch(random.randint(1, 3), value_bytes=random.randrange(300)), leader_epoch=epoch)
            settle(disk, log)
        if log.log_end_offset:
            found = range_of(disk, log, random.randrange(log.log_end_offset), random.randrange(4000))
            ranges.append((found, content(disk, found)))
            cut(disk, log, random.randint(0, log.log_end_offset))
        if random.random() < 0.3:
            log = reopen(disk, log.state.config, recovery_point=log.recovery_point).log
        for each, before in ranges:
            assert before.startswith(content(disk, each))
