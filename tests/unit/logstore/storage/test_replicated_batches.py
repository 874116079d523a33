"""Batches that a leader has: taken as they are, or not at all."""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import patch_offsets
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.features.replicated_batches import begins_before, begins_behind_wide_gap
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import WALL_MS, append, batch, new_log, read, read_all, reopen, settle


def placed(base_offset: int, leader_epoch: int = 0, records_count: int = 1, **fields: int) -> bytes:
    """A batch as it is in a leader's log."""
    made = bytearray(batch(records_count, **fields))
    patch_offsets(made, 0, base_offset, leader_epoch)
    return bytes(made)


def take(log: PartitionLog, records: bytes, leader_epoch: int = 9) -> ErrorCode | str | None:
    return log.append_replicated(memoryview(records), leader_epoch, WALL_MS)


@pytest.mark.parametrize("config", [TopicConfig(), TopicConfig(segment_bytes=250, index_interval_bytes=0)])
def test_a_log_becomes_what_the_leaders_is_byte_for_byte(config: TopicConfig) -> None:
    leader_disk, disk = DiskModel(), DiskModel()
    leader = new_log(leader_disk, config)
    for number in range(12):
        append(leader, batch(1 + number % 3), leader_epoch=number // 5)
        settle(leader_disk, leader)
    follower = new_log(disk, config)
    while follower.log_end_offset < leader.log_end_offset:
        data = read(leader_disk, leader, follower.log_end_offset, 300)
        assert isinstance(data, bytes)
        assert take(follower, data) is None
        settle(disk, follower)
    assert read_all(disk, follower) == read_all(leader_disk, leader)
    assert follower.leader_epochs.entries() == leader.leader_epochs.entries() == [(0, 0), (1, 9), (2, 19)]
    for segment in leader.segments.all():
        assert disk.read_file(segment.log_path) == leader_disk.read_file(segment.log_path)
    rebuilt = reopen(disk, config).log
    assert read_all(disk, rebuilt) == read_all(disk, follower)


def test_a_part_of_a_batch_at_the_end_is_passed_over() -> None:
    log = new_log(DiskModel())
    whole = placed(0) + placed(1)
    assert take(log, whole + placed(2)[:-1]) is None
    assert log.next_offset == 2


def test_a_gap_is_what_compaction_has_left() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(segment_bytes=100))
    assert take(log, placed(0) + placed(40) + placed(90)) is None
    settle(disk, log)
    assert read_all(disk, log) == [(0, 0), (40, 40), (90, 90)]
    assert read_all(disk, reopen(disk, TopicConfig(segment_bytes=100)).log) == [(0, 0), (40, 40), (90, 90)]


def test_an_empty_log_may_begin_behind_a_gap_wider_than_a_segment() -> None:
    disk = DiskModel()
    log = new_log(disk)
    assert begins_behind_wide_gap(log.state, memoryview(placed(2**31))) == 2**31
    assert begins_behind_wide_gap(log.state, memoryview(placed(2**31 - 1))) is None
    assert isinstance(take(log, placed(2**31)), str)
    assert (log.next_offset, log.begin_write()) == (0, None)
    assert take(log, placed(0)) is None
    assert begins_behind_wide_gap(log.state, memoryview(placed(2**31))) is None, "it is not empty any more"


def damaged(records: bytes, position: int) -> bytes:
    return records[:position] + bytes([records[position] ^ 1]) + records[position + 1 :]


@pytest.mark.parametrize(
    "records",
    [
        placed(5, 2) + damaged(placed(6, 2), 70),
        placed(5, 2) + damaged(placed(6, 2), 16),
        placed(5, 2) + placed(5, 2),
        placed(4, 2),
        placed(5, 0),
        placed(5, 3) + placed(6, 2),
        placed(5, 10),
        placed(5 + 2**31, 2),
        placed(5, 2)[:40],
        b"",
    ],
    ids=["crc", "magic", "repeated", "before", "old epoch", "epoch back", "later epoch", "wide gap", "torn", "nothing"],
)
def test_what_does_not_fit_changes_nothing(records: bytes) -> None:
    disk = DiskModel()
    log = new_log(disk)
    assert take(log, placed(0, 1, 5)) is None
    settle(disk, log)
    assert isinstance(take(log, records), str)
    assert (log.next_offset, log.begin_write()) == (5, None)
    assert log.leader_epochs.entries() == [(1, 0)]


def test_producers_are_followed_and_never_refused() -> None:
    log = new_log(DiskModel())
    first = placed(0, 0, 2, producer_id=3, producer_epoch=1, base_sequence=0)
    again = placed(2, 0, 2, producer_id=3, producer_epoch=1, base_sequence=0)
    skipped = placed(4, 0, 2, producer_id=3, producer_epoch=1, base_sequence=70)
    assert take(log, first + again + skipped) is None
    (producer,) = log.producers.entries()
    assert (producer.producer_epoch, producer.last_sequence) == (1, 71)


def test_an_epoch_led_without_a_record_has_no_place_among_those_of_others() -> None:
    log = new_log(DiskModel())
    assert take(log, placed(0, 1)) is None
    log.leader_epochs.assign(6, 1)
    assert take(log, placed(1, 2) + placed(2, 7)) is None
    assert log.leader_epochs.entries() == [(1, 0), (2, 1), (7, 2)]


def test_a_log_without_room_takes_nothing_and_forgets_what_it_could_not_write() -> None:
    disk = DiskModel()
    log = new_log(disk)
    assert take(log, placed(0) + placed(1)) is None
    write = log.begin_write()
    assert write is not None
    assert log.on_write_without_room(write, DiskError(DiskErrorKind.NO_SPACE, "write_at", "")) == []
    assert log.next_offset == 0
    assert take(log, placed(0)) is ErrorCode.KAFKA_STORAGE_ERROR
    undo = log.begin_taking_back()
    assert undo is not None
    log.disk_full.done(undo, execute(disk, undo))
    assert log.disk_full.accept_appends()
    assert take(log, placed(0)) is None
    settle(disk, log)
    assert read_all(disk, log) == [(0, 0)]


def test_where_a_batch_begins_that_a_log_start_has_cut() -> None:
    records = memoryview(placed(10, 0, 5))
    assert begins_before(records, 12) == 10
    assert begins_before(records, 10) is None
    assert begins_before(records, 15) is None
    assert begins_before(memoryview(b""), 3) is None
