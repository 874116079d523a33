"""TransactionMeter: counts of the transactions of a logstore, in plain numbers that outlive their partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from barnabas.metrics.family import Sample
from barnabas.metrics.transaction_families import PRODUCERS_FENCED, TRANSACTIONS_ENDED
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Response
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from barnabas.wire.messages.end_txn import EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction, TransactionState

_FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))


@dataclass(slots=True)
class TransactionMeter:
    commits: int = 0
    aborts: int = 0
    """At the word of producers, and of later ones with the same id."""
    timeouts: int = 0
    fenced: int = 0

    def count_change(self, transaction: Transaction) -> None:
        """Its record is written."""
        if transaction.state is TransactionState.PREPARE_COMMIT:
            self.commits += 1
        elif transaction.state is TransactionState.PREPARE_ABORT:
            self.aborts += 1

    def count_timeout(self) -> None:
        """The abort that was counted last was for a transaction that had taken too long."""
        self.aborts -= 1
        self.timeouts += 1

    def count_response(self, response: Response) -> None:
        self.fenced += _is_fenced(response)

    def samples(self) -> Iterator[Sample]:
        for result, count in (("commit", self.commits), ("abort", self.aborts), ("timeout", self.timeouts)):
            yield Sample(TRANSACTIONS_ENDED, (result,), count)
        yield Sample(PRODUCERS_FENCED, (), self.fenced)


def _is_fenced(response: Response) -> bool:
    """Whether it says that the producer is not the present one of its id. All partitions of a transaction have it."""
    match response:
        case InitProducerIdResponse() | AddOffsetsToTxnResponse() | EndTxnResponse():
            return response.error_code in _FENCED
        case AddPartitionsToTxnResponse():
            results = [each.topic_results for each in response.results_by_transaction]
            return any(
                topic.results_by_partition[0].partition_error_code in _FENCED
                for topics in (response.results_by_topic_v3_and_below, *results)
                for topic in topics[:1]
                if topic.results_by_partition
            )
        case _:
            return False
