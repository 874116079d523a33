"""What comes back after a crash, case by case; the property test beside it looks for cases that are missing here."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
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
FOUR_A_SEGMENT = TopicConfig(segment_bytes=4 * BATCH_BYTES, index_interval_bytes=0)


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


def path(base_offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def filled(disk: DiskModel, batches: int = 10, config: TopicConfig = FOUR_A_SEGMENT) -> PartitionLog:
    log = new_log(disk, config)
    for number in range(batches):
        append(log, batch(timestamp_ms=WALL_MS + number), leader_epoch=number // 3)
    settle(disk, log)
    return log


def flip(disk: DiskModel, name: str, position: int) -> None:
    file = disk.open(name)
    byte = disk.read_at(file, position, 1)[0]
    disk.write_at(file, position, (bytes([byte ^ 0xFF]),))


def test_after_a_clean_shutdown_nothing_is_scanned(disk: DiskModel) -> None:
    log = filled(disk)
    close(disk, log)
    flip(disk, path(0), 70)
    opened = reopen(disk, FOUR_A_SEGMENT, recovery_point=10, shut_down_cleanly=True)
    assert (opened.scanned_bytes, opened.dropped_bytes) == (0, 0)
    assert opened.log.log_end_offset == 10
    assert opened.log.leader_epochs.entries() == [(0, 0), (1, 3), (2, 6), (3, 9)]


def test_only_what_is_past_the_recovery_point_is_scanned(disk: DiskModel) -> None:
    log = filled(disk)
    assert log.recovery_point == 8
    opened = reopen(disk, FOUR_A_SEGMENT, recovery_point=8)
    assert (opened.scanned_bytes, opened.dropped_bytes) == (2 * BATCH_BYTES, 0)
    assert read_all(disk, opened.log) == [(offset, offset) for offset in range(10)]


@pytest.mark.parametrize("position", [0, 16, 20, 30, 60, 70])
def test_the_log_ends_at_the_first_bad_batch_and_later_segments_go(disk: DiskModel, position: int) -> None:
    filled(disk)
    flip(disk, path(4), BATCH_BYTES + position)
    opened = reopen(disk, FOUR_A_SEGMENT)
    assert opened.log.log_end_offset == 5
    assert opened.dropped_bytes == 3 * BATCH_BYTES + 2 * BATCH_BYTES
    assert not disk.exists(path(8))
    assert not disk.exists(path(8, ".index"))
    assert disk.size(disk.open(path(4))) == BATCH_BYTES
    assert opened.log.leader_epochs.entries() == [(0, 0), (1, 3)]


def test_a_torn_tail_is_cut(disk: DiskModel) -> None:
    filled(disk, 3)
    file = disk.open(path(0))
    disk.truncate(file, 3 * BATCH_BYTES - 1)
    assert reopen(disk, FOUR_A_SEGMENT).log.log_end_offset == 2
    assert disk.size(file) == 2 * BATCH_BYTES


def test_zeros_at_the_end_are_cut(disk: DiskModel) -> None:
    filled(disk, 3)
    file = disk.open(path(0))
    disk.write_at(file, 3 * BATCH_BYTES, (bytes(5000),))
    opened = reopen(disk, FOUR_A_SEGMENT)
    assert (opened.log.log_end_offset, opened.dropped_bytes) == (3, 5000)


def test_a_segment_with_a_hole_before_it_is_dropped(disk: DiskModel) -> None:
    filled(disk)
    disk.truncate(disk.open(path(4)), 3 * BATCH_BYTES)
    assert reopen(disk, FOUR_A_SEGMENT).log.log_end_offset == 7
    assert not disk.exists(path(8))


def test_batches_out_of_order_end_the_log(disk: DiskModel) -> None:
    filled(disk, 3)
    file = disk.open(path(0))
    disk.write_at(file, 3 * BATCH_BYTES, (disk.read_at(file, 0, BATCH_BYTES),))
    assert reopen(disk, FOUR_A_SEGMENT).log.log_end_offset == 3


def test_appends_go_on_after_recovery(disk: DiskModel) -> None:
    filled(disk)
    flip(disk, path(4), BATCH_BYTES)
    log = reopen(disk, FOUR_A_SEGMENT).log
    for _ in range(5):
        append(log, batch(), leader_epoch=9)
    settle(disk, log)
    assert read_all(disk, log) == [(offset, offset) for offset in range(10)]
    assert log.leader_epochs.entries() == [(0, 0), (1, 3), (9, 5)]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "zeros"])
def test_an_index_that_is_not_the_logs_is_rebuilt_even_after_a_clean_shutdown(
    disk: DiskModel, suffix: str, damage: str
) -> None:
    log = filled(disk)
    close(disk, log)
    sound = [(disk.read_file(path(0, suffix))), disk.read_file(path(8, suffix))]
    for base_offset in (0, 8):
        file = disk.open(path(base_offset, suffix))
        match damage:
            case "missing":
                disk.remove(path(base_offset, suffix))
            case "torn":
                disk.truncate(file, disk.size(file) - 1)
            case _:
                disk.write_at(file, disk.size(file), (bytes(24),))
    log = reopen(disk, FOUR_A_SEGMENT, recovery_point=10, shut_down_cleanly=True).log
    for segment, content in zip((log.segments.first, log.segments.active), sound, strict=True):
        index = segment.offset_index if suffix == ".index" else segment.time_index
        assert index.content() == content
    assert read_all(disk, log) == [(offset, offset) for offset in range(10)]


def test_a_clean_log_that_does_not_end_where_it_should_is_scanned_all_the_same(disk: DiskModel) -> None:
    log = filled(disk, 3)
    close(disk, log)
    disk.write_at(disk.open(path(0)), 3 * BATCH_BYTES, (b"surprise",))
    opened = reopen(disk, FOUR_A_SEGMENT, recovery_point=3, shut_down_cleanly=True)
    assert (opened.log.log_end_offset, opened.dropped_bytes) == (3, 8)


def test_without_its_epoch_checkpoint_a_log_reads_the_epochs_from_its_batches(disk: DiskModel) -> None:
    log = filled(disk)
    close(disk, log)
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    opened = reopen(disk, FOUR_A_SEGMENT, recovery_point=10, shut_down_cleanly=True)
    assert opened.log.leader_epochs.entries() == [(0, 0), (1, 3), (2, 6), (3, 9)]


def produced(log: PartitionLog, sequences: range, producer_id: int = 1) -> None:
    for sequence in sequences:
        append(log, batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence))


def test_producers_come_from_the_snapshot_and_the_batches_after_it(disk: DiskModel) -> None:
    log = new_log(disk, FOUR_A_SEGMENT)
    produced(log, range(4), producer_id=1)
    produced(log, range(3), producer_id=2)
    settle(disk, log)
    again = reopen(disk, FOUR_A_SEGMENT, recovery_point=log.recovery_point).log
    entries = {entry.producer_id: entry for entry in again.producers.entries()}
    assert entries[1].last_sequence == 3
    assert [produced_batch.last_offset for produced_batch in entries[2].batches] == [4, 5, 6]


def test_a_torn_snapshot_is_passed_over_for_an_older_one(disk: DiskModel) -> None:
    log = new_log(disk, FOUR_A_SEGMENT)
    produced(log, range(9))
    settle(disk, log)
    disk.truncate(disk.open(path(8, ".snapshot")), 20)
    again = reopen(disk, FOUR_A_SEGMENT, recovery_point=8).log
    assert [entry.last_sequence for entry in again.producers.entries()] == [8]
    assert append(again, batch(producer_id=1, producer_epoch=0, base_sequence=6)).is_duplicate


def test_a_snapshot_that_is_ahead_of_the_log_is_removed_for_good(disk: DiskModel) -> None:
    log = new_log(disk, FOUR_A_SEGMENT)
    produced(log, range(9))
    settle(disk, log)
    flip(disk, path(4), 2 * BATCH_BYTES)
    again = reopen(disk, FOUR_A_SEGMENT, recovery_point=4).log
    assert again.log_end_offset == 6
    assert [entry.last_sequence for entry in again.producers.entries()] == [5]
    for seed in range(20):
        disk.lose_power(Random(seed))
        assert not disk.exists(path(8, ".snapshot"))
        assert disk.exists(path(4, ".snapshot"))


def test_bytes_that_were_cut_do_not_come_back(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(flush_messages=1))
    for number in range(4):
        append(log, batch(timestamp_ms=WALL_MS + number))
    settle(disk, log)
    flip(disk, path(0), BATCH_BYTES + 30)
    reopen(disk)
    for seed in range(20):
        disk.lose_power(Random(seed))
        assert disk.size(disk.open(path(0))) <= BATCH_BYTES


def test_recovery_takes_the_recovery_point_back_to_what_it_rewrites(disk: DiskModel) -> None:
    log = filled(disk, 2)
    close(disk, log)
    assert log.recovery_point == 2
    again = reopen(disk, FOUR_A_SEGMENT, recovery_point=2).log
    assert again.recovery_point == 0


def test_leftovers_of_interrupted_work_are_removed(disk: DiskModel) -> None:
    filled(disk, 2)
    for name in ("leader-epoch-checkpoint.tmp", f"{3:020d}.index", f"{3:020d}.timeindex", f"{0:020d}.log.deleted"):
        disk.open(f"{DIRECTORY}/{name}", create=True)
    disk.open(f"{DIRECTORY}/notes.txt", create=True)
    reopen(disk, FOUR_A_SEGMENT)
    names = [entry.name for entry in disk.list(DIRECTORY)]
    assert names == [f"{0:020d}.index", f"{0:020d}.log", f"{0:020d}.timeindex", "notes.txt"]


def test_a_recovery_point_past_the_log_is_taken_back(disk: DiskModel) -> None:
    filled(disk, 2)
    assert reopen(disk, FOUR_A_SEGMENT, recovery_point=1000).log.recovery_point <= 2
