"""What the indexes of a segment have in common: entries of one size, saved after the log.

The index of the active segment is in memory and its entries reach the file along with writes of the log. A crash may
leave the file short or ahead of the log, which is harmless: past the recovery point indexes are rebuilt. The index of a
closed segment is its file, mapped for the duration of a lookup.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from barnabas.ports.disk import Buffer
from barnabas_logstore.core.storage.effects import SmallWrite


class IndexFile:
    entry_format: ClassVar[struct.Struct]
    is_optional: ClassVar[bool] = False
    """Whether the file exists only once it has an entry."""

    def __init__(self, path: str, base_offset: int, entries: Buffer) -> None:
        """`entries` is the content of the file. A bytearray can grow, anything else is closed."""
        self.path = path
        self.base_offset = base_offset
        self._entries = entries
        self._saved_bytes = len(entries)
        self.entry_count = len(entries) // self.entry_format.size
        self.is_saved = True
        """Whether the file has all entries."""

    def __len__(self) -> int:
        return self.entry_count

    def content(self) -> bytes:
        """The content of the file once all entries are saved."""
        return bytes(self._entries)

    def take_unsaved(self) -> SmallWrite | None:
        """Return what the file does not contain yet; the caller writes it."""
        if self.is_saved:
            return None
        unsaved = bytes(memoryview(self._entries)[self._saved_bytes :])
        write = SmallWrite(self.path, self._saved_bytes, unsaved, self.is_optional)
        self._saved_bytes = len(self._entries)
        self.is_saved = True
        return write

    def cut(self, entries_max: int) -> None:
        """Drop the entries past the first `entries_max`. The file is taken for empty: the caller ensures that."""
        assert isinstance(self._entries, bytearray), f"{self.path} belongs to a closed segment"
        del self._entries[entries_max * self.entry_format.size :]
        self.entry_count = len(self._entries) // self.entry_format.size
        self.save_whole()

    def save_whole(self) -> None:
        """Unsaved entries may not have reached the file: all of it has to be written again."""
        self._saved_bytes = 0
        self.is_saved = not self._entries

    def _add(self, entry: bytes) -> None:
        assert isinstance(self._entries, bytearray), f"{self.path} belongs to a closed segment"
        self._entries += entry
        self.entry_count += 1
        self.is_saved = False

    def _count_first_fields(self, limit: int) -> int:
        """Return how many entries have a first field of at most `limit`: a binary search, as first fields ascend."""
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
