"""Appends of one log on their way to the disk, in the order of their offsets.

One write is under way at a time; whatever is appended meanwhile gathers into the next one, so that a slow disk gets
few, large writes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from barnabas.ports.disk import Buffer
from barnabas.wire.record_batch import LENGTH_OVERHEAD_BYTES, PLACE
from services.logstore.core.storage.effects import FlushEffect, SmallWrite, WriteEffect
from services.logstore.core.storage.log_state import LogState
from services.logstore.core.storage.segment import Segment, SegmentMark

# A write holds an IO worker and delays those who came first; past this many bytes the rest waits for the next one.
WRITE_BYTES_MAX = 8 * 1024 * 1024
# Below this a copy is cheaper than one more buffer in the write, and it lets go of the message the batch came in.
COPY_BYTES_MAX = 8 * 1024

_PLACE_BYTES = PLACE.size


@dataclass(slots=True, eq=False)
class GatheredWrite:
    """Batches for the end of one segment's file. `tokens` are the callers' own, one per append, in order."""

    segment: Segment
    position: int
    end_offset: int
    mark: SegmentMark
    """What the segment was before the first of these batches."""
    creates: list[str]
    buffers: list[Buffer] = field(default_factory=list)
    byte_count: int = 0
    tokens: list[object] = field(default_factory=list)
    effect: WriteEffect | None = None
    """Once it is under way."""


class LogWrites:
    """`in_flight` is the write that is under way."""

    __slots__ = ("_queue", "_state", "in_flight")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._queue: deque[GatheredWrite] = deque()
        self.in_flight: GatheredWrite | None = None

    @property
    def is_idle(self) -> bool:
        return self.in_flight is None and not self._queue

    @property
    def next(self) -> GatheredWrite | None:
        """The oldest write that has not been begun."""
        return self._queue[0] if self._queue else None

    def add(
        self,
        segment: Segment,
        records: memoryview,
        base_offset: int,
        end_offset: int,
        leader_epoch: int,
        token: object,
    ) -> None:
        """A batch at the end of `segment`, which does not count it yet. `token` comes back with its write; None: nobody
        waits for it.
        """
        byte_count = len(records)
        queue = self._queue
        write = queue[-1] if queue else None
        if write is None or write.segment is not segment or write.byte_count + byte_count > WRITE_BYTES_MAX:
            write = self._gather(segment, end_offset)
        place = PLACE.pack(base_offset, byte_count - LENGTH_OVERHEAD_BYTES, leader_epoch)
        if byte_count <= COPY_BYTES_MAX:
            write.buffers.append(place + records[_PLACE_BYTES:])
        else:
            write.buffers.append(place)
            write.buffers.append(records[_PLACE_BYTES:])
        write.byte_count += byte_count
        write.end_offset = end_offset
        if token is not None:
            write.tokens.append(token)

    def open_run(self, segment: Segment, end_offset: int) -> None:
        """See to a write that `add_run` can add to, at the end of `segment`, which does not count the run yet."""
        write = self._queue[-1] if self._queue else None
        if write is None or write.segment is not segment or write.byte_count >= WRITE_BYTES_MAX:
            self._gather(segment, end_offset)

    def add_run(self, records: memoryview, end_offset: int) -> None:
        """Whole batches as they are, for the write that `open_run` has seen to. Nobody waits for them."""
        write = self._queue[-1]
        write.buffers.append(records if len(records) > COPY_BYTES_MAX else bytes(records))
        write.byte_count += len(records)
        write.end_offset = end_offset

    def join(self, required_offset: int, token: object) -> None:
        """Have `token` come back with the write that reaches `required_offset`, which is assigned and not written."""
        write = next(write for write in self._unfinished() if write.end_offset >= required_offset)
        write.tokens.append(token)

    def flush_behind(self, segment: Segment, end_offset: int, token: object) -> None:
        """Have `token` come back when all that is written is flushed, by a write of nothing at the end of `segment`."""
        assert self.is_idle
        self._gather(segment, end_offset).tokens.append(token)

    def _gather(self, segment: Segment, end_offset: int) -> GatheredWrite:
        creates: list[str] = []
        if not segment.is_made:
            creates = segment.paths
            segment.is_made = True
        write = GatheredWrite(segment, segment.byte_count, end_offset, segment.mark(), creates)
        self._queue.append(write)
        return write

    def relocate(self) -> None:
        """The segments are in another directory; none of these writes has been begun."""
        assert self.in_flight is None
        for write in self._queue:
            if write.creates:
                write.creates = write.segment.paths

    def begin(self, index_writes: list[SmallWrite], flush: FlushEffect | None) -> WriteEffect:
        """`next` is under way from now on, with the index entries and the flush that go with it."""
        assert self.in_flight is None
        write = self.in_flight = self._queue.popleft()
        effect = write.effect = WriteEffect(
            self._state.directory,
            write.segment.log_path,
            write.position,
            write.end_offset,
            write.buffers,
            write.byte_count,
            write.creates,
            index_writes,
            flush,
        )
        return effect

    def end(self, effect: WriteEffect) -> GatheredWrite:
        """`effect` is no longer under way."""
        write = self.in_flight
        assert write is not None
        assert effect is write.effect
        self.in_flight = None
        return write

    def abandon(self) -> list[object]:
        """Forget everything that is not written; its tokens."""
        tokens = [token for write in self._unfinished() for token in write.tokens]
        self.in_flight = None
        self._queue.clear()
        return tokens

    def _unfinished(self) -> list[GatheredWrite]:
        return list(self._queue) if self.in_flight is None else [self.in_flight, *self._queue]
