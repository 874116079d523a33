"""What a request makes of a transaction, or why it is refused (Kafka's TransactionCoordinator of 4.3).

Each function returns the next `Transaction`, to be written and answered once its record is committed, or an error.
NONE: the request repeats what is done.

While markers are on their way, a request is CONCURRENT_TRANSACTIONS before its producer is looked at: in version 2 the
client knows its next epoch, and after the last one its next producer id, before they are those of the transaction. In
Kafka a transaction has a pending transition until all markers are written.

A transaction that takes too long, or is in the way of the next producer, is ended by its coordinator, by the version
that the cluster has. In version 2 its epoch rises once, as by an end that its client asks for: the client has the epoch
before, may repeat that end, or ask for its epoch by InitProducerId, and goes on. In versions 0 and 1 it is fenced for
good. In version 2 the end of a transaction of the last epoch always names the next producer id.

It differs from Kafka 4.4.0 in a few answers. A commit of what the coordinator has aborted is PRODUCER_FENCED, as in
Kafka since (KAFKA-20785), and not INVALID_TXN_STATE, from which clients do not recover. Where Kafka fails with
UNKNOWN_SERVER_ERROR, InitProducerId that asks for the last epoch once more is answered with it, a fenced producer is
PRODUCER_FENCED there, too, and a commit behind the last epoch is carried out: earlier releases gave clients that epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.transactions.transaction import (
    ENDING,
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    TransactionState,
    is_epoch_exhausted,
)


class Producer(NamedTuple):
    producer_id: int
    epoch: int


class Fenced(NamedTuple):
    """A transaction of an earlier producer is aborted first; the client is answered CONCURRENT_TRANSACTIONS, and asks
    again.
    """

    transaction: Transaction


def init_producer_id(
    transaction: Transaction,
    expected: Producer | None,
    timeout_ms: int,
    cluster_version: int,
    fresh_producer_id: int,
    now_ms: int,
) -> Transaction | Fenced | ErrorCode:
    """InitProducerId. `expected` is the producer that the client takes itself for, which goes on after an error
    (KIP-360); `cluster_version` is the transaction version of the cluster; `fresh_producer_id` was never used.

    CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
    """
    if transaction.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if expected is not None and not _may_be(transaction, expected):
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is TransactionState.ONGOING:
        return Fenced(_ended_by_coordinator(transaction, cluster_version, fresh_producer_id, now_ms))
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    if expected is None:
        if transaction.is_epoch_exhausted:
            return transaction.rotated(fresh_producer_id, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
        return transaction.initialized(epoch + 1, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    is_repeated = epoch not in (NO_PRODUCER_EPOCH, expected.epoch)
    if is_repeated and expected.epoch != last_epoch:
        return ErrorCode.PRODUCER_FENCED
    if epoch == EPOCH_MAX or (transaction.is_epoch_exhausted and not is_repeated):
        return transaction.rotated(fresh_producer_id, expected.epoch, timeout_ms, now_ms)
    if is_repeated:
        return transaction.initialized(epoch, last_epoch, timeout_ms, now_ms)
    return transaction.initialized(epoch + 1, epoch, timeout_ms, now_ms)


def _may_be(transaction: Transaction, expected: Producer) -> bool:
    """Whether the client may be the transaction's producer. Its epoch is checked where it is raised."""
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and is_epoch_exhausted(expected.epoch))
    )


def add_partitions(
    transaction: Transaction, producer: Producer, partitions: AbstractSet[TopicPartition], version: int, now_ms: int
) -> Transaction | ErrorCode:
    """AddPartitionsToTxn, and AddOffsetsToTxn with the group's partition of `__consumer_offsets`.

    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    if transaction.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error = _check_producer(transaction, producer)
    if error:
        return error
    if transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
        return ErrorCode.NONE
    return transaction.with_partitions(partitions, version, now_ms)


def verify_partitions(
    transaction: Transaction, producer: Producer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode] | ErrorCode:
    """AddPartitionsToTxn that only verifies (KIP-890). A partition that is not part of the transaction is
    TRANSACTION_ABORTABLE; the errors of all of them are those of `add_partitions`.
    """
    error = _check_producer(transaction, producer)
    if error:
        return error
    if transaction.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    known = transaction.partitions
    return {each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}


def _check_producer(transaction: Transaction, producer: Producer) -> ErrorCode:
    if producer.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if producer.epoch == transaction.producer_epoch else ErrorCode.PRODUCER_FENCED


def end_transaction(
    transaction: Transaction, producer: Producer, version: int, fresh_producer_id: int, now_ms: int, *, commit: bool
) -> Transaction | ErrorCode:
    """EndTxn of a client. `version`: EndTxn v5 and later is of version 2, in which each end raises the epoch.

    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (also a commit of what the coordinator has aborted),
    CONCURRENT_TRANSACTIONS (it is being ended), or INVALID_TXN_STATE (it was ended in the other way, or has not begun).
    """
    if version >= EPOCH_BUMP_VERSION:
        return _end_raising_epoch(transaction, producer, version, fresh_producer_id, now_ms, commit=commit)
    error = _check_producer(transaction, producer)
    if error:
        return error
    if transaction.state is TransactionState.ONGOING:
        return transaction.prepared(commit=commit, version=0, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms)
    return _repeated_end(transaction.state, commit=commit)


def _end_raising_epoch(
    transaction: Transaction, producer: Producer, version: int, fresh_producer_id: int, now_ms: int, *, commit: bool
) -> Transaction | ErrorCode:
    """The producer's epoch says whether a request is a repetition: the end has raised it."""
    state, epoch = transaction.state, transaction.producer_epoch
    if state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    had_last_epoch = transaction.previous_producer_id == producer.producer_id and is_epoch_exhausted(producer.epoch)
    is_after_overflow = had_last_epoch and epoch == 0
    if producer.producer_id != transaction.producer_id and not is_after_overflow:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_repeated = is_after_overflow or epoch == producer.epoch + 1
    is_current = producer.epoch == epoch
    is_over = state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if not is_current and not (is_over and is_repeated):
        return ErrorCode.PRODUCER_FENCED
    # In version 2 a client may abort before any of its partitions was added.
    begins_abort = not commit and (state is TransactionState.EMPTY or (is_over and not is_repeated))
    if state is TransactionState.ONGOING or begins_abort:
        next_producer_id = fresh_producer_id if transaction.is_epoch_exhausted else NO_PRODUCER_ID
        return transaction.prepared(commit=commit, version=version, next_producer_id=next_producer_id, now_ms=now_ms)
    if is_repeated and commit and state is TransactionState.COMPLETE_ABORT:
        # A client repeats the end that it has asked for: this transaction was aborted by its coordinator.
        return ErrorCode.PRODUCER_FENCED
    return _repeated_end(state, commit=commit) if is_repeated else ErrorCode.INVALID_TXN_STATE


def _repeated_end(state: TransactionState, *, commit: bool) -> ErrorCode:
    """Return the answer to an end that is decided already."""
    if state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_done = state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    return ErrorCode.NONE if is_done else ErrorCode.INVALID_TXN_STATE


def abort_timed_out(
    transaction: Transaction, cluster_version: int, fresh_producer_id: int, now_ms: int
) -> Transaction | None:
    """Return the aborted transaction if it has taken longer than its producer allowed; None if it has not.

    Its producer learns of the abort with its next request.
    """
    is_late = transaction.state is TransactionState.ONGOING and now_ms - transaction.start_ms > transaction.timeout_ms
    return _ended_by_coordinator(transaction, cluster_version, fresh_producer_id, now_ms) if is_late else None


def _ended_by_coordinator(
    transaction: Transaction, cluster_version: int, fresh_producer_id: int, now_ms: int
) -> Transaction:
    """Abort the transaction under an epoch that no client has."""
    if cluster_version < EPOCH_BUMP_VERSION:
        return transaction.fenced().prepared(commit=False, version=0, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms)
    next_producer_id = fresh_producer_id if transaction.is_epoch_exhausted else NO_PRODUCER_ID
    return transaction.prepared(commit=False, version=cluster_version, next_producer_id=next_producer_id, now_ms=now_ms)
