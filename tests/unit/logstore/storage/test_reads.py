"""Fetches: where they begin, where they end, and how many reads they take."""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import iterate_headers, parse_header
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import (
    append,
    batch,
    close,
    new_log,
    read,
    read_counting_effects,
    reopen,
    run_read,
    settle,
)

BATCH_BYTES = len(batch(2))


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


@pytest.fixture
def log(disk: DiskModel) -> PartitionLog:
    """Ten batches of two records: [0, 1], [2, 3], …"""
    log = new_log(disk)
    for _ in range(10):
        append(log, batch(2))
    settle(disk, log)
    return log


def offsets(data: bytes | ErrorCode) -> list[int]:
    assert isinstance(data, bytes)
    return [header.base_offset for _, header in iterate_headers(data)]


def test_a_read_begins_with_the_batch_that_holds_the_offset(disk: DiskModel, log: PartitionLog) -> None:
    assert offsets(read(disk, log, 5)) == [4, 6, 8, 10, 12, 14, 16, 18]


def test_a_read_never_passes_the_high_watermark(disk: DiskModel, log: PartitionLog) -> None:
    assert offsets(read(disk, log, 5, upto_offset=10)) == [4, 6, 8]
    assert read(disk, log, 10, upto_offset=10) == b""
    assert read(disk, log, 12, upto_offset=10) == b""


def test_an_offset_outside_the_log_is_out_of_range(disk: DiskModel, log: PartitionLog) -> None:
    assert read(disk, log, -1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(disk, log, 21) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(disk, log, 20) == b""


def test_an_empty_log_has_nothing_to_read(disk: DiskModel) -> None:
    log = new_log(disk)
    assert read(disk, log, 0) == b""
    assert read(disk, log, 1) is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("max_bytes", [0, 1, 60, 61, BATCH_BYTES - 1, BATCH_BYTES])
def test_one_batch_is_read_whole_however_small_the_limit(disk: DiskModel, log: PartitionLog, max_bytes: int) -> None:
    data = read(disk, log, 2, max_bytes, min_one_batch=True)
    assert offsets(data) == [2]
    assert len(data) == BATCH_BYTES  # type: ignore[arg-type]  # offsets() has seen that these are bytes


@pytest.mark.parametrize("max_bytes", [0, 1, 61, BATCH_BYTES - 1])
def test_a_later_partition_gets_nothing_rather_than_a_torn_first_batch(
    disk: DiskModel, log: PartitionLog, max_bytes: int
) -> None:
    assert read(disk, log, 2, max_bytes, min_one_batch=False) == b""


def test_the_limit_may_tear_the_last_batch_as_kafka_does(disk: DiskModel, log: PartitionLog) -> None:
    data = read(disk, log, 0, BATCH_BYTES + 10, min_one_batch=False)
    assert isinstance(data, bytes)
    assert len(data) == BATCH_BYTES + 10
    assert offsets(data) == [0]


def test_a_tailing_consumer_needs_one_read_of_exactly_the_new_bytes(disk: DiskModel, log: PartitionLog) -> None:
    plan = log.plan_read(18, 1 << 20, 20, min_one_batch=True)
    assert isinstance(plan, ReadPlan)
    assert (plan.effect.part.position, plan.bytes_max) == (9 * BATCH_BYTES, BATCH_BYTES)
    assert isinstance(log.finish_read(plan, run_read(disk, plan.effect)), memoryview)


def test_the_end_of_a_segment_leads_on_to_the_next(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(segment_bytes=3 * BATCH_BYTES))
    for _ in range(7):
        append(log, batch(2))
    settle(disk, log)
    found = []
    offset = 0
    while offset < log.log_end_offset:
        found.append(offsets(read(disk, log, offset)))
        offset = found[-1][-1] + 2
    assert found == [[0, 2, 4], [6, 8, 10], [12]]


def many_batches(disk: DiskModel) -> PartitionLog:
    """3,000 batches of sizes that straddle the index interval: far more than the log remembers one by one."""
    log = new_log(disk)
    for number in range(3000):
        append(log, batch(1, value_bytes=(10, 50, 9000)[number % 3]))
    settle(disk, log)
    return log


def test_an_old_offset_is_found_through_the_index(disk: DiskModel) -> None:
    log = many_batches(disk)
    for offset in (0, 1, 2, 3, 500, 501, 502, 1499, 2000):
        data, effects = read_counting_effects(disk, log, offset, 1)
        assert offsets(data) == [offset]
        assert effects <= 3


def test_an_old_high_watermark_is_kept_to_the_byte(disk: DiskModel) -> None:
    log = many_batches(disk)
    for offset, upto_offset in ((0, 1), (0, 2), (400, 403), (7, 900), (899, 900)):
        data = read(disk, log, offset, 1 << 30, upto_offset)
        assert offsets(data) == list(range(offset, upto_offset))
        assert isinstance(data, bytes)
        assert sum(header.size_bytes for _, header in iterate_headers(data)) == len(data)


def test_reads_see_nothing_of_a_write_under_way(disk: DiskModel, log: PartitionLog) -> None:
    append(log, batch(2))
    write = log.begin_write()
    assert write is not None
    execute(disk, write)
    assert read(disk, log, 20) == b""
    assert offsets(read(disk, log, 18, upto_offset=22)) == [18]


def test_byte_positions_grow_across_segments_and_are_exact_at_the_tail(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(segment_bytes=3 * BATCH_BYTES))
    for _ in range(8):
        append(log, batch(2))
    settle(disk, log)
    assert [log.byte_position_of(offset) for offset in (0, 6, 12, 14, 16)] == [
        0,
        3 * BATCH_BYTES,
        6 * BATCH_BYTES,
        7 * BATCH_BYTES,
        8 * BATCH_BYTES,
    ]
    positions = [log.byte_position_of(offset) for offset in range(17)]
    assert positions == sorted(positions)


def test_a_finished_plan_knows_its_exact_position(disk: DiskModel) -> None:
    log = many_batches(disk)
    sizes = [len(batch(1, value_bytes=value_bytes)) for value_bytes in (10, 50, 9000)]
    plan = log.plan_read(1000, 100, 3000, min_one_batch=True)
    assert isinstance(plan, ReadPlan)
    answer = log.finish_read(plan, run_read(disk, plan.effect))
    while isinstance(answer, ReadBatchesEffect):
        answer = log.finish_read(plan, run_read(disk, answer))
    assert isinstance(answer, memoryview)
    assert parse_header(answer).base_offset == 1000
    assert plan.fetch_position == sum(sizes[number % 3] for number in range(1000))


def test_a_gap_that_compaction_left_at_a_segments_end_is_passed_over(disk: DiskModel) -> None:
    log = new_log(disk)
    append(log, batch(2))
    settle(disk, log)
    log.state.next_offset = log.state.log_end_offset = 10
    log.state.config = TopicConfig(segment_bytes=BATCH_BYTES)
    append(log, batch(2))
    settle(disk, log)
    assert offsets(read(disk, log, 5)) == [10]
    assert read(disk, log, 5, upto_offset=10) == b""


def test_a_file_that_somebody_cut_ends_a_read(disk: DiskModel, log: PartitionLog) -> None:
    disk.truncate(log.segments.active.file, 9 * BATCH_BYTES + 70)
    assert read(disk, log, 18) == b""
    disk.truncate(log.segments.active.file, 9 * BATCH_BYTES)
    assert read(disk, log, 18) == b""


def test_after_a_clean_restart_everything_is_found_again(disk: DiskModel) -> None:
    log = many_batches(disk)
    close(disk, log)
    again = reopen(disk, recovery_point=log.recovery_point, shut_down_cleanly=True).log
    for offset in (0, 1, 2, 1500, 2998, 2999):
        assert offsets(read(disk, again, offset, 1)) == [offset]
