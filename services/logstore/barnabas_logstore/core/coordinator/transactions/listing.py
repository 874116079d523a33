"""What DescribeTransactions and ListTransactions say about transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import describe_transactions, list_transactions
from barnabas.wire.messages.describe_transactions import TopicData
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction, TransactionState


def describe_transaction(
    transactional_id: str, transaction: Transaction | None
) -> describe_transactions.TransactionState:
    """Return its state, with TRANSACTIONAL_ID_NOT_FOUND if there is none."""
    if transaction is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return describe_transactions.TransactionState(error_code=error, transactional_id=transactional_id)
    topics: dict[str, TopicData] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, TopicData(topic)).partitions.append(partition)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=state_name(transaction.state),
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=list(topics.values()),
    )


def list_matching(
    request: ListTransactionsRequest, transactions: Iterable[Transaction], now_ms: int
) -> Iterator[list_transactions.TransactionState | None]:
    """Yield each transaction, or None for one that does not match the filters of states, producers and duration."""
    states, producers = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    for transaction in transactions:
        name = state_name(transaction.state)
        is_too_new = request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter
        if (states and name not in states) or (producers and transaction.producer_id not in producers) or is_too_new:
            yield None
        else:
            yield list_transactions.TransactionState(transaction.transactional_id, transaction.producer_id, name)


def state_name(state: TransactionState) -> str:
    """Return Kafka's name of a state, such as PrepareCommit."""
    return "".join(word.capitalize() for word in state.name.split("_"))
