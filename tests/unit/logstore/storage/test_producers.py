"""Idempotent producers: duplicates, sequences, epochs, and the snapshot that keeps them."""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.wire.errors import ErrorCode
from services.logstore.core.storage.effects import execute
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.producer_state import ProducerState, parse_snapshot
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import append, batch, new_log, refusal, settle

SEQUENCE_MAX = 2**31 - 1


def produced(sequence: int, records_count: int = 1, *, epoch: int = 0, producer_id: int = 1) -> bytes:
    return batch(records_count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


@pytest.fixture
def log() -> PartitionLog:
    return new_log(DiskModel())


def test_each_of_the_last_five_batches_is_a_duplicate_with_its_first_offset(log: PartitionLog) -> None:
    for sequence in range(0, 12, 2):
        append(log, produced(sequence, 2))
    for sequence in range(2, 12, 2):
        repeated = append(log, produced(sequence, 2))
        assert repeated.is_duplicate
        assert (repeated.base_offset, repeated.required_offset) == (sequence, sequence + 2)
    assert log.next_offset == 12


def test_the_sixth_last_batch_is_out_of_order(log: PartitionLog) -> None:
    for sequence in range(6):
        append(log, produced(sequence))
    assert refusal(log, produced(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_of_another_length_is_no_duplicate(log: PartitionLog) -> None:
    append(log, produced(0, 3))
    assert refusal(log, produced(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, produced(1, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_sequences_is_out_of_order_until_it_is_filled(log: PartitionLog) -> None:
    append(log, produced(0))
    assert refusal(log, produced(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, produced(1))
    append(log, produced(2))


def test_sequences_wrap_to_zero(log: PartitionLog) -> None:
    append(log, produced(SEQUENCE_MAX - 1, 4))
    assert refusal(log, produced(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, produced(2))
    assert append(log, produced(SEQUENCE_MAX - 1, 4)).base_offset == 0


def test_sequence_max_is_followed_by_zero(log: PartitionLog) -> None:
    append(log, produced(SEQUENCE_MAX))
    append(log, produced(0))
    assert log.next_offset == 2


def test_an_unknown_producer_may_start_anywhere(log: PartitionLog) -> None:
    append(log, produced(77, epoch=5))
    append(log, produced(78, epoch=5))


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one(log: PartitionLog) -> None:
    append(log, produced(0, epoch=1))
    assert refusal(log, produced(1, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, produced(0, epoch=2))
    assert refusal(log, produced(1, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, produced(0, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH, "not a duplicate of another epoch"
    assert append(log, produced(0, epoch=2)).is_duplicate


def test_producers_do_not_see_each_other(log: PartitionLog) -> None:
    append(log, produced(0, producer_id=1))
    append(log, produced(0, producer_id=2))
    append(log, produced(1, producer_id=1))
    assert log.next_offset == 3


def test_a_duplicate_of_a_batch_not_yet_written_waits_for_that_write() -> None:
    disk = DiskModel()
    log = new_log(disk)
    append(log, produced(0), token="first")
    write = log.take_write()
    append(log, produced(1), token="second")
    under_way = append(log, produced(0), token="first again")
    queued = append(log, produced(1), token="second again")
    assert write is not None
    assert (under_way.is_written, queued.is_written) == (False, False)
    execute(disk, write)
    assert log.on_written(write) == ["first", "first again"]
    assert settle(disk, log) == ["second", "second again"]
    assert append(log, produced(1), token="never comes back").is_written
    assert settle(disk, log) == []


def test_a_duplicate_reports_the_first_append_time() -> None:
    log = new_log(DiskModel(), TopicConfig(message_timestamp_type=LOG_APPEND_TIME))
    first = append(log, produced(0))
    repeated = log.append(memoryview(produced(0)), 0, 10**15, None)
    assert not isinstance(repeated, ErrorCode)
    assert repeated.log_append_time_ms == first.log_append_time_ms


def test_a_refused_batch_leaves_no_trace_in_the_state(log: PartitionLog) -> None:
    before = log.producers.snapshot()
    refusal(log, produced(0, epoch=0)[:-1])
    assert log.producers.snapshot() == before


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    state = ProducerState()
    for sequence in range(3):
        state.update(7, 1, sequence, 0, 100 + sequence, 5000 + sequence)
    state.update(8, 0, SEQUENCE_MAX, 1, 200, -1)
    entries = parse_snapshot(state.snapshot())
    assert entries is not None
    restored = ProducerState()
    restored.load(entries)
    assert restored.snapshot() == state.snapshot()
    assert restored.check(7, 1, 3, 0) is ErrorCode.NONE
    assert restored.check(8, 0, 1, 0) is ErrorCode.NONE
    assert restored.check(7, 1, 2, 0) == (2, 102, 0, 5002)


@pytest.mark.parametrize("damage", ["short", "cut", "flipped", "version", "count"])
def test_a_damaged_snapshot_is_not_believed(damage: str) -> None:
    state = ProducerState()
    state.update(7, 1, 0, 0, 0, 0)
    content = bytearray(state.snapshot())
    match damage:
        case "short":
            del content[5:]
        case "cut":
            del content[-1:]
        case "flipped":
            content[20] ^= 1
        case "version":
            content[1] = 2
        case _:
            content[9] = 200
    assert parse_snapshot(bytes(content)) is None
