"""The latest offset of every key in the dirty part of a log, in bounded memory.

Kafka keeps MD5 and offset, 24 bytes a key, in an open-addressed buffer. Probing one in Python costs a microsecond a
record; a dict costs a tenth of that and more memory: ENTRY_BYTES a key. So the same `log.cleaner.dedupe.buffer.size`
takes fewer keys a pass here (128 MiB: 699,050; Kafka: 5,033,164), and a log with more dirty keys takes more passes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

KEY_BYTES_MAX: Final = 30
"""Keys up to this length stand for themselves; a longer one is told by a digest, of a length that no such key has."""
DIGEST_BYTES: Final = 31

# What CPython 3.11 takes for one key: a bytes object of at most 31 bytes, an int, a place in the sorted offsets and
# one among the tombstones; then of the dict itself an entry, and its index at two thirds full.
_OBJECT_BYTES: Final = 64 + 32 + 8 + 8
_DICT_ENTRY_BYTES: Final = 24
_DICT_INDEX_BYTES: Final = 4
ENTRY_BYTES: Final = _OBJECT_BYTES + _DICT_ENTRY_BYTES + _DICT_INDEX_BYTES * 3 // 2


def entries_within(byte_count: int) -> int:
    """How many keys a map may take to stay within `byte_count`.

    A dict doubles its table when that is full, and has both for a moment: the best use are as many keys as fill one.
    """
    best = 1
    slots = 8
    while True:
        usable = slots * 2 // 3
        left = byte_count - _table_bytes(slots) - _table_bytes(slots // 2)
        if left < _OBJECT_BYTES:
            return best
        best = max(best, min(usable, left // _OBJECT_BYTES))
        slots *= 2


def _table_bytes(slots: int) -> int:
    return slots * 2 // 3 * _DICT_ENTRY_BYTES + slots * _DICT_INDEX_BYTES


class OffsetMap:
    """`latest` holds each key's latest offset, `~offset` where that record is a tombstone. Filled by `record_walk`.

    Once all is in, `close` sorts the offsets: a record of the mapped part stays if and only if its offset is there,
    which is found without another look at its key.
    """

    def __init__(self, entries_max: int, start_offset: int) -> None:
        assert entries_max > 0
        self.latest: dict[bytes, int] = {}
        self.start_offset = start_offset
        self.last_offset = start_offset - 1
        """Every record from `start_offset` up to here has been entered."""
        self._entries_max = entries_max
        self._offsets = array("q")
        self._tombstones = array("q")

    def __len__(self) -> int:
        return len(self.latest)

    @property
    def room(self) -> int:
        """So many more keys may come in."""
        return self._entries_max - len(self.latest)

    def close(self) -> None:
        """No more keys come in."""
        tombstones = [~value for value in self.latest.values() if value < 0]
        tombstones.sort()
        self._tombstones = array("q", tombstones)
        offsets = [value for value in self.latest.values() if value >= 0]
        offsets += tombstones
        offsets.sort()
        self._offsets = array("q", offsets)

    def offsets_within(self, first_offset: int, last_offset: int) -> array[int]:
        """The latest offsets of keys that are in [first_offset, last_offset], ascending."""
        offsets = self._offsets
        start = bisect_left(offsets, first_offset)
        return offsets[start : bisect_right(offsets, last_offset, start)]

    def tombstones_within(self, first_offset: int, last_offset: int) -> array[int]:
        """Those of them that are tombstones."""
        tombstones = self._tombstones
        start = bisect_left(tombstones, first_offset)
        return tombstones[start : bisect_right(tombstones, last_offset, start)]
