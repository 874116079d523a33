"""A producer that began its next transaction while the markers of the one before were on their way was refused.

In transaction version 2 the answer to EndTxn has the producer's next epoch, and after the last one its next producer
id, before the coordinator's transaction has it. What the client then sent was compared with the old one: after 32,767
transactions of a transactional id its next batch was INVALID_PRODUCER_ID_MAPPING, and an end with the next epoch was
PRODUCER_FENCED. After either a producer gives up. Kafka answers CONCURRENT_TRANSACTIONS until all markers are written,
and clients ask again.
"""

from __future__ import annotations

from typing import Final

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.transactions.rules import (
    Producer,
    add_partitions,
    end_transaction,
    init_producer_id,
)
from barnabas_logstore.core.coordinator.transactions.transaction import (
    EPOCH_MAX,
    TopicPartition,
    Transaction,
    TransactionState,
)

FRESH: Final = 99
NOW_MS: Final = 1_000
PARTITION: Final = TopicPartition("t", 0)


def ended(*, epoch: int, commit: bool) -> Transaction:
    ongoing = Transaction(
        "id",
        7,
        60_000,
        NOW_MS,
        producer_epoch=epoch,
        state=TransactionState.ONGOING,
        partitions=frozenset((PARTITION,)),
        start_ms=NOW_MS,
        version=2,
    )
    found = end_transaction(ongoing, Producer(7, epoch), 2, FRESH, NOW_MS, commit=commit)
    assert isinstance(found, Transaction)
    return found


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("epoch", "following"), [(5, Producer(7, 6)), (EPOCH_MAX - 1, Producer(FRESH, 0))])
def test_who_begins_the_next_transaction_waits(epoch: int, following: Producer, commit: bool) -> None:
    ending = ended(epoch=epoch, commit=commit)
    completed = ending.completed(NOW_MS)
    assert Producer(completed.producer_id, completed.producer_epoch) == following, "what the client has been answered"
    waits = ErrorCode.CONCURRENT_TRANSACTIONS
    assert add_partitions(ending, following, {PARTITION}, 2, NOW_MS) is waits
    assert init_producer_id(ending, following, 60_000, 2, FRESH + 1, NOW_MS) is waits
    for commits in (True, False):
        assert end_transaction(ending, following, 2, FRESH + 1, NOW_MS, commit=commits) is waits
    begun = add_partitions(completed, following, {PARTITION}, 2, NOW_MS)
    assert isinstance(begun, Transaction)
    assert begun.state is TransactionState.ONGOING
