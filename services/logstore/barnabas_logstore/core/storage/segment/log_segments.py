"""The segments of one log in order: find the one that contains an offset, and the position of an offset in the bytes of
the whole log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from barnabas_logstore.core.storage.segment.segment import RecentBatches, Segment


class LogSegments:
    """At least one segment once `add` has been called; the last one is the active segment, and the only one that grows
    or shrinks: another one has to become active first (`remove_after`).
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        # The bytes of all but the active one: a log has thousands of segments, and its size is read all the time.
        self._closed_bytes = 0
        self.active: Segment
        """The last one; none before the first `add`."""
        self._with_aborted: list[Segment] = []
        """The closed ones that may have an index of aborted transactions."""
        self.recent = RecentBatches()
        """The last batches of the active segment."""

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def byte_count(self) -> int:
        """The size of all segments' records together."""
        return self._closed_bytes + self.active.byte_count if self._segments else 0

    @property
    def end_position(self) -> int:
        """Bytes of the whole log, as assigned so far; never decreases, even if segments at the log's start are
        deleted.
        """
        return self.active.start_position + self.active.byte_count if self._segments else 0

    def add(self, segment: Segment) -> None:
        if self._segments:
            assert segment.base_offset > self.active.base_offset
            self._closed_bytes += self.active.byte_count
            if self.active.aborted.may_exist:
                self._with_aborted.append(self.active)
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment
        self.recent.clear()

    def remove_first(self, count: int) -> list[Segment]:
        """Remove the oldest segments, at most all but the active one."""
        assert count < len(self._segments)
        removed = self._segments[:count]
        del self._segments[:count]
        del self._base_offsets[:count]
        self._closed_bytes -= _bytes_of(removed)
        del self._with_aborted[: self._aborted_before(self._base_offsets[0])]
        return removed

    def remove_after(self, segment: Segment) -> None:
        """Make `segment` the active one again: those after it have never been written."""
        last = bisect_right(self._base_offsets, segment.base_offset)
        if last < len(self._segments):
            self._closed_bytes -= _bytes_of(self._segments[last - 1 : -1])
            del self._segments[last:]
            del self._base_offsets[last:]
            self.active = self._segments[-1]
            del self._with_aborted[self._aborted_before(self.active.base_offset) :]
            self.recent.clear()

    def closed_neighbours(self, base_offsets: list[int]) -> list[Segment] | None:
        """Return the closed segments with these base offsets, if they exist with no other between them."""
        first = bisect_left(self._base_offsets, base_offsets[0])
        found = slice(first, first + len(base_offsets))
        is_closed = found.stop < len(self._segments)
        return self._segments[found] if is_closed and self._base_offsets[found] == base_offsets else None

    def replace(self, replaced: list[Segment], segment: Segment) -> None:
        """Replace neighbours, none of them the active one, by `segment`.

        It ends where they ended in the bytes of the whole log, so that no position after it changes; what it lacks is
        missing at its beginning.
        """
        first = bisect_left(self._base_offsets, replaced[0].base_offset)
        found = slice(first, first + len(replaced))
        assert self._segments[found] == replaced
        assert found.stop < len(self._segments)
        assert segment.base_offset == replaced[0].base_offset
        segment.start_position = replaced[-1].start_position + replaced[-1].byte_count - segment.byte_count
        segment.position_min = replaced[0].position_min
        self._closed_bytes += segment.byte_count - _bytes_of(replaced)
        self._segments[found] = [segment]
        self._base_offsets[found] = [segment.base_offset]
        first_aborted = self._aborted_before(segment.base_offset)
        upto_aborted = self._aborted_before(self._base_offsets[first + 1])
        self._with_aborted[first_aborted:upto_aborted] = [segment] if segment.aborted.may_exist else []

    def all(self) -> list[Segment]:
        return list(self._segments)

    def oldest(self, count_max: int) -> list[Segment]:
        """Return the first `count_max` segments."""
        return self._segments[:count_max]

    def containing(self, offset: int) -> Segment:
        """Return the segment whose range contains `offset`; the first one for an offset before it."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        index = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def next_after(self, segment: Segment | None, count_max: int) -> list[Segment]:
        """Return the next `count_max` segments after `segment` (None: the first ones); after a retired one, from what
        has replaced it on.
        """
        index = 0
        if segment is not None:
            index = max(bisect_right(self._base_offsets, segment.base_offset) - segment.is_retired, 0)
        return self._segments[index : index + count_max]

    def overlapping(self, start_offset: int, end_offset: int) -> list[Segment]:
        """Return the segments that may contain any of [start_offset, end_offset)."""
        first = max(bisect_right(self._base_offsets, start_offset) - 1, 0)
        return self._segments[first : bisect_left(self._base_offsets, end_offset)]

    def with_aborted(self, offset: int, count_max: int) -> list[Segment]:
        """Return the first `count_max` segments from `offset` on that may have aborted transactions."""
        first = self._aborted_before(offset)
        found = self._with_aborted[first : first + count_max]
        if len(found) < count_max and self.active.aborted.may_exist and self.active.base_offset >= offset:
            found.append(self.active)
        return found

    def _aborted_before(self, offset: int) -> int:
        return bisect_left(self._with_aborted, offset, key=_base_offset_of)

    def batch_position(self, segment: Segment, offset: int) -> tuple[int, bool]:
        """Return (position, exact): where the batch with `offset` begins in `segment`, or a boundary somewhat before
        it.
        """
        known = self.known_position(segment, offset)
        return (segment.offset_index.position_before(offset), False) if known is None else known

    def known_position(self, segment: Segment, offset: int) -> tuple[int, bool] | None:
        """Return `batch_position`; None if a file has to be opened or checked for it."""
        if offset <= segment.base_offset:
            return 0, True
        if segment is self._segments[-1]:
            position = self.recent.position_of(offset)
            if position >= 0:
                return position, True
        index = segment.opened_offset_index()
        return None if index is None else (index.position_before(offset), False)


def _base_offset_of(segment: Segment) -> int:
    return segment.base_offset


def _bytes_of(segments: list[Segment]) -> int:
    return sum([segment.byte_count for segment in segments])
