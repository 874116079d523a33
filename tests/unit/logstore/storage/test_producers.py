"""Idempotent producers: duplicates, sequences, epochs, and the snapshot that keeps them."""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.producer_state import (
    BATCHES_KEPT,
    BATCHES_KEPT_MAX,
    PRODUCERS_MAX,
    PRODUCERS_WITH_MANY_BATCHES,
    ForgottenBatch,
    ProducerEntry,
    ProducerState,
    parse_snapshot,
    stray_snapshots,
)
from barnabas_logstore.core.storage.segment.segment import SNAPSHOT_SUFFIX
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import (
    DIRECTORY,
    WALL_MS,
    append,
    batch,
    close,
    new_log,
    refusal,
    reopen,
    settle,
)

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


def test_a_batch_that_has_left_the_window_is_a_duplicate_whose_place_is_not_known(log: PartitionLog) -> None:
    """With OUT_OF_ORDER_SEQUENCE_NUMBER a Java producer sent it until its delivery timeout, and called it failed."""
    for sequence in range(BATCHES_KEPT_MAX + 3):
        append(log, produced(sequence))
    for sequence in range(3):
        repeated = append(log, produced(sequence))
        assert (repeated.base_offset, repeated.is_duplicate) == (-1, True)
        assert repeated.required_offset == 3, "it counts when everything up to the oldest batch that is known does"
    assert append(log, produced(3)).base_offset == 3
    assert log.next_offset == BATCHES_KEPT_MAX + 3


def test_what_may_not_be_in_the_log_is_no_forgotten_duplicate(log: PartitionLog) -> None:
    """A producer that was not known began at 10."""
    for sequence in range(10, 18 + BATCHES_KEPT_MAX):
        append(log, produced(sequence))
    assert append(log, produced(10)).base_offset == -1
    assert refusal(log, produced(9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, produced(9, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, produced(17, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "part of it is in the window"


def test_a_run_of_sequences_begins_with_the_producers_epoch() -> None:
    state = ProducerState()
    for offset in range(10):
        state.update(1, 0, offset, 0, offset, WALL_MS)
    for offset in range(10, 18 + BATCHES_KEPT_MAX):
        state.update(1, 1, offset - 10, 0, offset, WALL_MS)
    assert state.check(1, 1, 0, 0) == ForgottenBatch(18)
    assert state.check(1, 1, 2**31 - 1, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_of_many_producers_five_batches_each_are_known() -> None:
    state = ProducerState()
    for producer_id in range(PRODUCERS_WITH_MANY_BATCHES + 1):
        for sequence in range(8):
            state.update(producer_id, 0, sequence, 0, producer_id * 8 + sequence, WALL_MS)
    last = PRODUCERS_WITH_MANY_BATCHES
    assert [len(entry.batches) for entry in state.entries()] == [8] * last + [BATCHES_KEPT]
    assert state.check(last, 0, 2, 0) == ForgottenBatch(last * 8 + 3)
    state.update(0, 0, 8, 0, 10_000, WALL_MS)
    assert len(state.entries()[0].batches) == BATCHES_KEPT


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
    write = log.begin_write()
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


# --- expiry ---

DAY_MS = 24 * 60 * 60 * 1000


def known(state: ProducerState) -> list[int]:
    return [entry.producer_id for entry in state.entries()]


def test_producers_expire_by_the_timestamp_of_their_last_batch() -> None:
    state = ProducerState()
    for producer_id, timestamp_ms in ((1, 1000), (2, 1001), (3, 5000)):
        state.update(producer_id, 0, 0, 0, producer_id, timestamp_ms)
    state.update(1, 0, 1, 0, 10, 4000)
    state.remove_expired(1000 + DAY_MS, DAY_MS)
    assert known(state) == [1, 2, 3]
    state.remove_expired(1001 + DAY_MS, DAY_MS)
    assert known(state) == [1, 3]
    restored = parse_snapshot(state.snapshot())
    assert restored is not None
    assert [entry.producer_id for entry in restored] == [1, 3]


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    state = ProducerState()
    state.load([ProducerEntry(1, 0, 1000, transaction_first_offset=5), ProducerEntry(2, 0, 1000)])
    state.remove_expired(DAY_MS * 10, DAY_MS)
    assert known(state) == [1]


def test_an_expired_producer_is_unknown_and_may_start_anywhere(log: PartitionLog) -> None:
    append(log, produced(0))
    log.producers.remove_expired(WALL_MS + DAY_MS, DAY_MS)
    append(log, produced(77))
    assert not append(log, produced(78)).is_duplicate
    assert append(log, produced(77)).is_duplicate


# --- a client that invents producer ids ---


def test_a_partition_knows_only_so_many_producers() -> None:
    state = ProducerState()
    for producer_id in range(PRODUCERS_MAX + 100):
        state.update(producer_id, 0, 0, 0, producer_id, WALL_MS)
    assert len(state) == PRODUCERS_MAX
    assert state.check(PRODUCERS_MAX + 99, 0, 5, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the newest is known"


def test_a_producer_that_goes_on_writing_stays_known_whatever_others_come() -> None:
    state = ProducerState()
    offset = 0
    for sequence in range(3 * PRODUCERS_MAX // 100):
        state.update(1, 0, sequence, 0, offset, WALL_MS)
        for invented in range(100):
            offset += 1
            state.update(1000 + offset, 0, invented, 0, offset, WALL_MS)
    assert len(state) == PRODUCERS_MAX
    assert state.check(1, 0, sequence + 1, 0) is ErrorCode.NONE
    assert state.check(1, 0, sequence + 2, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


# --- snapshots that no segment begins with ---


@pytest.mark.parametrize(
    ("snapshots", "segments", "strays"),
    [
        ([], [0], []),
        ([10, 20], [0, 10, 20], []),
        ([10, 25], [0, 10, 20], []),
        ([10, 12, 22, 25], [0, 10, 20], [12, 22]),
        ([5, 10], [7, 10], [5]),
        ([5, 9], [], [5]),
    ],
)
def test_of_stray_snapshots_the_newest_stays_where_it_is_ahead(
    snapshots: list[int], segments: list[int], strays: list[int]
) -> None:
    assert stray_snapshots(snapshots, segments) == strays


def test_clean_shutdowns_leave_one_snapshot_each_and_a_start_keeps_the_newest() -> None:
    disk = DiskModel()
    log = new_log(disk)
    for sequence in range(4):
        append(log, produced(sequence))
        close(disk, log)
        log = reopen(disk, recovery_point=sequence + 1, shut_down_cleanly=True).log
        snapshots = [entry.name for entry in disk.list(DIRECTORY) if entry.name.endswith(SNAPSHOT_SUFFIX)]
        assert snapshots == [f"{sequence + 1:020d}.snapshot"]
        assert append(log, produced(sequence)).is_duplicate
