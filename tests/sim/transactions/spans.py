"""The transactions of one partition, read from its batches alone: where each begins, and which marker ends it.

Independent of the producer state and the indexes of a log, which are compared with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from barnabas.wire.markers import control_type_of
from barnabas.wire.record_batch import TRANSACTIONAL_BIT, decode_payload
from tests.sim.replica_logs import Batch

OPEN = -1
_COMMIT = 1


@dataclass(slots=True, eq=False)
class Span:
    """A producer's transaction in one partition; `marker_offset` is OPEN until it is ended."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    marker_offset: int = OPEN
    is_commit: bool = False
    is_emptied: bool = False
    """The cleaner has left nothing but a batch without records of it: a log may know of it by a snapshot alone."""
    batches: list[Batch] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.marker_offset == OPEN


@dataclass(slots=True)
class MarkerBatch:
    """A marker, and the transaction that it ends; None: its producer has none open."""

    batch: Batch
    is_commit: bool
    coordinator_epoch: int
    ended: Span | None


class Spans:
    """Of a sequence of batches that grows, and may be cut."""

    def __init__(self) -> None:
        self.scanned = 0
        """Batches that it has seen, of whatever kind."""
        self.all: list[Span] = []
        """In the order of their first offsets."""
        self.open: dict[int, Span] = {}
        """By producer id."""
        self.of_batch: dict[int, Span] = {}
        """By the batch's first offset."""
        self.unstable: dict[Span, None] = {}
        """Open, or ended at or above the watermark that `first_unstable` was asked for last."""
        self._emptied: dict[int, Span] = {}
        """By producer id: what may have begun where a batch without records is."""
        self._next_offset: int | None = None
        self._first_gap: int | None = None
        """Where the cleaner has left no batch at all, first."""

    def add(self, batches: Iterable[Batch]) -> list[MarkerBatch]:
        """Return the markers among them."""
        markers: list[MarkerBatch] = []
        for batch in batches:
            self.scanned += 1
            if self._first_gap is None and self._next_offset not in (None, batch.base_offset):
                self._first_gap = self._next_offset
            self._next_offset = batch.next_offset
            if not batch.header.attributes & TRANSACTIONAL_BIT:
                continue
            if batch.header.is_control:
                markers.append(self._end(batch))
            else:
                self._continue(batch)
        return markers

    def _continue(self, batch: Batch) -> None:
        header = batch.header
        span = self.open.get(header.producer_id)
        if span is None and not header.records_count:
            # The cleaner has emptied it, and its transaction's marker may be gone: it begins none for sure.
            emptied = Span(header.producer_id, header.producer_epoch, batch.base_offset, is_emptied=True)
            self._emptied.setdefault(header.producer_id, emptied)
            return
        if span is None:
            self._emptied.pop(header.producer_id, None)
            span = Span(header.producer_id, header.producer_epoch, batch.base_offset)
            self.open[header.producer_id] = span
            self.all.append(span)
            self.unstable[span] = None
        span.batches.append(batch)
        self.of_batch[batch.base_offset] = span

    def _end(self, batch: Batch) -> MarkerBatch:
        record = next(iter(decode_payload(batch.header, batch.payload)))
        assert record.value is not None
        is_commit = control_type_of(record.key) == _COMMIT
        ended = self.open.pop(batch.header.producer_id, None)
        emptied = self._emptied.pop(batch.header.producer_id, None)
        if ended is None and emptied is None and self._first_gap is not None:
            # All other batches of its transaction may be cleaned away: a log may know of it by a snapshot alone.
            emptied = Span(batch.header.producer_id, batch.header.producer_epoch, self._first_gap, is_emptied=True)
        if emptied is not None:
            emptied.marker_offset = batch.base_offset
            self.unstable[emptied] = None
        if ended is not None:
            ended.marker_offset, ended.is_commit = batch.base_offset, is_commit
        return MarkerBatch(batch, is_commit, int.from_bytes(record.value[2:6]), ended)

    def first_unstable(self, high_watermark: int, forgiven_upto: int) -> tuple[int, int]:
        """Return the first offset that may be unstable, and the first that is.

        The latter is of a transaction with records that is not ended at all, or ended at `forgiven_upto` or later. Each
        is at most the high watermark.
        """
        least = surely = high_watermark
        for span in list(self.unstable):
            if not span.is_open and span.marker_offset < high_watermark:
                del self.unstable[span]
                continue
            least = min(least, span.first_offset)
            if span.is_open or (span.marker_offset >= forgiven_upto and not span.is_emptied):
                surely = min(surely, span.first_offset)
        return least, surely


class CommittedSpans(Spans):
    """Of what is committed in a partition: it can be asked for the transaction of any offset."""

    def __init__(self) -> None:
        super().__init__()
        self._bases: list[int] = []
        self.end = 0
        self.coordinator_epochs: dict[int, int] = {}
        """By producer id: that of its last marker."""
        self.producer_epochs: dict[int, int] = {}
        """By producer id: the highest."""
        self.endings: dict[tuple[int, int, bool], int] = {}
        """Transactions ended, by producer id, the marker's epoch, and whether by COMMIT."""
        self.is_cut = False
        """Something that was committed is lost, as it may be: what is here is not all any more."""

    def add(self, batches: Iterable[Batch]) -> list[MarkerBatch]:
        some = list(batches)
        self._bases += [each.base_offset for each in some]
        self.end = some[-1].next_offset if some else self.end
        return super().add(some)

    def at(self, offset: int) -> Span | None:
        """Return the transaction of a committed offset; None: it is of none."""
        index = bisect_left(self._bases, offset + 1) - 1
        return self.of_batch.get(self._bases[index]) if index >= 0 else None
