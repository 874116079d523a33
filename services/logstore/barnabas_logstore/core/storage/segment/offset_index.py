"""`.index`: from an offset to the position of a batch near it, one entry per `index.interval.bytes` of log.

Kafka's format: entries of 8 bytes, relative offset (u32, of the batch's *last* record) and position (u32), both
ascending.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import ClassVar

from barnabas_logstore.core.storage.segment.index_file import IndexFile

ENTRY_BYTES = 8


class OffsetIndex(IndexFile):
    entry_format: ClassVar[struct.Struct] = struct.Struct(">II")

    def belongs_to(self, log_bytes: int) -> bool:
        """Whether this can be the index of a log of `log_bytes`; if not it must be rebuilt."""
        if len(self._entries) % ENTRY_BYTES:
            return False
        # Kafka preallocates an open index: a crash leaves zeros at its end. No real entry has position 0.
        return not self._entries or 0 < self.last_position() < log_bytes

    def append(self, offset: int, position: int) -> None:
        self._add(self.entry_format.pack(offset - self.base_offset, position))

    def entry(self, index: int) -> tuple[int, int]:
        """Return (offset, position) of one entry."""
        relative_offset, position = self.entry_format.unpack_from(self._entries, index * ENTRY_BYTES)
        return self.base_offset + relative_offset, position

    def last_position(self) -> int:
        """The beginning of the last entry's batch; 0 without entries."""
        return self.entry(self.entry_count - 1)[1] if self._entries else 0

    def offset_from(self, position: int, default: int) -> int:
        """Return an offset that every batch before `position` is below; `default` if there is no entry from there
        on.
        """
        index = bisect_left(range(self.entry_count), position, key=lambda index: self.entry(index)[1])
        return self.entry(index)[0] if index < self.entry_count else default

    def position_before(self, offset: int, entries_back: int = 0) -> int:
        """Return where a batch begins that contains `offset` or precedes it, at most an interval and a batch away; or
        one as many entries before that.
        """
        count = self._count_first_fields(offset - self.base_offset) - entries_back
        return self.entry(count - 1)[1] if count > 0 else 0
