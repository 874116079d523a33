"""A transaction may stay decided for ever if records of its state are lost, and a partition refuses its marker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from barnabas.cluster.internal_topics import partition_of_group
from barnabas.wire.markers import Marker, build_marker
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.coordinator.transactions.records import transaction_record
from barnabas_logstore.core.coordinator.transactions.transaction import TopicPartition, Transaction, TransactionState
from tests.sim.cluster import Cluster
from tests.sim.history import History
from tests.sim.promises import Promises
from tests.sim.replica_logs import Batch, BatchRegister
from tests.sim.transactions.cast import Transactions
from tests.sim.transactions.history import TransactionHistory
from tests.sim.transactions.shape import STATE_PARTITIONS, TransactionsShape

PRODUCER = 7
TARGET = (b"l" * 16, 0)
EMPTY = Transaction("id", PRODUCER, 60_000, 0, producer_epoch=15, version=2)
ONGOING = EMPTY._replace(state=TransactionState.ONGOING, partitions=frozenset([TopicPartition("ledger", 0)]))
PREPARED = ONGOING._replace(state=TransactionState.PREPARE_COMMIT, producer_epoch=16)
COMPLETE = EMPTY._replace(state=TransactionState.COMPLETE_COMMIT, producer_epoch=16)
NEXT = ONGOING._replace(producer_epoch=16)
STATES = [EMPTY, ONGOING, PREPARED, COMPLETE, NEXT]
"""Up to the next transaction of the producer."""


class Scene:
    """What is committed of the states of one transactional id, and in the partition that it writes to."""

    def __init__(self, states: list[Transaction]) -> None:
        history = History()
        self.promises = Promises(history)
        self.promises.elections._ids["ledger"] = [TARGET[0]]
        cluster = cast("Cluster", SimpleNamespace(promises=self.promises))
        transactions = TransactionHistory(history)
        transactions.ending(transactions.begun("client", "id", (PRODUCER, 15)), commit=True)
        self.transactions = Transactions(cluster, TransactionsShape(), transactions)
        self.log = self.transactions.observer.state_log(partition_of_group("id", STATE_PARTITIONS))
        for offset, state in enumerate(states):
            self.log.add([_at(offset, build_batch([transaction_record(state)]))])

    def write(self, *batches: bytes) -> None:
        book = self.promises.of(TARGET).book
        for data in batches:
            batch = _at(book.end, data)
            book.add([batch], batch.next_offset, 0)


def _at(offset: int, data: bytes) -> Batch:
    moved = bytearray(data)
    moved[:8] = offset.to_bytes(8)
    (batch,) = BatchRegister().take(bytes(moved))
    return batch


def _record(epoch: int) -> bytes:
    return build_batch([Record(None, b"v", 1)], producer_id=PRODUCER, producer_epoch=epoch, is_transactional=True)


def _marker(epoch: int) -> bytes:
    return build_marker(PRODUCER, epoch, Marker(True, 0), 1)


@pytest.mark.parametrize("epoch", [16, 17])
def test_what_a_coordinator_has_lost_may_keep_it_from_ending_a_transaction(epoch: int) -> None:
    """Seed 10000013 with exceptions: a power cut took the records behind PREPARE_COMMIT, of which one disk in sync had
    been enough. A partition had a later transaction of the producer, and refused the marker, as Kafka's does.
    """
    ended = [NEXT._replace(state=TransactionState.PREPARE_ABORT, producer_epoch=17)] if epoch == 17 else []
    scene = Scene([*STATES, *ended])
    scene.write(_record(15), _marker(16), _record(16), *([_marker(17)] if ended else []))
    assert scene.transactions.unfinished(["id"]) == ["id"]
    scene.log.cut(3)
    assert scene.transactions.is_given_up("id")
    assert not scene.transactions.unfinished(["id"])


@pytest.mark.parametrize(
    "written",
    [
        pytest.param([_record(15)], id="the marker is not refused"),
        pytest.param([_record(15), _marker(16)], id="it has come, and may come again"),
        pytest.param([_record(15), _marker(17)], id="no record that is lost had this epoch"),
    ],
)
def test_a_loss_alone_excuses_no_transaction_that_does_not_end(written: list[bytes]) -> None:
    scene = Scene(STATES)
    scene.write(*written)
    scene.log.cut(3)
    assert scene.transactions.unfinished(["id"]) == ["id"]


@pytest.mark.parametrize("end", [3, 1])
def test_without_that_loss_none_is_excused(end: int) -> None:
    """Nothing is lost, or what is lost leaves it undecided: its time-out ends it."""
    scene = Scene(STATES[:3] if end == 3 else [EMPTY, ONGOING, ONGOING])
    scene.write(_record(15), _marker(17))
    if end < 3:
        scene.log.cut(2)
    assert scene.transactions.unfinished(["id"]) == ["id"]
