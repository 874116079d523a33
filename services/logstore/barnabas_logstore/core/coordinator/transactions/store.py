"""What one partition of `__transaction_state` says: its transactions, by transactional id."""

from __future__ import annotations

from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.runtime.shard import Change, Store, record_bytes
from barnabas_logstore.core.coordinator.transactions.records import tombstone, transaction_record
from barnabas_logstore.core.coordinator.transactions.transaction import NO_PRODUCER_EPOCH, Transaction


class TransactionPut(Change):
    """A transactional id has this transaction from now on."""

    __slots__ = ("transaction",)

    def __init__(self, transaction: Transaction, records: list[Record], byte_count: int) -> None:
        self.records = records
        self.byte_count = byte_count
        self.transaction = transaction


class IdForgotten(Change):
    """There is no such transactional id any more."""

    __slots__ = ("transactional_id",)

    def __init__(self, transactional_id: str, records: list[Record], byte_count: int) -> None:
        self.records = records
        self.byte_count = byte_count
        self.transactional_id = transactional_id


def put_of(transaction: Transaction) -> TransactionPut:
    """Return the change with its record."""
    record = transaction_record(transaction)
    return TransactionPut(transaction, [record], record_bytes(record))


def forgotten(transactional_id: str, wall_ms: int) -> IdForgotten:
    """Return the change with its record."""
    record = tombstone(transactional_id, wall_ms)
    return IdForgotten(transactional_id, [record], record_bytes(record))


class TransactionStore(Store):
    """The last record of an id counts."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        """By transactional id; read only outside."""

    def replay(self, change: Change, offset: int) -> None:
        if isinstance(change, TransactionPut):
            self.transactions[change.transaction.transactional_id] = change.transaction
        else:
            assert isinstance(change, IdForgotten)
            self.transactions.pop(change.transactional_id, None)

    def stored(self) -> object:
        """Without the epoch that a client may still repeat a request with, which no record has."""
        return {
            transactional_id: each._replace(last_producer_epoch=NO_PRODUCER_EPOCH)
            for transactional_id, each in self.transactions.items()
        }
