"""The answers that clients got, and what must be true of them forever.

Every value is sent once by one producer and names it, so that a value identifies its whole history. A partition is its
topic's id and its number. What a client learns as committed (an acknowledgement of acks=all, whatever a consumer reads)
has to be in the book of what is committed, there and with that value; an acknowledgement of a leader alone promises
something only where it is.

Of each operation the history says what Jepsen's does: ok; fail, where it has provably changed nothing; or info, if it
can't be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import Response
from tests.sim.replica_logs import Book
from tests.sim.scheduler import InvariantViolation

Partition = tuple[bytes, int]


@dataclass(slots=True)
class PartitionHistory:
    acked: dict[int, bytes] = field(default_factory=dict)
    """By offset: what was acknowledged to a producer."""
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
    looked_up: int = 0
    """Offsets by time that were answered and compared."""
    admin: int = 0
    repeated: int = 0
    """Records that are in a log twice, and may be."""
    administered: Counter[str] = field(default_factory=Counter)
    """By what was asked: administrators' requests that were answered with success."""

    def __str__(self) -> str:
        administered = [f"{count} × {what}" for what, count in sorted(self.administered.items())]
        return (
            f"{self.produced} records produced ({self.acked} acknowledged, {self.failed} refused, "
            f"{self.unknown} of unknown fate), {self.fetches} fetches, {self.consumed} records consumed, "
            f"{self.looked_up} offsets looked up by time, "
            f"{self.admin} topics created, "
            f"{', '.join(administered) or 'no administration'}"
        )


class History:
    """A topic's name may stand for one topic after the other: where clients go by names, their answers are looked for
    in all of them.
    """

    def __init__(self) -> None:
        self.partitions: dict[Partition, PartitionHistory] = {}
        # By value: the topic's name and the partition that it was sent to.
        self.sent: dict[bytes, tuple[str, int]] = {}
        # Certainly not written: the leader said so.
        self.refused: dict[bytes, str] = {}
        # Partitions of which an administrator has deleted records, by the topic's name.
        self.shortened: dict[tuple[str, int], None] = {}
        self.counts = Counts()
        # Known by those who see everything: what is committed at an offset, and the ids that a name has ever had.
        self.committed_at: Callable[[Partition, int], bytes | None] = lambda partition, offset: None
        self.ids_of: Callable[[str], list[bytes]] = lambda topic: []
        # Whether what is committed in a range of offsets may have been cleaned, since it is there again further on.
        self.is_cleaned: Callable[[Partition, int, int], bool] = lambda partition, begin, end: False
        # The book of what is committed, and the newest leader epoch of a partition that has one.
        self.book_of: Callable[[Partition], Book] = lambda partition: Book()
        self.leader_epoch_of: Callable[[Partition], int | None] = lambda partition: None
        # Whether a value may be in a log more than once: its producer may have sent it again under another epoch.
        self.may_be_twice: Callable[[bytes], bool] = lambda value: False
        # Whether exceptions are thrown in this run: a request may be answered UNKNOWN_SERVER_ERROR.
        self.may_fail_internally = False
        # Hears of clients whose request was not answered in time, and of every answer; None: nothing listens.
        self.no_answer: Callable[[str, ApiKey], None] | None = None
        self.answered: Callable[[str, ApiKey, Response], None] | None = None

    def of(self, partition: Partition) -> PartitionHistory:
        return self.partitions.setdefault(partition, PartitionHistory())

    def sending(self, topic: str, partition: int, value: bytes) -> None:
        assert value not in self.sent, "a value is sent once"
        self.sent[value] = (topic, partition)
        self.counts.produced += 1

    def acknowledged(self, topic: str, partition: int, offset: int, value: bytes, acks: int) -> None:
        """ok. With an offset of -1 it is a duplicate too old for its offset to be known."""
        self.counts.acked += 1
        if offset < 0:
            self._acknowledged_somewhere(topic, partition, value)
            return
        found = self._find(topic, partition, offset, value)
        if found is not None:
            self.of(found).acked[offset] = value
            self._seen(found, (topic, partition), offset, value)
        elif acks == -1 and not self._is_lost(topic, partition, offset, value):
            raise InvariantViolation(
                f"I8: {topic}-{partition} offset {offset} is acknowledged as {value!r}, committed is "
                f"{[self.committed_at((each, partition), offset) for each in self.ids_of(topic)]}"
            )

    def consumed(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        self.counts.consumed += 1
        found = self._find(topic, partition, offset, value)
        if found is not None:
            self.of(found).consumed[offset] = value
            self._seen(found, (topic, partition), offset, value)
        elif not self._is_lost(topic, partition, offset, value):
            raise InvariantViolation(
                f"I9: {topic}-{partition} offset {offset} was read as {value!r}, committed is "
                f"{[self.committed_at((each, partition), offset) for each in self.ids_of(topic)]}"
            )

    def _find(self, topic: str, partition: int, offset: int, value: bytes) -> Partition | None:
        for topic_id in reversed(self.ids_of(topic)):
            if self.committed_at((topic_id, partition), offset) == value:
                return topic_id, partition
        return None

    def _is_lost(self, topic: str, partition: int, offset: int, value: bytes) -> bool:
        return any((offset, value) in self.of((topic_id, partition)).lost for topic_id in self.ids_of(topic))

    def _acknowledged_somewhere(self, topic: str, partition: int, value: bytes) -> None:
        topic_ids = self.ids_of(topic)
        if len(topic_ids) == 1 and value not in self.of((topic_ids[0], partition)).lost_values:
            self.of((topic_ids[0], partition)).acked_without_offset[value] = None

    def _seen(self, partition: Partition, sent_to: tuple[str, int], offset: int, value: bytes) -> None:
        """However a value became visible: it was sent there, and it is nowhere else."""
        if self.sent.get(value) != sent_to:
            raise InvariantViolation(f"{name(partition)} offset {offset} holds {value!r}, which was never sent there")
        if value in self.refused:
            raise InvariantViolation(f"{value!r} is at {name(partition)} offset {offset}, yet {self.refused[value]}")
        history = self.of(partition)
        first = history.offset_of.setdefault(value, offset)
        if first != offset and self.may_be_twice(value):
            self.counts.repeated += 1
        elif first != offset:
            raise InvariantViolation(f"I10: {value!r} is in {name(partition)} twice, at {first} and {offset}")

    def certainly_refused(self, value: bytes, why: str) -> None:
        """fail: it is not in the log, and never will be."""
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

    def may_be_cleaned(self, topic: str, partition: int, begin: int, end: int) -> bool:
        """Whether a reader of a compacted topic may miss the records of [begin, end)."""
        return any(self.is_cleaned((topic_id, partition), begin, end) for topic_id in self.ids_of(topic))

    def may_jump(self, topic: str, partition: int) -> bool:
        """Offsets may be at unexpected places: records were lost or deleted, or it is another topic by now."""
        topic_ids = self.ids_of(topic)
        has_lost = any(self.of((topic_id, partition)).lost for topic_id in topic_ids)
        return has_lost or len(topic_ids) > 1 or (topic, partition) in self.shortened


def name(partition: Partition) -> str:
    return f"{partition[0].hex()[:8]}-{partition[1]}"
