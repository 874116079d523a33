"""What both indexes of a segment have in common: entries of one size, saved behind the log.

The index of the active segment is in memory and its entries reach the file along with writes of the log. A crash may
leave the file short or ahead of the log, which does no harm: past the recovery point indexes are rebuilt. The index
of a closed segment is its file, mapped for as long as a lookup takes.
"""

from __future__ import annotations

import struct

from barnabas.ports.disk import Buffer
from barnabas_logstore.core.storage.effects import SmallWrite


class IndexFile:
    entry_format: struct.Struct

    def __init__(self, path: str, base_offset: int, entries: Buffer) -> None:
        """`entries` are what the file holds. A bytearray can grow, anything else is closed."""
        self.path = path
        self.base_offset = base_offset
        self._entries = entries
        self._saved_bytes = len(entries)

    def __len__(self) -> int:
        return len(self._entries) // self.entry_format.size

    def content(self) -> bytes:
        """The entries as the file has them once all are saved."""
        return bytes(self._entries)

    def take_unsaved(self) -> SmallWrite | None:
        """What the file does not hold yet; the caller sees to it that it gets there."""
        if self._saved_bytes == len(self._entries):
            return None
        write = SmallWrite(self.path, self._saved_bytes, bytes(memoryview(self._entries)[self._saved_bytes :]))
        self._saved_bytes = len(self._entries)
        return write

    def cut(self, entries_max: int) -> None:
        """Forget the entries past the first `entries_max`. The file is taken for empty: the caller sees to that."""
        assert isinstance(self._entries, bytearray), f"{self.path} belongs to a closed segment"
        del self._entries[entries_max * self.entry_format.size :]
        self.save_anew()

    def save_anew(self) -> None:
        """What was on its way to the file may not have got there: all of it has to be written again."""
        self._saved_bytes = 0

    def _add(self, entry: bytes) -> None:
        assert isinstance(self._entries, bytearray), f"{self.path} belongs to a closed segment"
        self._entries += entry

    def _count_first_fields(self, limit: int) -> int:
        """How many entries have a first field that is at most `limit`: a binary search, as first fields ascend."""
        unpack_from = self.entry_format.unpack_from
        entry_bytes = self.entry_format.size
        entries = self._entries
        low, high = 0, len(entries) // entry_bytes
        while low < high:
            middle = (low + high) >> 1
            if unpack_from(entries, middle * entry_bytes)[0] <= limit:
                low = middle + 1
            else:
                high = middle
        return low
