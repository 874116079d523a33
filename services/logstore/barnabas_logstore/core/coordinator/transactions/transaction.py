"""One transactional id: its producer, and the transaction that is under way (Kafka's TransactionMetadata of 4.4).

    EMPTY ──▶ ONGOING ──▶ PREPARE_COMMIT ──▶ COMPLETE_COMMIT
                 │                                │ ▲ the next transaction begins from either of them
                 └──────▶ PREPARE_ABORT ───▶ COMPLETE_ABORT

What a request changes is a new `Transaction`, which counts once its record is committed: the old one is still there if
the record is lost. So there is no pending state as in Kafka, and PREPARE_EPOCH_FENCE is never stored by either.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import Any, Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
EPOCH_MAX: Final = 2**15 - 1
EPOCH_BUMP_VERSION: Final = 2
"""The first transaction version with an epoch for each transaction (KIP-890)."""


class TransactionState(IntEnum):
    """With Kafka's ids."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


OVER: Final = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT),
)
"""No transaction is under way."""
ENDING: Final = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))
"""It is decided how the transaction ends, and its markers are on their way."""
_ONGOING: Final = frozenset((TransactionState.ONGOING,))
_PREVIOUS: Final = {
    TransactionState.EMPTY: OVER,
    TransactionState.ONGOING: OVER | _ONGOING,
    TransactionState.PREPARE_COMMIT: _ONGOING,
    TransactionState.PREPARE_ABORT: OVER | _ONGOING,
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
    TransactionState.DEAD: OVER,
}


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Transaction(NamedTuple):
    """`previous_producer_id` is the producer id before the last change, `next_producer_id` the one that the next
    transaction gets where this one used up the last epoch, `last_producer_epoch` the epoch that a client may still
    repeat a request with. Times are of the wall clock in ms. A tuple, since each transaction is changed four times, and
    a changed copy of a frozen dataclass takes several times as long.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    version: int = 0
    """The transaction version that the client used (KIP-890)."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Clients get no epoch past this one: the last is kept for fencing."""
        return is_epoch_exhausted(self.producer_epoch)

    def initialized(self, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """A producer has begun, or goes on after an error."""
        return self._to(
            TransactionState.EMPTY,
            now_ms,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
        )

    def rotated(self, producer_id: int, last_producer_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """The epochs of its producer id are used up: it has another one."""
        rotated = self.initialized(0, last_producer_epoch, timeout_ms, now_ms)
        return rotated._replace(producer_id=producer_id)

    def with_partitions(self, added: AbstractSet[TopicPartition], version: int, now_ms: int) -> Transaction:
        """These partitions are part of the transaction, which begins if none is under way."""
        start_ms = now_ms if self.state in OVER else self.start_ms
        partitions = self.partitions | added
        return self._to(TransactionState.ONGOING, now_ms, partitions=partitions, start_ms=start_ms, version=version)

    def fenced(self) -> Transaction:
        """No client has this epoch, and none may ask for it: all that the producer still sends is refused."""
        producer_epoch = min(self.producer_epoch + 1, EPOCH_MAX)
        return self._replace(producer_epoch=producer_epoch, last_producer_epoch=NO_PRODUCER_EPOCH)

    def prepared(self, *, commit: bool, version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """It is decided how the transaction ends. From version 2 on, its markers have the next epoch; behind the last
        one, where only what earlier releases did has led, they keep it, and the producer id changes.
        """
        epochs: dict[str, Any] = {}
        if version >= EPOCH_BUMP_VERSION:
            epochs["last_producer_epoch"] = self.producer_epoch
            epochs["producer_epoch"] = min(self.producer_epoch + 1, EPOCH_MAX)
        return self._to(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            now_ms,
            next_producer_id=next_producer_id,
            start_ms=now_ms if self.state in OVER else self.start_ms,
            version=version,
            **epochs,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        completed = self._to(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            now_ms,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )
        if self.version >= EPOCH_BUMP_VERSION and self.next_producer_id != NO_PRODUCER_ID:
            return completed._replace(producer_id=self.next_producer_id, producer_epoch=0)
        return completed

    def _to(self, state: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        assert self.state in _PREVIOUS[state], f"{self.transactional_id}: {state.name} after {self.state.name}"
        return self._replace(state=state, last_update_ms=now_ms, previous_producer_id=self.producer_id, **changes)


def is_epoch_exhausted(producer_epoch: int) -> bool:
    return producer_epoch >= EPOCH_MAX - 1
