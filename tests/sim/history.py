"""What clients have been told, and what must be true of it for ever.

Every value is sent once by one producer and names it, so that a value tells its whole story. A partition is its
topic's id and its number. Offsets at or above `trusted_below` are no promise any more: a machine lost its power
before they were flushed, in a topic of one replica.
"""

from __future__ import annotations

from collections.abc import Callable
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
    trusted_below: int = 1 << 63


@dataclass(slots=True)
class Counts:
    produced: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
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
        self.on_acknowledged: Callable[[Partition, int, int], None] = lambda partition, offset, acks: None

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
            history.acked_without_offset[value] = None
            return
        if offset >= history.trusted_below:
            return
        known = history.acked.get(offset)
        if known is not None and known != value:
            raise InvariantViolation(f"{name(partition)} offset {offset} was given to {known!r} and to {value!r}")
        history.acked[offset] = value
        self.on_acknowledged(partition, offset, acks)
        self._seen(partition, offset, value)

    def consumed(self, partition: Partition, offset: int, value: bytes) -> None:
        self.counts.consumed += 1
        history = self.of(partition)
        if offset >= history.trusted_below:
            return
        known = history.consumed.get(offset)
        if known is not None and known != value:
            raise InvariantViolation(f"{name(partition)} offset {offset} was read as {known!r}, and now as {value!r}")
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

    def power_lost(self, partition: Partition, flushed_offset: int) -> None:
        """At the only replica: what was not flushed may be gone, and its offsets be given anew."""
        history = self.of(partition)
        history.trusted_below = min(history.trusted_below, flushed_offset)
        for table in (history.acked, history.consumed):
            for offset in [each for each in table if each >= flushed_offset]:
                del table[offset]
        for value in [each for each, offset in history.offset_of.items() if offset >= flushed_offset]:
            del history.offset_of[value]
        history.acked_without_offset.clear()

    def is_trusted(self, partition: Partition) -> bool:
        """No power was lost with records that are promised."""
        return self.of(partition).trusted_below == 1 << 63


def name(partition: Partition) -> str:
    return f"{partition[0].hex()[:8]}-{partition[1]}"
