"""What a coordinator and the partition that keeps its state offer each other: append, read, and who leads.

A coordinator knows nothing else of logs, so that it can become a process of its own, and so that the coordinators of
transactions and share groups come in the same way. The host (`LogstoreCore`) calls the methods of
`Coordinator`; the coordinator calls those of `CoordinatedLog`. No call is made from inside another one's answer: what
the log has to say comes later, by the coordinator's methods.

The order that a partition's coordinator sees under one leader epoch:

    on_leadership(epoch)                          it leads; nothing is known of the log
    log.read(epoch, offset) → on_read(…)          one at a time, until the log's end of that moment is reached
    log.append(epoch, records) → required offset  now and then
    on_committed(high_watermark)                  everything below it is on all in-sync replicas
    on_lost(epoch)                                it leads no more, or what was appended is lost: let go of all state
"""

from __future__ import annotations

from typing import Protocol

from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record


class CoordinatedLog(Protocol):
    """One partition of an internal topic, as its coordinator reaches it."""

    def check_append(self, expected_epoch: int) -> ErrorCode:
        """Whether an append in this same turn would be taken: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (the ISR is
        under its minimum), KAFKA_STORAGE_ERROR. To be asked before anything is changed for which a record is written.
        """
        ...

    def batch_bytes_max(self) -> int:
        """What one batch may have at most (`max.message.bytes`)."""
        ...

    def append(self, expected_epoch: int, records: list[Record]) -> int | ErrorCode:
        """Append one batch, all of it or nothing, and get the high watermark that commits it."""
        ...

    def read(self, expected_epoch: int, offset: int) -> None:
        """Ask for some batches from `offset` on, or from where the log starts if that is later; `Coordinator.on_read`
        brings them, or `on_lost` ends the epoch. What is not committed yet is read as well.
        """
        ...

    def end_offset(self) -> int:
        """Where the next batch will begin."""
        ...

    def high_watermark(self) -> int:
        """Everything below is on all in-sync replicas; `Coordinator.on_committed` tells of every later one."""
        ...


class Coordinator(Protocol):
    """What happens to one partition, told to whoever coordinates by it."""

    def on_leadership(self, partition: int, leader_epoch: int, log: CoordinatedLog, now_ms: int) -> None:
        """This logstore leads the partition under a new epoch; what was known of it under older ones is void."""
        ...

    def on_read(self, partition: int, leader_epoch: int, data: memoryview, next_offset: int, now_ms: int) -> None:
        """Whole batches as they are in the log, from the offset that was asked for, and where the next ones begin; no
        data: there are none.
        """
        ...

    def on_committed(self, partition: int, leader_epoch: int, high_watermark: int, now_ms: int) -> None:
        """Everything below is on all in-sync replicas."""
        ...

    def on_lost(self, partition: int, leader_epoch: int, now_ms: int) -> None:
        """The epoch is over here, by a new leader, a failed disk or a deleted topic. What was appended and not yet
        committed may be or may not be.
        """
        ...
