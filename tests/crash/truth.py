"""What must be true of one partition: the batches that were given a place in its log, and what was promised of them.

Nothing here comes from the log itself. A batch is known from the moment that it is handed in, at the offset that it
has to get; after a crash the log says how many of the last ones are gone, and this says how many may be.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from barnabas.wire.record_batch import BatchHeader

WINDOW_BATCHES = 5
"""How many of its last batches a producer may repeat."""


@dataclass(slots=True, eq=False)
class TrueBatch:
    """`content` is what has to be in the log, offset and epoch included; its records' times are `timestamps`."""

    content: bytes
    header: BatchHeader
    timestamps: tuple[int, ...]
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

    `log_start_asked` is the highest log start that anybody asked for (DeleteRecords, retention): the log may begin
    there or, after a crash, earlier, never later.
    """

    topic: str
    topic_id: bytes
    partition: int
    batches: list[TrueBatch] = field(default_factory=list)
    leader_epoch: int = 0
    partition_epoch: int = 0
    durable_offset: int = 0
    written_offset: int = 0
    log_start_asked: int = 0
    recovered_end: int = 0
    """Where the log ended when it was last opened: of what is before that, a producer's window may be short."""
    is_deleted: bool = False
    is_flushed_before_acknowledged: bool = False
    is_compacted: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def next_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def holding(self, offset: int) -> int:
        """The index of the batch with `offset`; of the last one for an offset past the end."""
        return bisect_right(self.batches, offset, key=lambda batch: batch.base_offset) - 1

    def produced_by(self, producer_id: int) -> list[TrueBatch]:
        """The batches of a producer's latest epoch, oldest first."""
        found: list[TrueBatch] = []
        for batch in reversed(self.batches):
            if batch.header.producer_id == producer_id:
                if found and batch.header.producer_epoch != found[0].header.producer_epoch:
                    break
                found.append(batch)
        return found[::-1]

    def acknowledged(self, batch: TrueBatch) -> None:
        batch.is_acknowledged = True
        self.written_offset = max(self.written_offset, batch.next_offset)
        if self.is_flushed_before_acknowledged:
            self.durable_offset = max(self.durable_offset, batch.next_offset)

    def cut(self, end_offset: int) -> list[TrueBatch]:
        """A crash has taken what is at or past `end_offset`: the batches that are gone."""
        kept = self.holding(end_offset - 1) + 1 if end_offset > 0 else 0
        lost, self.batches = self.batches[kept:], self.batches[:kept]
        self.written_offset = min(self.written_offset, self.next_offset)
        self.recovered_end = self.next_offset
        return lost

    def first_at_or_after(self, timestamp_ms: int, start_offset: int, upto_offset: int) -> tuple[int, int]:
        """(timestamp, offset) of the first record at or after a time, as ListOffsets has to answer; (-1, -1) if none
        is.
        """
        for batch in self.batches:
            if batch.next_offset <= start_offset or batch.header.max_timestamp < timestamp_ms:
                continue
            for delta, record_ms in enumerate(batch.timestamps):
                offset = batch.base_offset + delta
                if record_ms >= timestamp_ms and offset >= start_offset:
                    return (record_ms, offset) if offset < upto_offset else (-1, -1)
        return -1, -1
