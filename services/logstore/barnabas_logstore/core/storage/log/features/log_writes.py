"""Appends of one log on their way to the disk, in the order of their offsets.

One write is in progress at a time; whatever is appended meanwhile is part of the next one, so that a slow disk gets
few, large writes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from barnabas.wire.record_batch import LENGTH_OVERHEAD_BYTES, PLACE
from barnabas_logstore.core.storage.effects import WriteEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import Segment, SegmentMark

# A write occupies an IO worker and delays the first appends in it; past this many bytes the rest waits for the next
# one.
WRITE_BYTES_MAX = 8 * 1024 * 1024
# Below this a copy is cheaper than one more buffer in the write, and it releases the message the batch came in.
COPY_BYTES_MAX = 8 * 1024

_PLACE_BYTES = PLACE.size


@dataclass(slots=True, eq=False)
class GatheredWrite:
    """Batches for the end of one segment's file, in `effect`. `tokens` are the callers' own, one per append."""

    segment: Segment
    effect: WriteEffect
    mark: SegmentMark
    """The state of the segment before the first of these batches."""
    tokens: list[object] = field(default_factory=list)


class LogWrites:
    """`in_flight` is the write in progress."""

    __slots__ = ("_state", "in_flight", "queue")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.queue: deque[GatheredWrite] = deque()
        """Writes that have not begun, oldest first."""
        self.in_flight: GatheredWrite | None = None

    @property
    def is_idle(self) -> bool:
        return self.in_flight is None and not self.queue

    def add(
        self,
        segment: Segment,
        records: memoryview,
        base_offset: int,
        end_offset: int,
        leader_epoch: int,
        token: object,
    ) -> None:
        """Add a batch at the end of `segment`, which does not count it yet. `token` is returned with its write; None:
        no caller waits for it.
        """
        byte_count = len(records)
        queue = self.queue
        if queue:
            write = queue[-1]
            if write.segment is not segment or write.effect.byte_count + byte_count > WRITE_BYTES_MAX:
                write = self._gather(segment, end_offset)
        else:
            write = self._gather(segment, end_offset)
        effect = write.effect
        place = PLACE.pack(base_offset, byte_count - LENGTH_OVERHEAD_BYTES, leader_epoch)
        if byte_count <= COPY_BYTES_MAX:
            effect.buffers.append(place + records[_PLACE_BYTES:])
        else:
            effect.buffers.append(place)
            effect.buffers.append(records[_PLACE_BYTES:])
        effect.byte_count += byte_count
        effect.end_offset = end_offset
        if token is not None:
            write.tokens.append(token)

    def open_run(self, segment: Segment, end_offset: int) -> None:
        """Prepare a write that `add_run` can add to, at the end of `segment`, which does not count the run yet."""
        write = self.queue[-1] if self.queue else None
        if write is None or write.segment is not segment or write.effect.byte_count >= WRITE_BYTES_MAX:
            self._gather(segment, end_offset)

    def add_run(self, records: memoryview, end_offset: int) -> None:
        """Add complete batches unchanged to the write that `open_run` has prepared. No caller waits for them."""
        effect = self.queue[-1].effect
        effect.buffers.append(records if len(records) > COPY_BYTES_MAX else bytes(records))
        effect.byte_count += len(records)
        effect.end_offset = end_offset

    def join(self, required_offset: int, token: object) -> None:
        """Return `token` with the write that reaches `required_offset`, which is assigned and not written."""
        write = next(write for write in self._unfinished() if write.effect.end_offset >= required_offset)
        write.tokens.append(token)

    def flush_behind(self, segment: Segment, end_offset: int, token: object) -> None:
        """Return `token` when all that is written is flushed, by an empty write at the end of `segment`."""
        assert self.is_idle
        self._gather(segment, end_offset).tokens.append(token)

    def _gather(self, segment: Segment, end_offset: int) -> GatheredWrite:
        effect = WriteEffect(self._state.directory, segment.log_path, segment.byte_count, end_offset)
        write = GatheredWrite(segment, effect, segment.mark())
        if not segment.is_made:
            effect.creates = segment.paths
            segment.is_made = True
        self.queue.append(write)
        return write

    def relocate(self) -> None:
        """The segments are in another directory; none of these writes has begun."""
        assert self.in_flight is None
        for write in self.queue:
            effect = write.effect
            effect.directory, effect.path = self._state.directory, write.segment.log_path
            if effect.creates:
                effect.creates = write.segment.paths

    def begin(self) -> WriteEffect:
        """The oldest of `queue` is in progress from now on."""
        assert self.in_flight is None
        self.in_flight = self.queue.popleft()
        return self.in_flight.effect

    def end(self, effect: WriteEffect) -> GatheredWrite:
        """`effect` is no longer in progress."""
        write, self.in_flight = self.in_flight, None
        assert write is not None
        assert effect is write.effect
        return write

    @property
    def tokens(self) -> list[object]:
        """Those of all that is not written."""
        return [token for write in self._unfinished() for token in write.tokens]

    def abandon(self) -> list[object]:
        """Drop everything that is not written. Return its tokens."""
        tokens = self.tokens
        self.in_flight = None
        self.queue.clear()
        return tokens

    def _unfinished(self) -> list[GatheredWrite]:
        return list(self.queue) if self.in_flight is None else [self.in_flight, *self.queue]
