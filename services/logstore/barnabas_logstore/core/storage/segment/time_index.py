"""`.timeindex`: from a timestamp to an offset, for ListOffsets.

Kafka's format: entries of 12 bytes, timestamp (i64) and relative offset (u32). An entry (t, o) means that no record
before o is later than t, where o ends the batch that was the first to reach t. Timestamps strictly ascend.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from barnabas_logstore.core.storage.segment.index_file import IndexFile

ENTRY_BYTES = 12
NO_TIMESTAMP = -1


class TimeIndex(IndexFile):
    entry_format: ClassVar[struct.Struct] = struct.Struct(">qI")

    def belongs_to(self, log_bytes: int) -> bool:
        """Whether this can be the index of a log of `log_bytes` that was closed; if not it must be rebuilt."""
        if len(self._entries) % ENTRY_BYTES:
            return False
        # Kafka preallocates an open index: a crash leaves zeros at its end, which do not ascend. The last entry of a
        # closed one is its largest timestamp.
        is_ascending = self.entry_count < 2 or self.entry(self.entry_count - 2)[0] < self.entry(self.entry_count - 1)[0]
        return is_ascending and (self.entry_count > 0 or log_bytes == 0)

    def append_if_later(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry if `timestamp_ms` is past the last one's; otherwise it would add no information."""
        if timestamp_ms > self.last()[0]:
            self._add(self.entry_format.pack(timestamp_ms, offset - self.base_offset))

    def entry(self, index: int) -> tuple[int, int]:
        """Return (timestamp_ms, offset) of one entry."""
        timestamp_ms, relative_offset = self.entry_format.unpack_from(self._entries, index * ENTRY_BYTES)
        return timestamp_ms, self.base_offset + relative_offset

    def last(self) -> tuple[int, int]:
        """Return the last entry; (NO_TIMESTAMP, base offset) without any."""
        return self.entry(self.entry_count - 1) if self._entries else (NO_TIMESTAMP, self.base_offset)

    def offset_before(self, timestamp_ms: int) -> int:
        """Return an offset before which every record is earlier than `timestamp_ms`."""
        count = self._count_first_fields(timestamp_ms - 1)
        return self.entry(count - 1)[1] if count else self.base_offset
