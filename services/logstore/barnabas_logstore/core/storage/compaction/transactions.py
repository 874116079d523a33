"""What of transactions a pass removes: the records of aborted ones at once, a marker once nothing of its transaction is
left and its delete horizon has passed (KIP-534).

Which transactions were aborted is in the `.txnindex` files, in Kafka's format: version, producer id, first and last
offset of the transaction, and the last stable offset after it. A cleaned segment gets one of its own, with what is
still needed to read it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.wire.record_batch import BatchHeader

TRANSACTION_INDEX_SUFFIX = ".txnindex"

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
_CONTROL_KEY = struct.Struct(">hh")
_ABORT = 0
_COMMIT = 1


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse_transaction_index(content: bytes) -> list[AbortedTransaction]:
    """The entries that are whole and of the known version; a torn one at the end is no entry."""
    whole = len(content) // _ENTRY.size * _ENTRY.size
    entries = _ENTRY.iter_unpack(content[:whole])
    return [AbortedTransaction(*fields[1:]) for fields in entries if fields[0] == _VERSION]


def format_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def control_type_of(key: bytes | None) -> int:
    """0 for the marker of an abort, 1 of a commit, -1 for anything else."""
    if key is None or len(key) < _CONTROL_KEY.size:
        return -1
    control_type: int = _CONTROL_KEY.unpack_from(key)[1]
    return control_type


class TransactionRetention:
    """Shown every batch in the order of the log, it says which can go as far as transactions are concerned."""

    def __init__(self, aborted: Iterable[AbortedTransaction], from_offset: int) -> None:
        """`from_offset` is where the first batch begins that is going to be shown."""
        to_come = [each for each in aborted if each.last_offset >= from_offset]
        self._waiting = sorted(to_come, key=lambda each: each.first_offset, reverse=True)
        # By producer id: the aborted transaction that is passed through, and whether a batch of it was seen.
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self._retained: list[AbortedTransaction] = []

    def on_batch(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
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
        """Whether nothing is left of the transaction that a marker ends. An empty control batch marks nothing."""
        self._enter_upto(header.last_offset)
        if header.records_count == 0:
            return True
        if control_type == _ABORT:
            transaction, has_batches = self._aborted.pop(header.producer_id, (None, False))
            if transaction is not None and has_batches:
                self._retained.append(transaction)
                return False
            return True
        if control_type == _COMMIT:
            has_batches = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not has_batches
        return False

    def take_retained(self) -> list[AbortedTransaction]:
        """The aborted transactions that ended since the last call and have batches: readers have to know of them."""
        retained, self._retained = self._retained, []
        return retained

    def _enter_upto(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[-1].first_offset <= offset:
            transaction = waiting.pop()
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
