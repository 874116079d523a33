"""What clients have been told, and what must be true of it for ever.

Every value is sent once by one producer and names it, so that a value tells its whole story. A partition is its
topic's id and its number. What a client is told as committed (an acknowledgement of acks=all, whatever a consumer
reads) has to be in the book of what is committed, there and with that value; an acknowledgement of a leader alone
promises something only where it is.

Of each operation the history says what Jepsen's does: ok; fail, where it has provably changed nothing; or info, where
nobody can know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.sim.scheduler import InvariantViolation

Partition = tuple[bytes, int]


@dataclass(slots=True)
class PartitionHistory:
    acked: dict[int, bytes] = field(default_factory=dict)
    """By offset: what a producer was told is there."""
    acked_without_offset: dict[bytes, None] = field(default_factory=dict)
    """Acknowledged as a duplicate too old for its offset to be known."""
    consumed: dict[int, bytes] = field(default_factory=dict)
    """By offset: what a consumer has seen there."""
    offset_of: dict[bytes, int] = field(default_factory=dict)
    """By value: the one place where it has been seen, by whomever."""
    lost: dict[tuple[int, bytes], None] = field(default_factory=dict)
    """Offset and value: committed once, and gone by an election or a loss of power that may cost records."""
    lost_values: dict[bytes, None] = field(default_factory=dict)


@dataclass(slots=True)
class Counts:
    produced: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    operations: int = 0
    """Requests that were answered: produces, and fetches that brought records."""
    fetches: int = 0
    consumed: int = 0
    admin: int = 0

    def __str__(self) -> str:
        return (
            f"{self.produced} records produced ({self.acked} acknowledged, {self.failed} refused, "
            f"{self.unknown} of unknown fate), {self.fetches} fetches, {self.consumed} records consumed, "
            f"{self.admin} topics created"
        )


class History:
    def __init__(self) -> None:
        self.partitions: dict[Partition, PartitionHistory] = {}
        self.sent: dict[bytes, Partition] = {}
        # Certainly not written: the leader said so.
        self.refused: dict[bytes, str] = {}
        self.counts = Counts()
        # What is committed at an offset, by those who see everything.
        self.committed_at: Callable[[Partition, int], bytes | None] = lambda partition, offset: None

    def of(self, partition: Partition) -> PartitionHistory:
        return self.partitions.setdefault(partition, PartitionHistory())

    def sending(self, partition: Partition, value: bytes) -> None:
        assert value not in self.sent, "a value is sent once"
        self.sent[value] = partition
        self.counts.produced += 1

    def acknowledged(self, partition: Partition, offset: int, value: bytes, acks: int) -> None:
        self.counts.acked += 1
        history = self.of(partition)
        if offset < 0:
            if value not in history.lost_values:
                history.acked_without_offset[value] = None
            return
        if (offset, value) in history.lost:
            return
        committed = self.committed_at(partition, offset)
        if committed != value:
            if acks == -1:
                raise InvariantViolation(
                    f"I8: {name(partition)} offset {offset} is acknowledged as {value!r}, committed is {committed!r}"
                )
            return
        history.acked[offset] = value
        self._seen(partition, offset, value)

    def consumed(self, partition: Partition, offset: int, value: bytes) -> None:
        self.counts.consumed += 1
        history = self.of(partition)
        if (offset, value) in history.lost:
            return
        committed = self.committed_at(partition, offset)
        if committed != value:
            raise InvariantViolation(
                f"I9: {name(partition)} offset {offset} was read as {value!r}, committed is {committed!r}"
            )
        history.consumed[offset] = value
        self._seen(partition, offset, value)

    def _seen(self, partition: Partition, offset: int, value: bytes) -> None:
        """However a value became visible: it was sent there, it is nowhere else, nothing else is in its place."""
        if self.sent.get(value) != partition:
            raise InvariantViolation(f"{name(partition)} offset {offset} holds {value!r}, which was never sent there")
        if value in self.refused:
            raise InvariantViolation(f"{value!r} is at {name(partition)} offset {offset}, yet {self.refused[value]}")
        history = self.of(partition)
        acked, consumed = history.acked.get(offset, value), history.consumed.get(offset, value)
        if acked != value or consumed != value:
            other = acked if acked != value else consumed
            raise InvariantViolation(
                f"{name(partition)} offset {offset} is {value!r} for one and {other!r} for another"
            )
        if history.offset_of.setdefault(value, offset) != offset:
            first = history.offset_of[value]
            raise InvariantViolation(f"{value!r} is in {name(partition)} twice, at {first} and {offset}")

    def certainly_refused(self, value: bytes, why: str) -> None:
        self.counts.failed += 1
        self.refused[value] = why
        for history in self.partitions.values():
            if value in history.offset_of:
                raise InvariantViolation(f"{value!r} is written, yet {why}")

    def lost(self, partition: Partition, pairs: Iterable[tuple[int, bytes]]) -> None:
        """Offsets and values that are committed no more, and need not be: who hears of them late is not wrong."""
        history = self.of(partition)
        for offset, value in pairs:
            history.lost[offset, value] = None
            history.lost_values[value] = None
            history.acked_without_offset.pop(value, None)
            for table in (history.acked, history.consumed):
                if table.get(offset) == value:
                    del table[offset]
            if history.offset_of.get(value) == offset:
                del history.offset_of[value]

    def has_lost(self, partition: Partition) -> bool:
        """Something committed went: offsets may have gone back."""
        return bool(self.of(partition).lost)


def name(partition: Partition) -> str:
    return f"{partition[0].hex()[:8]}-{partition[1]}"
