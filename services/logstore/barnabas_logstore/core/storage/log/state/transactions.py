"""The transactions of one partition that are not over: what the last stable offset waits for.

Kafka's rules (ProducerStateManager of 4.3): a transaction is *open* from its first batch to its marker. After that it
stays *unreplicated* until the high watermark has passed the marker. The first offset of all of these is the first
unstable offset.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from barnabas_logstore.core.storage.effect_results import AbortedTransaction
from barnabas_logstore.core.storage.segment.segment import Segment

NO_OFFSET = -1


class EndedTransaction(NamedTuple):
    """`last_offset` is that of its marker, `last_stable_offset` where the first other open one begins, or the offset
    after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool


def index_aborted(segment: Segment, ended: EndedTransaction | None) -> None:
    """Name a transaction in the index of the segment that has its marker, if it is aborted."""
    if ended is not None and ended.is_aborted:
        segment.aborted.add(AbortedTransaction(*ended[:4]))


class Transactions:
    """`is_none`: none is open or unreplicated, and the last stable offset is the high watermark."""

    __slots__ = ("_unreplicated", "is_none", "open")

    def __init__(self) -> None:
        self.is_none = True
        self.open: list[tuple[int, int]] = []
        """(first offset, producer id), ascending; read only."""
        self._unreplicated: deque[EndedTransaction] = deque()
        """In the order of their markers, and ascending by first offset: one that began later and ended earlier than
        another changes nothing.
        """

    def restart(self, open_transactions: Iterable[tuple[int, int]], end_offset: int | None = None) -> None:
        """The open ones are these, by first offset and producer id; none ended at `end_offset` or later."""
        self.open = sorted(open_transactions)
        if end_offset is not None:
            while self._unreplicated and self._unreplicated[-1].last_offset >= end_offset:
                self._unreplicated.pop()
        self._settle()

    def recall(self, earlier: Transactions, end_offset: int) -> None:
        """Recall those that `earlier` knew to have ended below `end_offset`, where the log was truncated: a snapshot
        contains only what is open.
        """
        unreplicated = self._unreplicated
        for ended in reversed(earlier._unreplicated):
            if not unreplicated:
                is_next = ended.last_offset < end_offset
            else:
                following = unreplicated[0]
                is_next = ended.last_offset < following.last_offset and ended.first_offset < following.first_offset
            if is_next:
                unreplicated.appendleft(ended)
        self._settle()

    def begin(self, first_offset: int, producer_id: int) -> None:
        """A producer's first batch of a transaction is in the log."""
        insort(self.open, (first_offset, producer_id))
        self.is_none = False

    def end(self, first_offset: int, producer_id: int, marker_offset: int, *, is_aborted: bool) -> EndedTransaction:
        """Its marker is in the log."""
        del self.open[bisect_left(self.open, (first_offset, producer_id))]
        last_stable_offset = self.open[0][0] if self.open else marker_offset + 1
        ended = EndedTransaction(producer_id, first_offset, marker_offset, last_stable_offset, is_aborted)
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[-1].first_offset > first_offset:
            unreplicated.pop()
        unreplicated.append(ended)
        return ended

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return min(first unstable offset, high watermark). The high watermark never moves back."""
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[0].last_offset < high_watermark:
            unreplicated.popleft()
            self._settle()
        unstable = [high_watermark, *(each.first_offset for each in islice(unreplicated, 1))]
        return min([*unstable, self.open[0][0]] if self.open else unstable)

    def _settle(self) -> None:
        self.is_none = not (self.open or self._unreplicated)
