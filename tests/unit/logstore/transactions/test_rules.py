"""What each request makes of a transaction in each of its states, and who is refused."""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.transactions.rules import (
    Fenced,
    Producer,
    abort_timed_out,
    add_partitions,
    end_transaction,
    init_producer_id,
    verify_partitions,
)
from barnabas_logstore.core.coordinator.transactions.transaction import (
    EPOCH_MAX,
    TopicPartition,
    Transaction,
    TransactionState,
)

FRESH = 99
NOW_MS = 1_000
PRODUCER = Producer(7, 5)
PARTITION, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
STATES = TransactionState


def transaction(state: STATES, *, epoch: int = 5, last_epoch: int = -1, previous: int = 7) -> Transaction:
    is_under_way = state in (STATES.ONGOING, STATES.PREPARE_COMMIT, STATES.PREPARE_ABORT)
    return Transaction(
        "id",
        7,
        60_000,
        NOW_MS - 10,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=previous,
        state=state,
        partitions=frozenset((PARTITION,) if is_under_way else ()),
        start_ms=NOW_MS - 10,
    )


def end(known: Transaction, *, commit: bool, version: int, producer: Producer = PRODUCER) -> Transaction | ErrorCode:
    return end_transaction(known, producer, version, FRESH, NOW_MS, commit=commit)


@pytest.mark.parametrize(
    ("state", "commits", "aborts"),
    [
        (STATES.EMPTY, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (STATES.ONGOING, STATES.PREPARE_COMMIT, STATES.PREPARE_ABORT),
        (STATES.PREPARE_COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (STATES.PREPARE_ABORT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (STATES.COMPLETE_COMMIT, ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
        (STATES.COMPLETE_ABORT, ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE),
    ],
)
def test_an_end_of_version_1(state: STATES, commits: ErrorCode | STATES, aborts: ErrorCode | STATES) -> None:
    for commit, expected in ((True, commits), (False, aborts)):
        outcome = end(transaction(state), commit=commit, version=0)
        if isinstance(outcome, Transaction):
            assert (outcome.state, outcome.producer_epoch) == (expected, 5)
        else:
            assert outcome is expected


@pytest.mark.parametrize(
    ("state", "commits", "aborts"),
    [
        (STATES.EMPTY, ErrorCode.INVALID_TXN_STATE, STATES.PREPARE_ABORT),
        (STATES.ONGOING, STATES.PREPARE_COMMIT, STATES.PREPARE_ABORT),
        (STATES.PREPARE_COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (STATES.PREPARE_ABORT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (STATES.COMPLETE_COMMIT, ErrorCode.INVALID_TXN_STATE, STATES.PREPARE_ABORT),
        (STATES.COMPLETE_ABORT, ErrorCode.INVALID_TXN_STATE, STATES.PREPARE_ABORT),
    ],
)
def test_an_end_of_version_2(state: STATES, commits: ErrorCode | STATES, aborts: ErrorCode | STATES) -> None:
    for commit, expected in ((True, commits), (False, aborts)):
        outcome = end(transaction(state), commit=commit, version=2)
        if isinstance(outcome, Transaction):
            assert (outcome.state, outcome.producer_epoch, outcome.last_producer_epoch) == (expected, 6, 5)
        else:
            assert outcome is expected


@pytest.mark.parametrize(
    ("state", "commits", "aborts"),
    [
        (STATES.EMPTY, ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
        (STATES.ONGOING, ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
        (STATES.PREPARE_COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (STATES.PREPARE_ABORT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (STATES.COMPLETE_COMMIT, ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
        (STATES.COMPLETE_ABORT, ErrorCode.PRODUCER_FENCED, ErrorCode.NONE),
    ],
)
def test_an_end_of_version_2_that_comes_again(state: STATES, commits: ErrorCode, aborts: ErrorCode) -> None:
    """It has the epoch before: its first copy has raised it."""
    for commit, expected in ((True, commits), (False, aborts)):
        assert end(transaction(state, epoch=6), commit=commit, version=2) is expected


def test_the_last_epoch_of_version_2_is_followed_by_another_producer_id() -> None:
    known = transaction(STATES.ONGOING, epoch=EPOCH_MAX - 1)
    producer = Producer(7, EPOCH_MAX - 1)
    prepared = end(known._replace(version=2), commit=True, version=2, producer=producer)
    assert isinstance(prepared, Transaction)
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, EPOCH_MAX, FRESH)
    completed = prepared.completed(NOW_MS)
    assert (completed.producer_id, completed.producer_epoch, completed.previous_producer_id) == (FRESH, 0, 7)
    assert end(completed, commit=True, version=2, producer=producer) is ErrorCode.NONE, "it comes again"


@pytest.mark.parametrize("version", [0, 2])
def test_who_is_not_the_producer_ends_nothing(version: int) -> None:
    known = transaction(STATES.ONGOING)
    for producer, error in (
        (Producer(8, 5), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Producer(7, 4), ErrorCode.PRODUCER_FENCED),
        (Producer(7, 6), ErrorCode.PRODUCER_FENCED),
    ):
        assert end(known, commit=True, version=version, producer=producer) is error
        assert add_partitions(known, producer, {OTHER}, version, NOW_MS) is error
        assert verify_partitions(known, producer, [PARTITION]) is error


@pytest.mark.parametrize("state", [STATES.EMPTY, STATES.COMPLETE_COMMIT, STATES.COMPLETE_ABORT])
def test_the_first_partition_begins_a_transaction(state: STATES) -> None:
    known = add_partitions(transaction(state), PRODUCER, {PARTITION}, 2, NOW_MS)
    assert isinstance(known, Transaction)
    assert (known.state, known.partitions, known.start_ms) == (STATES.ONGOING, {PARTITION}, NOW_MS)
    more = add_partitions(known, PRODUCER, {OTHER}, 2, NOW_MS + 1)
    assert isinstance(more, Transaction)
    assert (more.partitions, more.start_ms) == ({PARTITION, OTHER}, NOW_MS)
    assert add_partitions(more, PRODUCER, {OTHER}, 2, NOW_MS + 2) is ErrorCode.NONE


@pytest.mark.parametrize("state", [STATES.PREPARE_COMMIT, STATES.PREPARE_ABORT])
def test_what_is_being_ended_takes_no_partitions(state: STATES) -> None:
    known = transaction(state)
    assert add_partitions(known, PRODUCER, {OTHER}, 0, NOW_MS) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert verify_partitions(known, PRODUCER, [PARTITION]) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert init_producer_id(known, None, 60_000, 2, FRESH, NOW_MS) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_only_what_was_added_is_verified() -> None:
    verified = verify_partitions(transaction(STATES.ONGOING), PRODUCER, [PARTITION, OTHER])
    assert verified == {PARTITION: ErrorCode.NONE, OTHER: ErrorCode.TRANSACTION_ABORTABLE}
    verified = verify_partitions(transaction(STATES.COMPLETE_ABORT), PRODUCER, [PARTITION])
    assert verified == {PARTITION: ErrorCode.TRANSACTION_ABORTABLE}


def test_another_producer_of_the_same_id_fences_the_one_before() -> None:
    known = init_producer_id(transaction(STATES.COMPLETE_COMMIT), None, 60_000, 2, FRESH, NOW_MS)
    assert isinstance(known, Transaction)
    assert (known.state, known.producer_epoch, known.last_producer_epoch) == (STATES.EMPTY, 6, -1)
    assert add_partitions(known, PRODUCER, {PARTITION}, 0, NOW_MS) is ErrorCode.PRODUCER_FENCED
    assert init_producer_id(known, PRODUCER, 60_000, 2, FRESH, NOW_MS) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(("version", "epoch"), [(0, 6), (2, 6)])
def test_a_transaction_under_way_is_aborted_for_the_next_producer(version: int, epoch: int) -> None:
    under_way = transaction(STATES.ONGOING)._replace(version=version)
    fenced = init_producer_id(under_way, None, 60_000, version, FRESH, NOW_MS)
    assert isinstance(fenced, Fenced)
    assert (fenced.transaction.state, fenced.transaction.producer_epoch) == (STATES.PREPARE_ABORT, epoch)
    while_ending = ErrorCode.CONCURRENT_TRANSACTIONS if version == 2 else ErrorCode.PRODUCER_FENCED
    assert end(fenced.transaction, commit=True, version=version) is while_ending
    completed = fenced.transaction.completed(NOW_MS)
    assert end(completed, commit=True, version=version) is ErrorCode.PRODUCER_FENCED
    known = init_producer_id(completed, None, 60_000, version, FRESH, NOW_MS)
    assert isinstance(known, Transaction)
    assert known.producer_epoch == epoch + 1


def test_a_producer_goes_on_after_an_error_and_may_ask_twice() -> None:
    """KIP-360."""
    known = init_producer_id(transaction(STATES.COMPLETE_ABORT), PRODUCER, 60_000, 2, FRESH, NOW_MS)
    assert isinstance(known, Transaction)
    assert (known.producer_epoch, known.last_producer_epoch) == (6, 5)
    again = init_producer_id(known, PRODUCER, 60_000, 2, FRESH, NOW_MS)
    assert isinstance(again, Transaction)
    assert (again.producer_epoch, again.last_producer_epoch) == (6, 5)
    assert init_producer_id(known, Producer(8, 5), 60_000, 2, FRESH, NOW_MS) is ErrorCode.PRODUCER_FENCED
    assert init_producer_id(known, Producer(7, 4), 60_000, 2, FRESH, NOW_MS) is ErrorCode.PRODUCER_FENCED


def test_used_up_epochs_are_followed_by_another_producer_id() -> None:
    used_up = transaction(STATES.COMPLETE_ABORT, epoch=EPOCH_MAX - 1)
    for expected, last_epoch in ((None, -1), (Producer(7, EPOCH_MAX - 1), EPOCH_MAX - 1)):
        known = init_producer_id(used_up, expected, 60_000, 2, FRESH, NOW_MS)
        assert isinstance(known, Transaction)
        assert (known.producer_id, known.producer_epoch, known.last_producer_epoch) == (FRESH, 0, last_epoch)
        assert known.previous_producer_id == 7
    asked_again = init_producer_id(known, Producer(7, EPOCH_MAX - 1), 60_000, 2, FRESH + 1, NOW_MS)
    assert isinstance(asked_again, Transaction)
    assert (asked_again.producer_id, asked_again.producer_epoch) == (FRESH, 0)


def test_what_takes_longer_than_its_producer_allowed_is_aborted() -> None:
    known = transaction(STATES.ONGOING)
    for version, last_epoch in ((0, -1), (1, -1), (2, 5)):
        assert abort_timed_out(known, version, FRESH, known.start_ms + 60_000) is None
        aborted = abort_timed_out(known, version, FRESH, known.start_ms + 60_001)
        assert aborted is not None
        assert (aborted.state, aborted.producer_epoch) == (STATES.PREPARE_ABORT, 6)
        assert aborted.last_producer_epoch == last_epoch
        assert abort_timed_out(transaction(STATES.EMPTY), version, FRESH, NOW_MS + 10**9) is None
        assert end(aborted, commit=True, version=0) is ErrorCode.PRODUCER_FENCED
