"""Transactions in a log: what is stable, what is aborted, who may begin one; and all of it outlives the process."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker
from barnabas.wire.record_batch import Record, build_batch, iterate_headers
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import AbortedTransaction
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from barnabas_logstore.core.storage.log.state.producer_state import PRODUCERS_MAX
from barnabas_logstore.core.storage.segment.transaction_index import parse_transaction_index
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import (
    DIRECTORY,
    WALL_MS,
    aborted_of_records,
    append,
    batch,
    close,
    new_log,
    read,
    refusal,
    reopen,
    run_read,
    settle,
)
from tests.unit.logstore.storage.test_full_disk import no_room, run_full, take_back
from tests.unit.logstore.storage.test_truncation import cut

SMALL_SEGMENTS = TopicConfig(segment_bytes=500, index_interval_bytes=0)
TIMES = 40


def transactional(sequence: int, *, producer_id: int = 1, epoch: int = 0) -> bytes:
    records = [Record(b"k", b"v" * 20, WALL_MS)]
    return build_batch(
        records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    )


def write(log: PartitionLog, sequence: int, *, producer_id: int = 1, epoch: int = 0, version: int = 1) -> AppendOutcome:
    """Append a batch of a transaction that its coordinator has confirmed."""
    guard = log.begin_verification(producer_id, epoch, sequence, WALL_MS, supports_epoch_bump=version >= 2)
    records = memoryview(transactional(sequence, producer_id=producer_id, epoch=epoch))
    outcome = log.append(records, 0, WALL_MS, None, guard)
    assert isinstance(outcome, AppendOutcome), outcome
    return outcome


def end(
    log: PartitionLog,
    *,
    commit: bool,
    producer_id: int = 1,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 1,
) -> int | ErrorCode:
    """Append a marker. Return its offset, or why it is refused."""
    marker = Marker(commit, coordinator_epoch)
    outcome = log.append_marker(producer_id, epoch, marker, version, 0, WALL_MS, None)
    return outcome.base_offset if isinstance(outcome, AppendOutcome) else outcome


def stable(log: PartitionLog, high_watermark: int | None = None) -> int:
    watermark = log.log_end_offset if high_watermark is None else high_watermark
    return log.producers.transactions.last_stable_offset(watermark)


def aborted_of(log: PartitionLog) -> list[AbortedTransaction]:
    return [each for segment in log.segments.all() for each in segment.aborted.ending_from(0)]


def described(log: PartitionLog) -> tuple[object, ...]:
    """Everything that is derived from the batches of the log about transactions."""
    producers = sorted(
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.coordinator_epoch,
            each.transaction_first_offset,
        )
        for each in log.producers.entries()
    )
    return producers, list(log.producers.transactions.open), stable(log), aborted_of(log)


def check_rebuilt(disk: DiskModel, log: PartitionLog) -> None:
    """After a crash the log knows what it knew."""
    before = described(log)
    assert described(reopen(disk, log.config).log) == before


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


@pytest.fixture
def log(disk: DiskModel) -> PartitionLog:
    return new_log(disk)


def test_what_is_stable_ends_where_the_first_open_transaction_begins(disk: DiskModel, log: PartitionLog) -> None:
    append(log, batch())
    write(log, 0)
    write(log, 0, producer_id=2)
    append(log, batch())
    settle(disk, log)
    assert stable(log) == 1
    assert end(log, commit=True) == 4
    settle(disk, log)
    assert (stable(log, 4), stable(log)) == (1, 2), "a marker counts once it is committed itself"
    assert end(log, commit=False, producer_id=2) == 5
    settle(disk, log)
    assert (stable(log, 5), stable(log)) == (2, 6)
    assert log.producers.transactions.is_none
    assert aborted_of(log) == [AbortedTransaction(2, 2, 5, 6)]


def test_a_transaction_that_began_before_a_replicated_one_and_ended_after_it_holds_what_is_stable(
    disk: DiskModel, log: PartitionLog
) -> None:
    write(log, 0)
    write(log, 0, producer_id=2)
    end(log, commit=True, producer_id=2)
    end(log, commit=True)
    settle(disk, log)
    assert [stable(log, high_watermark) for high_watermark in (2, 3, 4)] == [0, 0, 4]


def test_only_a_confirmed_producer_begins_a_transaction(log: PartitionLog) -> None:
    assert refusal(log, transactional(0)) is ErrorCode.INVALID_TXN_STATE
    guard = log.begin_verification(1, 0, 0, WALL_MS, supports_epoch_bump=False)
    assert guard == log.begin_verification(1, 0, 0, WALL_MS, supports_epoch_bump=False)
    wrong = log.append(memoryview(transactional(0)), 0, WALL_MS, None, guard + 1)
    assert wrong is ErrorCode.INVALID_TXN_STATE
    assert isinstance(log.append(memoryview(transactional(0)), 0, WALL_MS, None, guard), AppendOutcome)
    assert log.begin_verification(1, 0, 1, WALL_MS, supports_epoch_bump=False) == 0, "it is open"
    append(log, transactional(1))


def test_a_confirmation_that_is_older_than_a_marker_is_worth_nothing(log: PartitionLog) -> None:
    """Without it, a late batch would open a transaction that nothing ends."""
    guard = log.begin_verification(1, 0, 0, WALL_MS, supports_epoch_bump=False)
    end(log, commit=False)
    late = log.append(memoryview(transactional(0)), 0, WALL_MS, None, guard)
    assert late is ErrorCode.INVALID_TXN_STATE
    again = log.begin_verification(1, 0, 0, WALL_MS, supports_epoch_bump=False)
    assert again != guard
    assert log.append(memoryview(transactional(0)), 0, WALL_MS, None, guard) is ErrorCode.INVALID_TXN_STATE


def test_the_first_batch_of_a_transaction_is_not_overtaken(log: PartitionLog) -> None:
    guard = log.begin_verification(1, 0, 0, WALL_MS, supports_epoch_bump=False)
    log.begin_verification(1, 0, 1, WALL_MS, supports_epoch_bump=False)
    second = log.append(memoryview(transactional(1)), 0, WALL_MS, None, guard)
    assert second is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_transaction_of_version_2_begins_with_sequence_0(log: PartitionLog) -> None:
    guard = log.begin_verification(1, 0, 5, WALL_MS, supports_epoch_bump=True)
    outcome = log.append(memoryview(transactional(5)), 0, WALL_MS, None, guard)
    assert outcome is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_in_the_middle_of_a_transaction_its_producer_writes_nothing_else(log: PartitionLog) -> None:
    write(log, 0)
    outside = batch(producer_id=1, producer_epoch=0, base_sequence=1)
    assert refusal(log, outside) is ErrorCode.INVALID_TXN_STATE
    append(log, batch(producer_id=2, producer_epoch=0, base_sequence=0))


def test_guards_expire_with_their_producers(log: PartitionLog) -> None:
    guard = log.begin_verification(1, 0, 0, WALL_MS, supports_epoch_bump=False)
    log.state.verification_guards.remove_expired(WALL_MS + 10, 10)
    assert log.begin_verification(1, 0, 0, WALL_MS, supports_epoch_bump=False) != guard


def test_a_marker_of_an_older_epoch_or_coordinator_is_refused(log: PartitionLog) -> None:
    write(log, 0, epoch=3)
    assert end(log, commit=False, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, commit=True, epoch=3, coordinator_epoch=7) == 1
    write(log, 1, epoch=3)
    assert end(log, commit=True, epoch=3, coordinator_epoch=6) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end(log, commit=True, epoch=3, coordinator_epoch=8) == 3


def test_a_marker_of_version_2_begins_the_next_epoch(log: PartitionLog) -> None:
    write(log, 0, version=2)
    assert end(log, commit=True, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH, "late: of the transaction before"
    assert end(log, commit=True, epoch=1, version=2) == 1
    assert end(log, commit=True, epoch=1, version=2) == 2, "it comes again after its answer was lost"
    late = log.append(memoryview(transactional(1)), 0, WALL_MS, None)
    assert late is ErrorCode.INVALID_PRODUCER_EPOCH
    write(log, 0, epoch=1, version=2)
    assert end(log, commit=True, epoch=1, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_of_the_last_epoch_is_never_late(log: PartitionLog) -> None:
    """No client has that epoch, but of what earlier releases gave it to; its coordinator can't raise it."""
    last = 2**15 - 1
    write(log, 0, epoch=last - 1, version=2)
    assert end(log, commit=True, epoch=last - 1, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, commit=True, epoch=last, version=2) == 1
    write(log, 0, epoch=last, version=2)
    assert end(log, commit=True, epoch=last - 1, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, commit=True, epoch=last, version=2) == 3
    assert stable(log, log.next_offset) == log.next_offset


def test_a_producer_with_an_open_transaction_is_not_forgotten(log: PartitionLog) -> None:
    write(log, 0)
    for producer_id in range(2, PRODUCERS_MAX + 40):
        log.producers.update(producer_id, 0, 0, 0, producer_id, WALL_MS)
    log.producers.remove_expired(10 * WALL_MS, 1)
    assert [each.producer_id for each in log.producers.entries()] == [1]
    assert log.producers.transactions.open == [(0, 1)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("config", [TopicConfig(), SMALL_SEGMENTS])
def test_transactions_outlive_the_process(disk: DiskModel, config: TopicConfig, clean: bool) -> None:
    log = new_log(disk, config)
    for number in range(8):
        write(log, number)
        write(log, number, producer_id=2)
        end(log, commit=number % 3 == 0)
        end(log, commit=number % 2 == 0, producer_id=2, coordinator_epoch=number)
        settle(disk, log)
    write(log, 8)
    settle(disk, log)
    before = described(log)
    assert stable(log) == 32
    if clean:
        close(disk, log)
    again = reopen(disk, config, recovery_point=log.recovery_point if clean else 0, shut_down_cleanly=clean).log
    assert described(again) == before
    assert end(again, commit=False) == 33
    settle(disk, again)
    assert stable(again) == 34
    assert aborted_of(again)[-1] == AbortedTransaction(1, 32, 33, 34)


def test_what_a_truncation_removes_of_a_transaction_is_open_again(disk: DiskModel) -> None:
    log = new_log(disk, SMALL_SEGMENTS)
    for number in range(6):
        write(log, number)
        end(log, commit=False)
        settle(disk, log)
    cut(disk, log, 9)
    assert log.producers.transactions.open == [(8, 1)]
    assert aborted_of(log) == [AbortedTransaction(1, first, first + 1, first + 2) for first in (0, 2, 4, 6)]
    check_rebuilt(disk, log)
    cut(disk, log, 0)
    assert (log.producers.transactions.open, aborted_of(log)) == ([], [])
    check_rebuilt(disk, log)


def test_a_marker_that_found_no_room_ends_nothing(disk: DiskModel) -> None:
    log = new_log(disk)
    write(log, 0)
    settle(disk, log)
    end(log, commit=False)
    write(log, 0, producer_id=2)
    disk.faults.append(no_room("write_at", ".log", written_bytes=30))
    run_full(disk, log)
    take_back(disk, log)
    assert log.producers.transactions.open == [(0, 1)]
    assert (stable(log), aborted_of(log)) == (0, [])
    assert end(log, commit=False) == 1
    settle(disk, log)
    assert (stable(log), aborted_of(log)) == (2, [AbortedTransaction(1, 0, 1, 2)])
    check_rebuilt(disk, log)


def test_a_follower_knows_what_the_leader_knows(disk: DiskModel, log: PartitionLog) -> None:
    for number in range(5):
        write(log, number)
        write(log, number, producer_id=2)
        end(log, commit=number % 2 == 0)
        if number % 2:
            end(log, commit=False, producer_id=2)
    settle(disk, log)
    follower_disk = DiskModel()
    follower = new_log(follower_disk, SMALL_SEGMENTS)
    for offset in range(log.log_end_offset):
        records = read(disk, log, offset, 1)
        assert isinstance(records, bytes)
        assert follower.append_replicated(memoryview(records), 0, WALL_MS) is None
    settle(follower_disk, follower)
    assert described(follower) == described(log)


def test_the_index_is_flushed_with_its_name_before_the_recovery_point_passes(disk: DiskModel) -> None:
    """Lost after a crash below the recovery point, it would make aborted records readable."""
    log = new_log(disk)
    write(log, 0)
    settle(disk, log)
    close(disk, log)
    end(log, commit=False)
    settle(disk, log)
    close(disk, log)
    disk.flush_directory("/")
    disk.lose_power(Random(1))
    again = reopen(disk, recovery_point=2, shut_down_cleanly=True).log
    assert again.log_end_offset == 2
    assert aborted_of(again) == [AbortedTransaction(1, 0, 1, 2)]


def test_a_flush_that_writes_the_first_entry_flushes_its_name_too(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(flush_messages=1))
    write(log, 0)
    settle(disk, log)
    disk.flush_directory("/")
    end(log, commit=False)
    settle(disk, log)
    disk.lose_power(Random(1))
    assert parse_transaction_index(disk.read_file(f"{DIRECTORY}/{0:020d}.txnindex")) == [AbortedTransaction(1, 0, 1, 2)]


def test_files_are_kafkas(disk: DiskModel, log: PartitionLog) -> None:
    write(log, 0)
    end(log, commit=False)
    settle(disk, log)
    content = disk.read_file(f"{DIRECTORY}/{0:020d}.txnindex")
    assert content.hex() == "0000" + "".join(f"{number:016x}" for number in (1, 0, 1, 2))
    ((_, header),) = list(iterate_headers(read(disk, log, 1)))  # type: ignore[arg-type]
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)


def test_recovery_leaves_the_index_on_the_disk_where_the_cleaner_reads_it(disk: DiskModel, log: PartitionLog) -> None:
    write(log, 0)
    end(log, commit=False)
    settle(disk, log)
    path = f"{DIRECTORY}/{0:020d}.txnindex"
    content = disk.read_file(path)
    reopen(disk)
    assert disk.read_file(path) == content


def test_retired_segments_take_their_index_along(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(segment_bytes=300, index_interval_bytes=0, retention_ms=-1))
    for number in range(4):
        write(log, number)
        end(log, commit=False)
        settle(disk, log)
    close(disk, log)
    log.retire_segments(2)
    effect = log.begin_retirement()
    assert effect is not None
    execute(disk, effect)
    log.retirement.done(effect)
    kept = {segment.base_offset for segment in log.segments.all()}
    names = {entry.name for entry in disk.list(DIRECTORY) if entry.name.endswith(".txnindex")}
    assert {int(name.partition(".")[0]) for name in names} <= kept


def aborted_for(disk: DiskModel, log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> list[AbortedTransaction]:
    plan = log.plan_read(offset, max_bytes, stable(log), min_one_batch=True)
    assert isinstance(plan, ReadPlan)
    records = log.finish_read(plan, run_read(disk, plan.effect))
    assert isinstance(records, memoryview)
    return aborted_of_records(disk, log, plan, records)


@pytest.mark.parametrize("config", [TopicConfig(), TopicConfig(index_interval_bytes=0), SMALL_SEGMENTS])
def test_a_fetch_learns_of_the_transactions_that_it_may_have_records_of(disk: DiskModel, config: TopicConfig) -> None:
    log = new_log(disk, config)
    write(log, 0, producer_id=9)
    for number in range(10):
        write(log, number)
        end(log, commit=False)
    end(log, commit=False, producer_id=9)
    settle(disk, log)
    for offset in range(log.log_end_offset):
        found = aborted_for(disk, log, offset, 1)
        own = {each for each in aborted_of(log) if each.first_offset <= offset <= each.last_offset}
        assert own <= set(found)
        assert all(each.last_offset >= offset for each in found)
    assert set(aborted_for(disk, log, 0)) <= set(aborted_of(log))


def test_a_torn_index_is_read_up_to_its_last_whole_entry(disk: DiskModel, log: PartitionLog) -> None:
    write(log, 0)
    end(log, commit=False)
    settle(disk, log)
    content = disk.read_file(f"{DIRECTORY}/{0:020d}.txnindex")
    assert parse_transaction_index(content + content[:-1]) == [AbortedTransaction(1, 0, 1, 2)]


@given(st.integers(0, 10_000))
def test_what_is_rebuilt_is_what_was_known(seed: int) -> None:
    """I12 and rule 19 for any history: opened again, cut, or replicated, a log knows the same of its transactions."""
    random, disk = Random(seed), DiskModel()
    config = random.choice([TopicConfig(), SMALL_SEGMENTS])
    log = new_log(disk, config)
    sequences = {1: 0, 2: 0, 3: 0}
    for _ in range(random.randrange(TIMES)):
        producer_id = random.choice(list(sequences))
        if random.random() < 0.6:
            write(log, sequences[producer_id], producer_id=producer_id)
            sequences[producer_id] += 1
        else:
            end(log, commit=random.random() < 0.5, producer_id=producer_id)
        if random.random() < 0.5:
            settle(disk, log)
    settle(disk, log)
    assert stable(log) == min([log.log_end_offset, *first_offsets(log.producers.transactions.open)])
    if random.random() < 0.5 and log.log_end_offset:
        cut(disk, log, random.randrange(log.log_end_offset))
    before = described(log)
    if random.random() < 0.5:
        close(disk, log)
        again = reopen(disk, config, recovery_point=log.recovery_point, shut_down_cleanly=True).log
        assert described(again) == before
    else:
        check_rebuilt(disk, log)


def first_offsets(opened: Iterable[tuple[int, int]]) -> list[int]:
    return [first_offset for first_offset, _ in opened]
