"""At epoch 32766 a transactional id was stuck for ever, once in 32,767 transactions.

A time-out there raised the epoch to 32767 and gave no next producer id. The client was answered 32767, began its next
transaction with it, and its commit was acknowledged; but there was no epoch left to raise, and so the marker was
refused by the partition, as one of the transaction before: PREPARE_COMMIT for ever, a last stable offset that stood
still, and CONCURRENT_TRANSACTIONS for every producer of that id. The producer id has to change with the end of any
transaction of the last epoch, by its client or its coordinator; and what was stuck already has to complete.
"""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker
from barnabas_logstore.core.coordinator.transactions.records import read_record, transaction_record
from barnabas_logstore.core.coordinator.transactions.transaction import (
    ENDING,
    EPOCH_MAX,
    TopicPartition,
    Transaction,
    TransactionState,
)
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.coordinator.support import FakeLog
from tests.unit.logstore.storage.support import WALL_MS, new_log
from tests.unit.logstore.storage.test_transactions import stable, write
from tests.unit.logstore.transactions.support import BLOCK, FIRST_ID, ID, TIMEOUT_MS, TOPIC, WALL_AT_START_MS, World

LAST = EPOCH_MAX - 1
OLD_ID = 7


def stored(state: TransactionState, epoch: int, *, next_producer_id: int = -1) -> Transaction:
    is_under_way = state is TransactionState.ONGOING or state in ENDING
    return Transaction(
        ID,
        OLD_ID,
        TIMEOUT_MS,
        WALL_AT_START_MS,
        previous_producer_id=OLD_ID,
        next_producer_id=next_producer_id,
        producer_epoch=epoch,
        state=state,
        partitions=frozenset((TopicPartition(TOPIC, 0),) if is_under_way else ()),
        start_ms=WALL_AT_START_MS if is_under_way else -1,
        version=2,
    )


class Broker:
    """A coordinator, which begins with what its log has of the id, and the log of the partition that is written to."""

    def __init__(self, transaction: Transaction) -> None:
        log = FakeLog()
        log.append(0, [transaction_record(transaction)])
        self.world = World(log)
        self.partition: PartitionLog = new_log(DiskModel())

    def write(self, producer_id: int, epoch: int) -> None:
        write(self.partition, 0, producer_id=producer_id, epoch=epoch, version=2)

    def write_markers(self) -> None:
        """The partition's leader takes them, or they stay."""
        for _, each in self.world.markers.sent:
            is_commit = each.state is TransactionState.PREPARE_COMMIT
            marker, epoch = Marker(is_commit, self.world.epoch), each.producer_epoch
            if each.partitions:
                outcome = self.partition.append_marker(each.producer_id, epoch, marker, each.version, 0, WALL_MS, None)
                assert isinstance(outcome, AppendOutcome), outcome
        self.world.markers.write()
        self.world.turn()

    @property
    def is_stable(self) -> bool:
        return stable(self.partition, self.partition.next_offset) == self.partition.next_offset

    def check_that_it_goes_on(self, producer_id: int, epoch: int) -> None:
        """The next transaction of this producer is written, committed, and complete."""
        assert self.world.add_by_broker(producer_id, epoch, 0) == ErrorCode.NONE
        self.write(producer_id, epoch)
        ended = self.world.end(producer_id, epoch, commit=True, version=5)
        assert ended.error_code == ErrorCode.NONE
        self.write_markers()
        assert self.world.state() is TransactionState.COMPLETE_COMMIT
        assert self.is_stable


def after(epoch: int) -> tuple[int, int]:
    """Return the producer that follows one of this epoch."""
    return (FIRST_ID, 0) if epoch >= LAST else (OLD_ID, epoch + 1)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("epoch", [LAST - 1, LAST])
def test_a_time_out_at_the_last_epoch_changes_the_producer_id(epoch: int, moves: bool) -> None:
    broker = Broker(stored(TransactionState.EMPTY, epoch))
    world = broker.world
    assert world.add_by_broker(OLD_ID, epoch, 0) == ErrorCode.NONE
    broker.write(OLD_ID, epoch)
    world.advance(TIMEOUT_MS + 20_000)
    assert world.state() is TransactionState.PREPARE_ABORT
    if moves:
        world.fail_over()
    assert world.end(OLD_ID, epoch, commit=False, version=5).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    broker.write_markers()
    assert broker.is_stable
    if moves:
        world.fail_over()
    ended = world.end(OLD_ID, epoch, commit=False, version=5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, *after(epoch))
    found = world.init(producer_id=OLD_ID, producer_epoch=epoch)
    assert (found.error_code, found.producer_id, found.producer_epoch) == (0, *after(epoch))
    broker.check_that_it_goes_on(*after(epoch))


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("epoch", [LAST - 1, LAST, EPOCH_MAX])
def test_an_end_at_the_last_epoch_may_be_repeated(epoch: int, moves: bool, commit: bool) -> None:
    broker = Broker(stored(TransactionState.EMPTY, epoch))
    world = broker.world
    assert world.add_by_broker(OLD_ID, epoch, 0) == ErrorCode.NONE
    broker.write(OLD_ID, epoch)
    first = world.end(OLD_ID, epoch, commit=commit, version=5)
    assert (first.error_code, first.producer_id, first.producer_epoch) == (0, *after(epoch))
    if moves:
        world.fail_over()
    broker.write_markers()
    if moves:
        world.fail_over()
    for _ in range(2):
        again = world.end(OLD_ID, epoch, commit=commit, version=5)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (0, *after(epoch))
    assert world.end(OLD_ID, epoch, commit=not commit, version=5).error_code in (
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
    )
    broker.check_that_it_goes_on(*after(epoch))


@pytest.mark.parametrize("epoch", [LAST - 1, LAST, EPOCH_MAX])
def test_the_next_producer_of_an_id_gets_an_epoch(epoch: int) -> None:
    broker = Broker(stored(TransactionState.ONGOING, epoch))
    world = broker.world
    broker.write(OLD_ID, epoch)
    assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    broker.write_markers()
    assert broker.is_stable
    following, next_epoch = after(epoch)
    found = world.init()
    assert found.error_code == ErrorCode.NONE
    if epoch == LAST - 1:
        assert (found.producer_id, found.producer_epoch) == (FIRST_ID, 0), "the last one is left out"
    else:
        assert (found.producer_id, found.producer_epoch) == (following, next_epoch + 1)
    broker.check_that_it_goes_on(found.producer_id, found.producer_epoch)


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
@pytest.mark.parametrize("next_producer_id", [-1, 99])
def test_what_an_earlier_release_left_stuck_completes(state: TransactionState, next_producer_id: int) -> None:
    broker = Broker(stored(state, EPOCH_MAX, next_producer_id=next_producer_id))
    broker.write(OLD_ID, EPOCH_MAX)
    assert not broker.is_stable
    broker.write_markers()
    assert broker.is_stable
    assert broker.world.state() not in ENDING
    found = broker.world.init()
    assert found.error_code == ErrorCode.NONE
    broker.check_that_it_goes_on(found.producer_id, found.producer_epoch)


def test_there_is_no_next_id_yet() -> None:
    """The time-out waits for a block of ids, and what has the last epoch stays open until then."""
    broker = Broker(stored(TransactionState.ONGOING, LAST))
    world = broker.world
    broker.write(OLD_ID, LAST)
    ids = world.kind.producer_ids
    for each in range(FIRST_ID, FIRST_ID + BLOCK):
        assert ids.peek() == each
        ids.use(each)
    world.advance(TIMEOUT_MS + 20_000)
    assert world.state() is TransactionState.ONGOING
    assert ids.take_request()
    ids.block_received(5_000, 10)
    world.advance(20_000)
    assert world.state() is TransactionState.PREPARE_ABORT
    broker.write_markers()
    assert broker.is_stable
    assert (world.transaction().producer_id, world.transaction().producer_epoch) == (5_000, 0)
    ended = world.end(OLD_ID, LAST, commit=False, version=5)
    assert (ended.producer_id, ended.producer_epoch) == (5_000, 0)
    assert world.init(f"{ID}-2").producer_id == 5_001, "no id is given twice"


def test_the_record_has_the_next_producer_id() -> None:
    broker = Broker(stored(TransactionState.ONGOING, LAST))
    broker.world.advance(TIMEOUT_MS + 20_000)
    record = transaction_record(broker.world.transaction())
    found = read_record(record.key, record.value)
    assert found is not None
    assert found[1] is not None
    assert (found[1].producer_epoch, found[1].next_producer_id, found[1].version) == (EPOCH_MAX, FIRST_ID, 2)
    broker.write_markers()
    after_it = broker.world.transaction()
    assert (after_it.producer_id, after_it.producer_epoch, after_it.previous_producer_id) == (FIRST_ID, 0, OLD_ID)
    assert after_it.next_producer_id == -1
