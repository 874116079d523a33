"""No room: nothing is torn, everything is taken back to what is written, and it goes on when there is room again."""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import FlushEffect, WriteEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.storage.support import (
    DIRECTORY,
    WALL_MS,
    append,
    batch,
    close,
    new_log,
    read_all,
    reopen,
    settle,
)

BATCH_BYTES = len(batch())
CONFIG = TopicConfig(segment_bytes=4 * BATCH_BYTES, index_interval_bytes=0)


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


def no_room(operation: str, path_part: str = "", *, written_bytes: int = 0, skip: int = 0) -> Fault:
    return Fault(operation, path_part, DiskErrorKind.NO_SPACE, skip=skip, written_bytes=written_bytes)


def run_full(disk: DiskModel, log: PartitionLog) -> list[object]:
    """Run what the log wants done until something finds no room; the tokens that come back for that."""
    while True:
        effect: WriteEffect | FlushEffect | None = log.begin_write() or log.begin_due_flush(0)
        assert effect is not None, "there was room"
        try:
            execute(disk, effect)
        except DiskError as error:
            if isinstance(effect, WriteEffect):
                return log.on_write_without_room(effect, error)
            log.on_flush_without_room(effect, error)
            return []
        if isinstance(effect, WriteEffect):
            log.on_written(effect)
        else:
            log.on_flushed(effect)


def take_back(disk: DiskModel, log: PartitionLog) -> None:
    effect = log.begin_taking_back()
    if effect is not None:
        log.disk_full.done(effect, execute(disk, effect))
    assert log.disk_full.accept_appends()


def check_like_reopened(disk: DiskModel, log: PartitionLog) -> None:
    """What the log knows is what its files say."""
    settle(disk, log)
    again = reopen(disk, log.config).log
    assert again.log_end_offset == log.log_end_offset == log.next_offset
    assert again.leader_epochs.entries() == log.leader_epochs.entries()
    assert [segment.base_offset for segment in again.segments.all() if segment.byte_count] == [
        segment.base_offset for segment in log.segments.all() if segment.byte_count
    ]
    last = {entry.producer_id: (entry.producer_epoch, entry.last_sequence) for entry in again.producers.entries()}
    assert last == {entry.producer_id: (entry.producer_epoch, entry.last_sequence) for entry in log.producers.entries()}


@pytest.mark.parametrize("written_bytes", [0, 1, BATCH_BYTES - 1, BATCH_BYTES, 2 * BATCH_BYTES - 1])
def test_a_write_that_finds_no_room_is_taken_back_whole(disk: DiskModel, written_bytes: int) -> None:
    log = new_log(disk, CONFIG)
    append(log, batch())
    settle(disk, log)
    for number in range(2):
        append(log, batch(timestamp_ms=WALL_MS + 5), leader_epoch=1 + number, token=number)
    disk.faults.append(no_room("write_at", ".log", written_bytes=written_bytes))
    assert run_full(disk, log) == [0, 1]
    assert log.append(memoryview(batch()), 3, WALL_MS, None) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.next_offset, log.log_end_offset, log.byte_count) == (1, 1, BATCH_BYTES)
    assert read_all(disk, log) == [(0, 0)]
    take_back(disk, log)
    assert disk.size(disk.open(f"{DIRECTORY}/{0:020d}.log")) == BATCH_BYTES
    assert append(log, batch(), leader_epoch=3).base_offset == 1
    check_like_reopened(disk, log)


def test_nothing_of_a_batch_that_was_taken_back_comes_back_after_a_crash(disk: DiskModel) -> None:
    log = new_log(disk, CONFIG)
    append(log, batch(timestamp_ms=1), token="lost")
    disk.faults.append(no_room("write_at", ".index", written_bytes=0))
    append(log, batch(timestamp_ms=2), token="lost too")
    assert run_full(disk, log) == ["lost", "lost too"]
    take_back(disk, log)
    assert log.log_end_offset == 0
    again = reopen(disk, CONFIG).log
    assert again.log_end_offset == 0


def test_what_was_queued_behind_a_failed_write_across_a_roll_goes_with_it(disk: DiskModel) -> None:
    log = new_log(disk, CONFIG)
    for number in range(11):
        append(log, batch(timestamp_ms=WALL_MS + number), leader_epoch=number // 2, token=number)
    disk.faults.append(no_room("write_at", f"{4:020d}.log", written_bytes=30))
    assert run_full(disk, log) == list(range(4, 11))
    assert [segment.base_offset for segment in log.segments.all()] == [0, 4]
    assert log.leader_epochs.entries() == [(0, 0), (1, 2), (2, 4)]
    take_back(disk, log)
    for number in range(4, 11):
        append(log, batch(timestamp_ms=WALL_MS + number), leader_epoch=9)
    check_like_reopened(disk, log)


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_no_room_for_the_files_of_a_new_segment(disk: DiskModel, suffix: str) -> None:
    log = new_log(disk, CONFIG)
    for number in range(6):
        append(log, batch(timestamp_ms=WALL_MS + number), token=number)
    disk.faults.append(no_room("open", f"{4:020d}{suffix}"))
    assert run_full(disk, log) == [4, 5]
    take_back(disk, log)
    assert append(log, batch()).base_offset == 4
    check_like_reopened(disk, log)
    close(disk, log)
    again = reopen(disk, CONFIG, recovery_point=5, shut_down_cleanly=True)
    assert (again.scanned_bytes, again.log.log_end_offset) == (0, 5)


def test_a_segment_that_was_only_partly_written_takes_batches_again(disk: DiskModel) -> None:
    log = new_log(disk, CONFIG)
    for number in range(2):
        append(log, batch(timestamp_ms=WALL_MS + number))
    settle(disk, log)
    for number in range(2, 6):
        append(log, batch(timestamp_ms=WALL_MS + number))
    disk.faults.append(no_room("write_at", f"{0:020d}.log"))
    run_full(disk, log)
    take_back(disk, log)
    assert log.segments.active.base_offset == 0
    assert log.segments.active.max_timestamp() == (WALL_MS + 1, 1)
    for number in range(2, 6):
        append(log, batch(timestamp_ms=WALL_MS + number))
    check_like_reopened(disk, log)
    assert [segment.base_offset for segment in log.segments.all()] == [0, 4]


# --- producers ---


def produce(log: PartitionLog, sequence: int, *, epoch: int = 0, producer_id: int = 1, token: object = None) -> None:
    records = batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    outcome = log.append(memoryview(records), 0, WALL_MS, token)
    assert not isinstance(outcome, ErrorCode), outcome
    assert not outcome.is_duplicate


def repeats(log: PartitionLog, sequence: int, *, epoch: int = 0, producer_id: int = 1) -> int | None:
    """The offset that a repeated batch is answered with; None if it is taken for a new one."""
    outcome = append(log, batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))
    return outcome.base_offset if outcome.is_duplicate else None


def test_producers_are_what_they_had_written_and_their_window_does_not_shrink(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(segment_bytes=3 * len(batch(producer_id=1, producer_epoch=0, base_sequence=0))))
    for sequence in range(7):
        produce(log, sequence)
    settle(disk, log)
    produce(log, 7)
    produce(log, 0, producer_id=2)
    disk.faults.append(no_room("write_at", ".log"))
    run_full(disk, log)
    take_back(disk, log)
    assert [entry.producer_id for entry in log.producers.entries()] == [1]
    assert [repeats(log, sequence) for sequence in (3, 4, 5, 6)] == [3, 4, 5, 6]
    produce(log, 7)
    check_like_reopened(disk, log)


def test_a_producer_whose_whole_window_was_not_written_is_known_as_before(disk: DiskModel) -> None:
    log = new_log(disk, CONFIG)
    for sequence in range(3):
        produce(log, sequence, epoch=4)
    settle(disk, log)
    for sequence in range(6):
        produce(log, sequence, epoch=5)
    disk.faults.append(no_room("write_at", ".log"))
    run_full(disk, log)
    take_back(disk, log)
    assert repeats(log, 2, epoch=4) == 2
    produce(log, 3, epoch=4)
    produce(log, 0, epoch=5)
    check_like_reopened(disk, log)


# --- flushes ---


@pytest.mark.parametrize(
    ("operation", "path_part"),
    [
        ("replace_file", "leader-epoch-checkpoint"),
        ("open", ".snapshot"),
        ("write_at", ".snapshot"),
        ("write_at", f"{0:020d}.index"),
        ("write_at", f"{0:020d}.timeindex"),
    ],
)
def test_a_flush_without_room_is_repeated(disk: DiskModel, operation: str, path_part: str) -> None:
    log = new_log(disk, CONFIG)
    for number in range(4):
        append(log, batch(timestamp_ms=WALL_MS + number, producer_id=1, producer_epoch=0, base_sequence=number))
    write = log.begin_write()
    assert write is not None
    execute(disk, write)
    log.on_written(write)
    append(log, batch())
    second = log.begin_write()
    assert second is not None
    execute(disk, second)
    log.on_written(second)
    log.segments.first.save_whole_indexes()
    disk.faults.append(no_room(operation, path_part))
    assert run_full(disk, log) == []
    assert disk.faults[-1].hits == 1
    assert log.recovery_point == 0
    take_back(disk, log)
    settle(disk, log)
    assert log.recovery_point == 4
    assert disk.exists(f"{DIRECTORY}/{4:020d}.snapshot")
    again = reopen(disk, CONFIG, recovery_point=4).log
    assert again.log_end_offset == 5
    assert again.segments.first.offset_index.content() == log.segments.first.offset_index.content()
    assert [entry.last_sequence for entry in again.producers.entries()] == [3]


def test_a_write_with_a_flush_counts_only_with_it_and_is_taken_back_without(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(flush_messages=1))
    append(log, batch(), leader_epoch=3, token="refused")
    disk.faults.append(no_room("replace_file", "leader-epoch-checkpoint"))
    assert run_full(disk, log) == ["refused"]
    take_back(disk, log)
    assert (log.log_end_offset, log.recovery_point) == (0, 0)
    append(log, batch(), leader_epoch=3)
    settle(disk, log)
    assert (log.log_end_offset, log.recovery_point) == (1, 1)
    check_like_reopened(disk, log)


def test_a_flush_that_fails_is_no_lack_of_room_whatever_it_says() -> None:
    assert DiskError(DiskErrorKind.NO_SPACE, "write", "/x").is_lack_of_room
    assert not DiskError(DiskErrorKind.NO_SPACE, "flush", "/x").is_lack_of_room
    assert not DiskError(DiskErrorKind.NO_SPACE, "flush directory", "/x").is_lack_of_room
    assert not DiskError(DiskErrorKind.IO, "write", "/x").is_lack_of_room


def test_a_log_is_not_closed_cleanly_while_something_is_left_to_be_taken_back(disk: DiskModel) -> None:
    log = new_log(disk, CONFIG)
    append(log, batch())
    disk.faults.append(no_room("write_at", ".log", written_bytes=10))
    run_full(disk, log)
    assert not log.is_durable
    take_back(disk, log)
    close(disk, log)
    assert log.is_durable


def test_the_files_of_a_roll_by_retention_go_when_there_is_no_room_for_all(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(retention_ms=0))
    append(log, batch())
    settle(disk, log)
    disk.faults.append(no_room("open", f"{1:020d}.timeindex"))
    assert not log.apply_retention(1, WALL_MS + 1000)
    assert not disk.exists(f"{DIRECTORY}/{1:020d}.log")
    append(log, batch())
    check_like_reopened(disk, log)
