"""Appends of one log on their way to the disk, in the order of their offsets.

One write is under way at a time; whatever is appended meanwhile gathers into the next one, so that a slow disk gets
few, large writes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.wire.record_batch import LENGTH_OVERHEAD_BYTES, PLACE
from services.logstore.core.storage.effects import WriteEffect
from services.logstore.core.storage.segment import Segment

if TYPE_CHECKING:
    from services.logstore.core.storage.log import PartitionLog

# A write holds an IO worker and delays those who came first; past this many bytes the rest waits for the next one.
WRITE_BYTES_MAX = 8 * 1024 * 1024
# Below this a copy is cheaper than one more buffer in the write, and it lets go of the message the batch came in.
COPY_BYTES_MAX = 8 * 1024

_PLACE_BYTES = PLACE.size


class LogWrites:
    """`in_flight` is the write that is under way."""

    __slots__ = ("_log", "_queue", "in_flight")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._queue: deque[WriteEffect] = deque()
        self.in_flight: WriteEffect | None = None

    @property
    def is_idle(self) -> bool:
        return self.in_flight is None and not self._queue

    @property
    def next(self) -> WriteEffect | None:
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
        effect = queue[-1] if queue else None
        if effect is None or effect.segment is not segment or effect.byte_count + byte_count > WRITE_BYTES_MAX:
            effect = self._begin_write(segment, end_offset)
        place = PLACE.pack(base_offset, byte_count - LENGTH_OVERHEAD_BYTES, leader_epoch)
        if byte_count <= COPY_BYTES_MAX:
            effect.buffers.append(place + records[_PLACE_BYTES:])
        else:
            effect.buffers.append(place)
            effect.buffers.append(records[_PLACE_BYTES:])
        effect.byte_count += byte_count
        effect.end_offset = end_offset
        if token is not None:
            effect.tokens.append(token)

    def open_run(self, segment: Segment, end_offset: int) -> None:
        """See to a write that `add_run` can add to, at the end of `segment`, which does not count the run yet."""
        effect = self._queue[-1] if self._queue else None
        if effect is None or effect.segment is not segment or effect.byte_count >= WRITE_BYTES_MAX:
            self._begin_write(segment, end_offset)

    def add_run(self, records: memoryview, end_offset: int) -> None:
        """Whole batches as they are, for the write that `open_run` has seen to. Nobody waits for them."""
        effect = self._queue[-1]
        effect.buffers.append(records if len(records) > COPY_BYTES_MAX else bytes(records))
        effect.byte_count += len(records)
        effect.end_offset = end_offset

    def join(self, required_offset: int, token: object) -> None:
        """Have `token` come back with the write that reaches `required_offset`, which is assigned and not written."""
        effect = next(effect for effect in self._unfinished() if effect.end_offset >= required_offset)
        effect.tokens.append(token)

    def flush_behind(self, segment: Segment, end_offset: int, token: object) -> None:
        """Have `token` come back when all that is written is flushed, by a write of nothing at the end of `segment`."""
        assert self.is_idle
        self._begin_write(segment, end_offset).tokens.append(token)

    def _begin_write(self, segment: Segment, end_offset: int) -> WriteEffect:
        effect = WriteEffect(self._log, segment, segment.log_path, segment.byte_count, end_offset, segment.mark())
        if not segment.is_made:
            effect.creates = segment.paths
            segment.is_made = True
        self._queue.append(effect)
        return effect

    def relocate(self) -> None:
        """The segments are in another directory; none of these writes has been begun."""
        assert self.in_flight is None
        for effect in self._queue:
            effect.path = effect.segment.log_path
            if effect.creates:
                effect.creates = effect.segment.paths

    def begin(self) -> None:
        """`next` is under way from now on."""
        assert self.in_flight is None
        self.in_flight = self._queue.popleft()

    def done(self, effect: WriteEffect) -> None:
        assert effect is self.in_flight
        self.in_flight = None

    def abandon(self) -> list[object]:
        """Forget everything that is not written; its tokens."""
        tokens = [token for effect in self._unfinished() for token in effect.tokens]
        self.in_flight = None
        self._queue.clear()
        return tokens

    def _unfinished(self) -> list[WriteEffect]:
        return list(self._queue) if self.in_flight is None else [self.in_flight, *self._queue]
