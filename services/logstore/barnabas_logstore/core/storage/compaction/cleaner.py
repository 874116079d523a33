"""The cleaner without its process: takes orders, runs one pass in steps, says what came of it.

Its host calls `step` while `is_busy`, and sends the reports to the core that gave the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.ports.compression import Codecs
from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage.compaction.cleaning_pass import BytesMoved, CleaningPass, Step
from barnabas_logstore.core.storage.compaction.offset_map import entries_within
from barnabas_logstore.core.storage.compaction.orders import (
    CleanerReport,
    CleanOrder,
    PassEnded,
    PassOutcome,
    UncleanableLog,
)


class Cleaner:
    def __init__(
        self, new_disk: Callable[[], Disk], codecs: Codecs, *, dedupe_buffer_bytes: int, io_buffer_bytes: int
    ) -> None:
        """Every pass has a new disk: the core renames and removes files in between, and a disk that keeps files open by
        their names would not know. `dedupe_buffer_bytes` bound the keys of a pass, `io_buffer_bytes` what is read and
        written at once.
        """
        self._new_disk = new_disk
        self._codecs = codecs
        self._map_entries_max = entries_within(dedupe_buffer_bytes)
        # Half for what is read, half for what is made of it, as in Kafka.
        self._buffer_bytes = max(1, io_buffer_bytes // 2)
        self._order: CleanOrder | None = None
        self._pass: CleaningPass | None = None
        self._steps: Iterator[Step] = iter(())
        self._is_cancelled = False
        self._began_ms = 0
        self._mapped_ms = -1

    @property
    def is_busy(self) -> bool:
        return self._order is not None

    def begin(self, order: CleanOrder, now_ms: int) -> None:
        """One pass at a time: the one before has ended."""
        assert self._order is None
        self._order = order
        self._pass = CleaningPass(self._new_disk(), order, self._codecs, self._map_entries_max, self._buffer_bytes)
        self._steps = self._pass.steps()
        self._is_cancelled = False
        self._began_ms, self._mapped_ms = now_ms, -1

    def cancel(self, order_id: int) -> None:
        """End a pass before its next step; nothing if it is not under way any more."""
        if self._order is not None and self._order.order_id == order_id:
            self._is_cancelled = True

    def step(self, now_ms: int) -> tuple[int, CleanerReport | None]:
        """A bounded piece of the pass: the bytes that it moved, and what there is to be reported."""
        assert self._pass is not None
        if self._is_cancelled:
            return 0, self._end(PassOutcome.ABORTED, now_ms)
        if self._mapped_ms < 0 and self._pass.is_mapped:
            self._mapped_ms = now_ms
        try:
            step = next(self._steps, None)
        except UncleanableLog as problem:
            return 0, self._end(PassOutcome.UNCLEANABLE, now_ms, str(problem))
        except DiskError as error:
            return 0, self._end_by(error, now_ms)
        if step is None:
            return 0, self._end(PassOutcome.DONE, now_ms)
        return (step.byte_count, None) if isinstance(step, BytesMoved) else (0, step)

    def _end_by(self, error: DiskError, now_ms: int) -> PassEnded:
        """Segments may be deleted, and whole logs taken away, while they are read. And it takes room to make room."""
        passes = error.kind in (DiskErrorKind.NOT_FOUND, DiskErrorKind.TOO_MANY_FILES) or error.is_lack_of_room
        if passes:
            return self._end(PassOutcome.ABORTED, now_ms, str(error))
        return self._end(PassOutcome.DISK_ERROR, now_ms, str(error), error.kind)

    def _end(
        self, outcome: PassOutcome, now_ms: int, reason: str = "", disk_error: DiskErrorKind | None = None
    ) -> PassEnded:
        order, its_pass = self._order, self._pass
        assert order is not None
        assert its_pass is not None
        statistics = its_pass.statistics
        statistics.took_ms = now_ms - self._began_ms
        statistics.map_took_ms = (now_ms if self._mapped_ms < 0 else self._mapped_ms) - self._began_ms
        self._order = self._pass = None
        self._steps = iter(())
        return PassEnded(order.order_id, outcome, its_pass.next_dirty_offset, reason, disk_error, statistics)
