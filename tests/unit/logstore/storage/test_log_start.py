"""Where a log begins: DeleteRecords, retention, what goes with it, and what comes back after a crash."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.record_batch import iterate_headers
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.log.features.log_retention import RetentionOutcome
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.storage.support import (
    DIRECTORY,
    WALL_MS,
    append,
    batch,
    close,
    lookup,
    new_log,
    read,
    read_all,
    reopen,
    run_read,
    settle,
)

BATCH_BYTES = len(batch())
DAY_MS = 86_400_000


def config(**overrides: object) -> TopicConfig:
    few = {"segment_bytes": 4 * BATCH_BYTES, "index_interval_bytes": 0}
    values = {**few, "message_timestamp_after_max_ms": 10**15, **overrides}
    return TopicConfig(**values)  # type: ignore[arg-type]


def filled(disk: DiskModel, batches: int = 10, **overrides: object) -> PartitionLog:
    """Four batches of one record to a segment; each a day later than the one before, epochs by threes."""
    log = new_log(disk, config(**overrides))
    for number in range(batches):
        append(log, batch(timestamp_ms=WALL_MS + number * DAY_MS), leader_epoch=number // 3)
    settle(disk, log)
    return log


def retire(disk: DiskModel, log: PartitionLog, high_watermark: int, wall_ms: int = WALL_MS) -> list[str]:
    """Apply retention; the files that were renamed for it."""
    settle(disk, log)
    if log.apply_retention(high_watermark, wall_ms) is RetentionOutcome.ROLLED:
        settle(disk, log)
        log.apply_retention(high_watermark, wall_ms)
    effect = log.begin_retirement()
    if effect is None:
        return []
    execute(disk, effect)
    log.retirement.done(effect)
    return effect.retired_paths


def base_offsets(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments.all()]


def names(disk: DiskModel) -> set[str]:
    return {entry.name for entry in disk.list(DIRECTORY)}


# --- DeleteRecords ---


def test_deleted_records_are_out_of_range_and_time_lookups_pass_over_them() -> None:
    disk = DiskModel()
    log = filled(disk, retention_ms=-1)
    assert log.delete_records(6, 10) == 6
    assert read(disk, log, 5) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert read_all(disk, log) == [(offset, offset) for offset in range(6, 10)]
    assert lookup(disk, log, -2).offset == 6
    assert lookup(disk, log, WALL_MS).offset == 6
    assert lookup(disk, log, WALL_MS + 8 * DAY_MS).offset == 8
    assert log.leader_epochs.entries() == [(2, 6), (3, 9)]


def test_a_time_lookup_does_not_answer_with_deleted_records_of_the_batch_it_opens() -> None:
    disk = DiskModel()
    log = new_log(disk)
    append(log, batch(5, timestamp_ms=WALL_MS))
    settle(disk, log)
    log.delete_records(3, 5)
    assert lookup(disk, log, WALL_MS + 1).offset == 3
    assert lookup(disk, log, WALL_MS + 4).offset == 4


@pytest.mark.parametrize(
    ("offset", "high_watermark", "policy", "answer"),
    [
        (-1, 8, "delete", 8),
        (8, 8, "delete", 8),
        (9, 8, "delete", Refused(ErrorCode.OFFSET_OUT_OF_RANGE)),
        (-2, 8, "delete", Refused(ErrorCode.OFFSET_OUT_OF_RANGE)),
        (3, 8, "compact,delete", 3),
        (3, 8, "compact", Refused(ErrorCode.POLICY_VIOLATION)),
        (0, 8, "delete", 0),
    ],
)
def test_delete_records_answers_as_kafka_does(
    offset: int, high_watermark: int, policy: str, answer: int | Refused
) -> None:
    log = filled(DiskModel(), cleanup_policy=policy)
    assert log.delete_records(offset, high_watermark) == answer


def test_the_log_start_never_goes_back() -> None:
    log = filled(DiskModel())
    assert log.delete_records(7, 10) == 7
    assert log.delete_records(2, 10) == 7


def test_whole_segments_below_the_log_start_go_whatever_the_policy_says() -> None:
    disk = DiskModel()
    log = filled(disk, retention_ms=-1)
    log.delete_records(9, 10)
    log.state.config = config(cleanup_policy="compact")
    retired = retire(disk, log, 10)
    assert base_offsets(log) == [8]
    assert [path.removeprefix(f"{DIRECTORY}/") for path in retired if ".log" in path] == [
        f"{0:020d}.log.deleted",
        f"{4:020d}.log.deleted",
    ]
    assert f"{4:020d}.snapshot" not in names(disk)
    assert f"{8:020d}.snapshot" in names(disk)
    assert read_all(disk, log) == [(9, 9)]


# --- retention ---


@pytest.mark.parametrize(
    ("retention_bytes", "left"),
    [
        (-1, [0, 4, 8]),
        (10 * BATCH_BYTES, [0, 4, 8]),
        (7 * BATCH_BYTES, [0, 4, 8]),
        (6 * BATCH_BYTES, [4, 8]),
        (0, [10]),
    ],
)
def test_retention_by_size_keeps_at_least_that_much(retention_bytes: int, left: list[int]) -> None:
    disk = DiskModel()
    log = filled(disk, retention_bytes=retention_bytes, retention_ms=-1)
    retire(disk, log, 10)
    assert base_offsets(log) == left
    assert log.log_start_offset == left[0]


@pytest.mark.parametrize(("days", "left"), [(3, [0, 4, 8]), (4, [4, 8]), (8, [8]), (11, [10])])
def test_retention_by_time_goes_by_the_largest_timestamp_of_a_segment(days: int, left: list[int]) -> None:
    disk = DiskModel()
    log = filled(disk, retention_ms=DAY_MS)
    retire(disk, log, 10, WALL_MS + days * DAY_MS + 1)
    assert base_offsets(log) == left


def test_an_active_segment_whose_time_is_over_is_rolled_first_and_offsets_go_on() -> None:
    disk = DiskModel()
    log = filled(disk, 2, retention_ms=1)
    retire(disk, log, 2, WALL_MS + 9 * DAY_MS)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    assert append(log, batch()).base_offset == 2
    close(disk, log)
    again = reopen(disk, config(), recovery_point=3, shut_down_cleanly=True).log
    assert (again.log_start_offset, again.log_end_offset) == (2, 3)


def test_an_empty_log_is_left_alone() -> None:
    disk = DiskModel()
    log = new_log(disk, config(retention_ms=0))
    assert log.apply_retention(0, WALL_MS) is RetentionOutcome.NOTHING
    assert base_offsets(log) == [0]


def test_a_timestamp_in_the_future_keeps_a_segment() -> None:
    disk = DiskModel()
    log = filled(disk, retention_ms=0)
    assert retire(disk, log, 10, WALL_MS - DAY_MS) == []


def test_nothing_at_or_past_the_high_watermark_goes() -> None:
    disk = DiskModel()
    log = filled(disk, retention_ms=0)
    retire(disk, log, 7, WALL_MS + 99 * DAY_MS)
    assert base_offsets(log) == [4, 8]


def test_without_timestamps_the_age_of_the_file_counts() -> None:
    disk = DiskModel()
    log = new_log(disk, config(retention_ms=1000))
    for _ in range(5):
        append(log, batch(timestamp_ms=-1))
    settle(disk, log)
    disk.modified_wall_ms = WALL_MS
    assert retire(disk, log, 5, WALL_MS + 1000) == []
    assert retire(disk, log, 5, WALL_MS + 1001) != []
    assert base_offsets(log) == [5]


def test_a_compacted_topic_is_not_shortened_by_time_or_size() -> None:
    disk = DiskModel()
    log = filled(disk, retention_ms=0, retention_bytes=0, cleanup_policy="compact")
    assert retire(disk, log, 10, WALL_MS + 99 * DAY_MS) == []


def test_a_log_that_is_busy_keeps_its_active_segment_until_later() -> None:
    disk = DiskModel()
    log = filled(disk, 2, retention_ms=0)
    append(log, batch(timestamp_ms=WALL_MS))
    assert not log.apply_retention(3, WALL_MS + 9 * DAY_MS)
    assert base_offsets(log) == [0]


def test_files_are_not_renamed_under_a_flush_that_wants_them() -> None:
    disk = DiskModel()
    log = filled(disk, 5, retention_ms=0, flush_ms=100)
    flush = log.begin_due_flush(100)
    assert flush is not None
    assert log.apply_retention(4, WALL_MS + 9 * DAY_MS) is RetentionOutcome.RETIRED
    assert log.begin_retirement() is None
    execute(disk, flush)
    log.on_flushed(flush)
    assert log.begin_retirement() is not None
    assert not log.is_idle


def test_a_read_that_has_begun_goes_on_in_a_segment_that_is_retired() -> None:
    disk = DiskModel()
    log = filled(disk, retention_ms=0, index_interval_bytes=100)
    plan = log.plan_read(1, 10, 3, min_one_batch=True)
    assert isinstance(plan, ReadPlan)
    retire(disk, log, 10, WALL_MS + 99 * DAY_MS)
    answer = log.finish_read(plan, run_read(disk, plan.effect))
    while isinstance(answer, ReadBatchesEffect):
        answer = log.finish_read(plan, run_read(disk, answer))
    assert isinstance(answer, memoryview)
    assert [header.base_offset for _, header in iterate_headers(answer)] == [1]


# --- a crash, and the checkpoint ---


@pytest.mark.parametrize("seed", range(30))
def test_a_crash_among_the_renames_leaves_a_log_without_a_gap(seed: int) -> None:
    random = Random(seed)
    disk = DiskModel(chance=random)
    log = filled(disk, 30, retention_ms=0)
    close(disk, log)
    disk.flush_directory("/")
    assert log.apply_retention(25, WALL_MS + 99 * DAY_MS)
    effect = log.begin_retirement()
    assert effect is not None
    disk.faults.append(Fault("rename", "", DiskErrorKind.IO, skip=random.randrange(24)))
    with pytest.raises(Exception, match="EIO"):
        execute(disk, effect)
    disk.lose_power(random)
    again = reopen(disk, config(), recovery_point=30).log
    assert again.log_start_offset in range(0, 25, 4)
    assert read_all(disk, again) == [(offset, offset) for offset in range(again.log_start_offset, 30)]
    assert not any(name.endswith(".deleted") for name in names(disk))


@pytest.mark.parametrize("clean", [True, False])
def test_the_log_start_comes_from_the_checkpoint(clean: bool) -> None:
    disk = DiskModel()
    log = filled(disk)
    close(disk, log)
    again = reopen(disk, config(), recovery_point=10, shut_down_cleanly=clean, log_start_offset=6).log
    assert again.log_start_offset == 6
    assert again.leader_epochs.entries() == [(2, 6), (3, 9)]
    assert read_all(disk, again)[0] == (6, 6)


def test_a_log_never_begins_before_its_first_segment() -> None:
    disk = DiskModel()
    log = filled(disk, retention_ms=0)
    retire(disk, log, 7, WALL_MS + 99 * DAY_MS)
    close(disk, log)
    assert reopen(disk, config(), recovery_point=10, log_start_offset=1).log.log_start_offset == 4


def test_a_log_that_a_crash_left_shorter_than_its_start_starts_over_there() -> None:
    disk = DiskModel()
    log = filled(disk)
    close(disk, log)
    log = reopen(disk, config(), recovery_point=10, log_start_offset=50).log
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert append(log, batch(), leader_epoch=9).base_offset == 50
    close(disk, log)
    again = reopen(disk, config(), recovery_point=51, shut_down_cleanly=True, log_start_offset=50).log
    assert read_all(disk, again) == [(50, 50)]
    assert again.leader_epochs.entries() == [(9, 50)]


def test_epochs_of_records_that_a_crash_brings_back_are_known_again() -> None:
    """The log start was not written down, the leader epochs were."""
    disk = DiskModel()
    log = new_log(disk, TopicConfig(flush_ms=0))
    for epoch in (0, 0, 3, 3, 5):
        append(log, batch(2), leader_epoch=epoch)
        settle(disk, log)
    log.move_log_start(7)
    settle(disk, log, now_ms=1)
    assert log.leader_epochs.entries() == [(3, 7), (5, 8)]
    append(log, batch(2), leader_epoch=5)
    settle(disk, log, now_ms=2)
    rebuilt = reopen(disk, recovery_point=log.recovery_point).log
    assert rebuilt.log_start_offset == 0
    assert rebuilt.leader_epochs.entries() == [(0, 0), (3, 4), (5, 8)]
