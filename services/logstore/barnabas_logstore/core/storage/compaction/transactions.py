"""Decide what of transactions a pass removes: the records of aborted ones at once, a marker once nothing of its
transaction is left and its delete horizon has passed (KIP-534).

The aborted transactions are in the `.txnindex` files. A cleaned segment gets its own, with what is still needed to read
it.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.wire.markers import ABORT, COMMIT
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.storage.effect_results import AbortedTransaction


class TransactionRetention:
    """Gets every batch in the order of the log, and decides which can be removed as far as transactions are
    concerned.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction], from_offset: int) -> None:
        """`from_offset` is where the first batch begins that is passed in."""
        to_come = [each for each in aborted if each.last_offset >= from_offset]
        self._waiting = sorted(to_come, key=lambda each: each.first_offset, reverse=True)
        # By producer id: the aborted transaction in progress, and whether a batch of it was seen.
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self._retained: list[AbortedTransaction] = []

    def on_batch(self, header: BatchHeader) -> bool:
        """Return whether a batch of records belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._enter_upto(header.last_offset)
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._aborted[producer_id] = (self._aborted[producer_id][0], True)
            return True
        self._committed.add(producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, control_type: int) -> bool:
        """Return whether nothing is left of the transaction that a marker ends. An empty control batch marks
        nothing.
        """
        self._enter_upto(header.last_offset)
        if header.records_count == 0:
            return True
        if control_type == ABORT:
            transaction, has_batches = self._aborted.pop(header.producer_id, (None, False))
            if transaction is not None and has_batches:
                self._retained.append(transaction)
                return False
            return True
        if control_type == COMMIT:
            has_batches = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not has_batches
        return False

    def take_retained(self) -> list[AbortedTransaction]:
        """Return the aborted transactions that ended since the last call and have batches: readers need them."""
        retained, self._retained = self._retained, []
        return retained

    def _enter_upto(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[-1].first_offset <= offset:
            transaction = waiting.pop()
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
