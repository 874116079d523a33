"""What clients have seen of transactions, as a history in which `tests.anomalies` looks for what Kafka never shows.

It knows what clients were answered and given, and what a read_committed reader finds at the end: nothing of markers,
watermarks or the logs of replicas, from which the other checks derive what is right. Each poll of a consumer that came
upon records of transactions is a transaction that only reads. Partitions where records may be missing (lost, deleted,
or of a topic that was recreated) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.anomalies.find import KAFKA, Anomaly, find_anomalies
from tests.anomalies.history import Append, Outcome, Read, Transaction
from tests.anomalies.history import TransactionHistory as ReadHistory
from tests.sim.transactions.history import ClientTransaction, Poll, TopicPartition, TransactionHistory

_OUTCOMES = {True: Outcome.COMMITTED, False: Outcome.ABORTED, None: Outcome.UNKNOWN}


def anomalies_in(history: TransactionHistory, logs: Mapping[TopicPartition, Mapping[int, bytes]]) -> list[Anomaly]:
    """Return what Kafka's transactions never show. `logs`: what a new reader is given, by offset.

    Nothing is said about transactions whose states may be lost.
    """
    whole = {partition for partition in logs if not history.history.may_jump(*partition)}
    transactions = [_transaction(each, history, whole) for each in history.all if _is_judged(each, history)]
    transactions += [
        Transaction(f"poll {number} of {poll.reader}", reads=list(_reads([poll], history)))
        for number, poll in enumerate(history.polls)
        if poll.partition in whole
    ]
    found = find_anomalies(
        ReadHistory(transactions, {each: _records(logs[each].items(), history) for each in sorted(whole)})
    )
    return [each for each in found if each.kind in KAFKA]


def _transaction(
    transaction: ClientTransaction, history: TransactionHistory, whole: set[TopicPartition]
) -> Transaction:
    appends = [Append(partition, _text(value)) for value, partition in transaction.values.items() if partition in whole]
    polls = [each for each in transaction.polls if each.partition in whole]
    return Transaction(str(transaction), appends, list(_reads(polls, history)), _OUTCOMES[transaction.outcome])


def _reads(polls: Iterable[Poll], history: TransactionHistory) -> Iterator[Read]:
    for poll in polls:
        yield Read(poll.partition, poll.begin, tuple(_records(poll.records, history).items()))


def _records(records: Iterable[tuple[int, bytes]], history: TransactionHistory) -> dict[int, str]:
    """Those of transactions; others write to the same topics."""
    return {offset: _text(value) for offset, value in records if _is_judged(history.transaction_of(value), history)}


def _is_judged(transaction: ClientTransaction | None, history: TransactionHistory) -> bool:
    return transaction is not None and not history.may_lack_state(transaction.transactional_id)


def _text(value: bytes) -> str:
    return value.decode("latin-1")
