"""A log that is cut: what is left of it, in memory and on the disk, whenever the machine stops."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import TruncateEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from tests.sim.disk_model import DiskModel, Fault, MachineStopped
from tests.unit.logstore.storage.support import append, batch, new_log, read_all, reopen, settle

SMALL_SEGMENTS = TopicConfig(segment_bytes=400, index_interval_bytes=0)
EPOCHS = ((0, 8), (1, 14), (4, 20))
"""(epoch, where it ends) of `written_log`, which has batches of two records."""


def written_log(disk: DiskModel, config: TopicConfig = SMALL_SEGMENTS) -> PartitionLog:
    log = new_log(disk, config)
    for epoch, end_offset in EPOCHS:
        while log.next_offset < end_offset:
            sequence = log.next_offset
            append(log, batch(2, producer_id=7, producer_epoch=0, base_sequence=sequence), leader_epoch=epoch)
            settle(disk, log)
    return log


def cut(disk: DiskModel, log: PartitionLog, offset: int, *, truncate_fully: bool = False) -> TruncateEffect:
    assert log.begin_truncation(offset, truncate_fully=truncate_fully)
    effect = log.truncation.begin_cut()
    log.on_truncated(effect, execute(disk, effect))
    return effect


def base_offsets(disk: DiskModel, log: PartitionLog) -> list[int]:
    return [base_offset for base_offset, _ in read_all(disk, log)]


def snapshot_of(producers: ProducerState) -> bytes:
    return producers.snapshot()


@pytest.mark.parametrize("config", [SMALL_SEGMENTS, TopicConfig(), TopicConfig(index_interval_bytes=0)])
@pytest.mark.parametrize("offset", range(0, 21, 2))
def test_a_cut_log_is_as_if_the_rest_had_never_been_appended(config: TopicConfig, offset: int) -> None:
    disk = DiskModel()
    log = written_log(disk, config)
    cut(disk, log, offset)
    assert (log.next_offset, log.log_end_offset, log.log_start_offset) == (offset, offset, 0)
    assert log.recovery_point <= offset
    assert base_offsets(disk, log) == list(range(0, offset, 2))
    starts = [(0, 0), (1, 8), (4, 14)]
    assert log.leader_epochs.entries() == [(epoch, start) for epoch, start in starts if start < offset]
    rebuilt = reopen(disk, config).log
    assert rebuilt.next_offset == offset
    assert rebuilt.leader_epochs.entries() == log.leader_epochs.entries()
    assert snapshot_of(rebuilt.producers) == snapshot_of(log.producers)


def test_a_batch_is_cut_as_a_whole() -> None:
    disk = DiskModel()
    log = written_log(disk)
    cut(disk, log, 11)
    assert log.next_offset == 10


def test_what_is_appended_after_a_cut_is_read_and_recovered() -> None:
    disk = DiskModel()
    log = written_log(disk)
    cut(disk, log, 10)
    for _ in range(5):
        append(log, batch(2, value_bytes=33), leader_epoch=5)
        settle(disk, log)
    assert base_offsets(disk, log) == list(range(0, 20, 2))
    rebuilt = reopen(disk, SMALL_SEGMENTS).log
    assert base_offsets(disk, rebuilt) == list(range(0, 20, 2))
    assert rebuilt.leader_epochs.entries() == [(0, 0), (1, 8), (5, 10)]


def test_a_log_starts_over_at_any_offset() -> None:
    disk = DiskModel()
    log = written_log(disk)
    cut(disk, log, 50, truncate_fully=True)
    assert (log.log_start_offset, log.next_offset) == (50, 50)
    assert log.leader_epochs.entries() == []
    assert log.producers.entries() == []
    append(log, batch(2), leader_epoch=9)
    settle(disk, log)
    assert base_offsets(disk, reopen(disk, SMALL_SEGMENTS).log) == [50]


def test_a_cut_before_the_logs_start_takes_everything() -> None:
    disk = DiskModel()
    log = written_log(disk)
    log.move_log_start(12)
    cut(disk, log, 6)
    assert (log.log_start_offset, log.next_offset) == (6, 6)


def test_the_recovery_point_is_back_before_anything_is_cut_and_flushes_do_not_move_it() -> None:
    disk = DiskModel()
    log = written_log(disk, replace(SMALL_SEGMENTS, flush_ms=0))
    settle(disk, log, now_ms=1)
    assert log.recovery_point == 20
    assert log.begin_truncation(10)
    assert log.recovery_point == log.segments.containing(10).base_offset
    assert log.begin_due_flush(10_000) is None
    assert not log.is_idle
    log.truncation.give_up()
    assert log.is_idle
    assert log.next_offset == 20


def test_nothing_is_cut_beside_other_work() -> None:
    disk = DiskModel()
    log = written_log(disk)
    append(log, batch(), leader_epoch=4)
    assert not log.begin_truncation(4)
    settle(disk, log)
    log.state.is_being_cleaned = True
    assert not log.begin_truncation(4)
    log.state.is_being_cleaned = False
    assert log.begin_truncation(4)


def test_without_room_nothing_is_cut_and_the_log_goes_on() -> None:
    disk = DiskModel()
    log = written_log(disk)
    before = snapshot_of(log.producers)
    disk.faults.append(Fault("write_at", kind=DiskErrorKind.NO_SPACE, written_bytes=3))
    assert log.begin_truncation(10)
    effect = log.truncation.begin_cut()
    with pytest.raises(DiskError) as failure:
        execute(disk, effect)
    assert failure.value.is_lack_of_room
    log.truncation.undo(effect)
    assert log.is_idle
    append(log, batch(2), leader_epoch=4)
    settle(disk, log)
    assert base_offsets(disk, log) == list(range(0, 22, 2))
    assert snapshot_of(log.producers) == before
    assert reopen(disk, SMALL_SEGMENTS).log.leader_epochs.entries() == [(0, 0), (1, 8), (4, 14)]


def test_once_it_is_cutting_a_lack_of_room_is_as_bad_as_any_failure() -> None:
    disk = DiskModel()
    log = written_log(disk)
    assert log.begin_truncation(10)
    disk.faults.append(Fault("remove", kind=DiskErrorKind.NO_SPACE))
    with pytest.raises(DiskError) as failure:
        execute(disk, log.truncation.begin_cut())
    assert not failure.value.is_lack_of_room


@given(st.integers(0, 2**32))
def test_a_crash_at_any_operation_leaves_a_log_that_opens_right(seed: int) -> None:
    """What it holds then is a prefix of what it held, at least what was to stay and flushed; and appends go on."""
    random = Random(seed)
    disk = DiskModel(chance=random)
    log = written_log(
        disk, TopicConfig(segment_bytes=random.choice((400, 100_000)), index_interval_bytes=0, flush_ms=0)
    )
    settle(disk, log, now_ms=1)
    disk.flush_directory("/data")
    disk.flush_directory("/")
    offset = random.randrange(0, 20, 2)
    truncate_fully = random.random() < 0.2
    assert log.begin_truncation(offset, truncate_fully=truncate_fully)
    effect = log.truncation.begin_cut()
    disk.interrupt_after = random.randrange(0, 30)
    try:
        log.on_truncated(effect, execute(disk, effect))
        append(log, batch(2, value_bytes=50), leader_epoch=6)
        settle(disk, log, now_ms=2)
    except MachineStopped:
        pass
    disk.interrupt_after = None
    disk.lose_power(random)
    # The checkpoint says what was written down before the cut.
    opened = reopen(disk, log.config, recovery_point=0 if truncate_fully else min(offset, log.recovery_point)).log
    found = base_offsets(disk, opened)
    if truncate_fully:
        assert found == list(range(found[0], found[-1] + 1, 2)) if found else opened.next_offset in (0, offset)
    else:
        assert found[: offset // 2] == list(range(0, offset, 2))
        assert found == list(range(0, 2 * len(found), 2))
    epochs = [epoch for epoch, _ in opened.leader_epochs.entries()]
    assert epochs == sorted(epochs)
    append(opened, batch(1), leader_epoch=7)
    settle(disk, opened)
