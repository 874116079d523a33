"""Where the last batches of the active segment begin: consumers at the tail find their place without a look at any
index.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

BATCHES_KEPT_MIN = 512


class RecentBatches:
    """Base offsets and positions of at least the last 512 batches, at most twice as many (16 KiB)."""

    def __init__(self) -> None:
        self._base_offsets = array("q")
        self._positions = array("q")

    def add(self, base_offset: int, position: int) -> None:
        base_offsets = self._base_offsets
        if len(base_offsets) == 2 * BATCHES_KEPT_MIN:
            del base_offsets[:BATCHES_KEPT_MIN]
            del self._positions[:BATCHES_KEPT_MIN]
        base_offsets.append(base_offset)
        self._positions.append(position)

    def position_of(self, offset: int) -> int:
        """The position of the batch that holds `offset` (which must be assigned); -1 when that batch is not kept."""
        index = bisect_right(self._base_offsets, offset)
        return self._positions[index - 1] if index else -1

    def truncate_from(self, offset: int) -> None:
        """Forget the batches at or past `offset`."""
        count = bisect_left(self._base_offsets, offset)
        del self._base_offsets[count:]
        del self._positions[count:]

    def clear(self) -> None:
        del self._base_offsets[:]
        del self._positions[:]
