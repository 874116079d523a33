"""The interface between a coordinator and the partition that keeps its state: append, read, and leadership.

A coordinator knows nothing else of logs, so that it can be moved to its own process, and so that the coordinators of
transactions and share groups can use the same interface. The host (`LogstoreCore`) calls the methods of `Coordinator`;
the coordinator calls those of `CoordinatedLog`. No call is made from inside another one's answer: results of the log
come later, by the coordinator's methods.

The order that a partition's coordinator sees under one leader epoch:

    on_leadership(epoch)                          it leads; nothing is known of the log
    log.read(epoch, offset) → on_read(…)          one at a time, until the log's end of that moment is reached
    log.append(epoch, records) → required offset  now and then
    on_committed(high_watermark)                  everything below it is on all in-sync replicas
    on_lost(epoch)                                it leads no more, or what was appended is lost: let go of all state
"""

from __future__ import annotations

from typing import Protocol

from barnabas.containment import Place
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.markers import ProducerInTransaction, TransactionEnd
from barnabas.wire.record_batch import Record


class CoordinatedLog(Protocol):
    """One partition of an internal topic, as its coordinator uses it."""

    def check_append(self, expected_epoch: int) -> ErrorCode:
        """Return whether an append in this turn would be accepted: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (the ISR
        is under its minimum), KAFKA_STORAGE_ERROR. Must be called before anything is changed for which a record is
        written.
        """
        ...

    def batch_bytes_max(self) -> int:
        """The maximum size of one batch (`max.message.bytes`)."""
        ...

    def append(self, expected_epoch: int, records: list[Record]) -> int | Refused:
        """Append one batch, all of it or nothing, and return the high watermark that commits it."""
        ...

    def append_in_transaction(
        self, expected_epoch: int, records: list[Record], producer: ProducerInTransaction
    ) -> int | Refused:
        """Append one batch within a producer's transaction, and return the high watermark that commits it.
        INVALID_TXN_STATE: the transaction is not confirmed (`begin_verification`); INVALID_PRODUCER_EPOCH.
        """
        ...

    def begin_verification(self, producer: ProducerInTransaction) -> int:
        """Return the guard with which the transaction may begin here once it is confirmed; 0 if it is open."""
        ...

    def append_marker(self, expected_epoch: int, ended: TransactionEnd) -> int | Refused:
        """Append the marker that ends a transaction here, and return the high watermark that commits it.
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED: it is out of date.
        """
        ...

    def read(self, expected_epoch: int, offset: int) -> None:
        """Request some batches from `offset` on, or from the log start if that is later; `Coordinator.on_read` delivers
        them, or `on_lost` ends the epoch. Uncommitted batches are read as well.
        """
        ...

    def end_offset(self) -> int:
        """The offset of the next batch."""
        ...

    def high_watermark(self) -> int:
        """Everything below is on all in-sync replicas; `Coordinator.on_committed` reports every later one."""
        ...

    def state_in_doubt(self, place: Place, error: Exception) -> None:
        """Note an unexpected exception that may have left what the coordinator has made of this log half-changed. Its
        epoch ends here, and after a pause begins again.
        """
        ...


class Coordinator(Protocol):
    """Gets the events of one partition, for its coordinator."""

    def on_leadership(self, partition: int, leader_epoch: int, log: CoordinatedLog, now_ms: int) -> None:
        """This logstore leads the partition under a new epoch; what was known of it under older ones is void."""
        ...

    def on_read(self, partition: int, leader_epoch: int, data: memoryview, next_offset: int, now_ms: int) -> None:
        """Complete batches as they are in the log, from the requested offset on, and where the next ones begin; no
        data: there are none.
        """
        ...

    def on_committed(self, partition: int, leader_epoch: int, high_watermark: int, now_ms: int) -> None:
        """Everything below is on all in-sync replicas."""
        ...

    def on_lost(self, partition: int, leader_epoch: int, now_ms: int) -> None:
        """The epoch is over here, because of a new leader, a failed disk or a deleted topic. What was appended and not
        committed may be kept or lost.
        """
        ...
