"""Positions of the last batches of the active segment: consumers at the tail are served without reading an index."""

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
        """Return the position of the batch that contains `offset` (which must be assigned); -1 if that batch is not
        kept.
        """
        index = bisect_right(self._base_offsets, offset)
        return self._positions[index - 1] if index else -1

    def truncate_from(self, offset: int) -> None:
        """Drop the batches at or past `offset`."""
        count = bisect_left(self._base_offsets, offset)
        del self._base_offsets[count:]
        del self._positions[count:]

    def clear(self) -> None:
        del self._base_offsets[:]
        del self._positions[:]
