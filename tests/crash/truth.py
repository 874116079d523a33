"""What must be true of one partition: the batches that were given a place in its log, and what was promised of them.

Nothing here comes from the log itself. A batch is known from the moment that it is handed in, at the offset that it
has to get; after a crash the log says how many of the last ones are gone, and this says how many may be.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.wire.record_batch import BatchHeader

WINDOW_BATCHES = 64
"""How many of its last batches a producer may repeat."""


class TrueRecord(NamedTuple):
    key: bytes
    value: bytes | None
    timestamp_ms: int


@dataclass(slots=True, eq=False)
class TrueBatch:
    """`content` is what has to be in the log, offset and epoch included."""

    content: bytes
    header: BatchHeader
    records: tuple[TrueRecord, ...]
    is_acknowledged: bool = False

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


@dataclass(slots=True, eq=False)
class TruePartition:
    """`durable_offset`: a power cut may take nothing below it. `written_offset`: the end of a process may not.

    `log_start_asked` is the highest log start that was requested (DeleteRecords, retention): the log may begin
    there or, after a crash, earlier, never later.
    """

    topic: str
    topic_id: bytes
    partition: int
    configs: dict[str, str]
    """Of the topic, on top of the logstore's."""
    batches: list[TrueBatch] = field(default_factory=list)
    taken_back: list[list[TrueBatch]] = field(default_factory=list)
    """Appends that found no room and were answered so: after a crash they may be there all the same, from some
    offset on, as long as nothing was appended in their place."""
    leader_epoch: int = 0
    partition_epoch: int = 0
    durable_offset: int = 0
    written_offset: int = 0
    log_start_asked: int = 0
    empty_at: int = 0
    """Where the log ends if it has no batch."""
    files_begin: int = 0
    """What is below is in no file any more, and its producers may be forgotten."""
    recovered_end: int = 0
    """Where the log ended when it was last opened: of what is before that, a producer's window may be short."""
    is_deleted: bool = False
    was_ever_compacted: bool = False
    may_lose_tombstones: bool = False
    """delete.retention.ms has passed, as far as is known."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def next_offset(self) -> int:
        return max(self.batches[-1].next_offset if self.batches else 0, self.empty_at)

    def holding(self, offset: int) -> int:
        """The index of the batch with `offset`; of the last one for an offset past the end."""
        return bisect_right(self.batches, offset, key=lambda batch: batch.base_offset) - 1

    def first_from(self, offset: int) -> int:
        """The index of the first batch that is not wholly below `offset`."""
        return bisect_right(self.batches, offset, key=lambda batch: batch.next_offset)

    def at(self, base_offset: int) -> TrueBatch | None:
        index = self.holding(base_offset)
        found = self.batches[index] if index >= 0 else None
        return found if found is not None and found.base_offset == base_offset else None

    def produced_by(self, producer_id: int, upto_offset: int | None = None) -> list[TrueBatch]:
        """The batches of a producer's latest epoch, oldest first."""
        found: list[TrueBatch] = []
        for batch in reversed(self.batches):
            if batch.header.producer_id != producer_id or (upto_offset is not None and batch.next_offset > upto_offset):
                continue
            if found and batch.header.producer_epoch != found[0].header.producer_epoch:
                break
            found.append(batch)
        return found[::-1]

    def acknowledged(self, batch: TrueBatch, *, is_flushed: bool) -> None:
        batch.is_acknowledged = True
        self.written_offset = max(self.written_offset, batch.next_offset)
        if is_flushed:
            self.durable_offset = max(self.durable_offset, batch.next_offset)

    def cut(self, end_offset: int) -> list[TrueBatch]:
        """A crash, or a full disk, has taken what is at or past `end_offset`: the batches that are gone."""
        kept = bisect_right(self.batches, end_offset, key=lambda batch: batch.next_offset)
        lost, self.batches = self.batches[kept:], self.batches[:kept]
        self.empty_at = end_offset
        self.written_offset = min(self.written_offset, end_offset)
        return lost

    def take_back(self, end_offset: int) -> list[TrueBatch]:
        """What found no room is not in the log any more, and may be there after a crash."""
        lost = self.cut(end_offset)
        self.taken_back.append(lost)
        return lost

    def accept_taken_back(self, tail: list[TrueBatch]) -> None:
        """A crash has brought back batches that had found no room, behind those that are there."""
        assert tail[0].base_offset == self.next_offset
        self.batches += tail

    def leader_epochs(self, log_start_offset: int) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first, as DeleteRecords leaves them."""
        found: list[tuple[int, int]] = []
        for batch in self.batches:
            epoch, offset = batch.header.partition_leader_epoch, batch.base_offset
            if not found or epoch > found[-1][0]:
                found.append((epoch, offset))
        below = [entry for entry in found if entry[1] <= log_start_offset]
        kept = [entry for entry in found if entry[1] > log_start_offset]
        return [(below[-1][0], log_start_offset), *kept] if below else kept

    def first_at_or_after(self, timestamp_ms: int, start_offset: int, upto_offset: int) -> tuple[int, int]:
        """(timestamp, offset) of the first record at or after a time, as ListOffsets has to answer; (-1, -1) if none
        is.
        """
        for batch in self.batches:
            if batch.next_offset <= start_offset or batch.header.max_timestamp < timestamp_ms:
                continue
            for delta, record in enumerate(batch.records):
                offset = batch.base_offset + delta
                if record.timestamp_ms >= timestamp_ms and offset >= start_offset:
                    return (record.timestamp_ms, offset) if offset < upto_offset else (-1, -1)
        return -1, -1
