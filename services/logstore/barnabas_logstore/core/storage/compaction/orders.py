"""What the core and the cleaner say to each other: plain data, since the cleaner is a process of its own.

The core sends a `CleanOrder`, one at a time, and may take it back by its id. The cleaner answers with a
`CleanedSegment` whenever one is on the disk, in the order of their offsets, and with one `PassEnded` at last. It makes
and writes `.cleaned` files only; what a log is made of changes nowhere but in the core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskErrorKind


@dataclass(slots=True, frozen=True)
class SourceSegment:
    """A closed segment as it is to be read."""

    base_offset: int
    byte_count: int


@dataclass(slots=True, frozen=True)
class LastBatch:
    """Where a producer's sequence stands: the batch that ends at `last_offset` has to stay, without records if need
    be. -1: the producer has written nothing but a marker of its transactions, which then stays for its epoch.
    """

    producer_id: int
    producer_epoch: int
    last_offset: int


@dataclass(slots=True, frozen=True)
class CleanOrder:
    """One pass over one log.

    `segments` are all closed ones below `end_offset`, from the log's start; the dirty ones begin at
    `first_dirty_offset`. `wall_ms` is the pass's time: tombstones whose horizon it has reached go.
    """

    order_id: int
    directory: str
    config: TopicConfig
    segments: list[SourceSegment]
    first_dirty_offset: int
    end_offset: int
    wall_ms: int
    producers: list[LastBatch]


@dataclass(slots=True, frozen=True)
class CancelOrder:
    """The pass is not wanted any more; it ends as ABORTED, unless it has ended already."""

    order_id: int


CleanerCommand = CleanOrder | CancelOrder


@dataclass(slots=True, frozen=True)
class CleanedSegment:
    """`<base_offset>.log.cleaned` and its indexes are durable, and can take the place of `replaced` (base offsets)."""

    order_id: int
    base_offset: int
    byte_count: int
    replaced: list[int]


class PassOutcome(StrEnum):
    DONE = "all of its cleaned segments have been handed over"
    ABORTED = "taken back by the core"
    UNCLEANABLE = "a batch can't be opened"
    DISK_ERROR = "the disk failed"


@dataclass(slots=True)
class PassStatistics:
    """Of one pass, as Kafka's cleaner logs them. `map_` counts belong to the first half, in which the keys are read."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    invalid_records: int = 0
    """Without a key: they have no place in a compacted log, and go."""
    map_bytes_read: int = 0
    map_records_read: int = 0
    map_entries: int = 0
    map_is_full: bool = False
    map_took_ms: int = 0
    took_ms: int = 0


@dataclass(slots=True, frozen=True)
class PassEnded:
    """`next_dirty_offset` is where the next pass begins, once all cleaned segments of this one are in place."""

    order_id: int
    outcome: PassOutcome
    next_dirty_offset: int = -1
    reason: str = ""
    disk_error: DiskErrorKind | None = None
    statistics: PassStatistics = field(default_factory=PassStatistics)


CleanerReport = CleanedSegment | PassEnded


@dataclass(slots=True, frozen=True)
class PassReport:
    """For the log: what a pass has come to. `cleanable_ratio` is what it was before; `uncleanable` says why the
    partition is not going to be cleaned again, where that is so.
    """

    topic: str
    partition: int
    first_dirty_offset: int
    cleanable_ratio: float
    ended: PassEnded
    uncleanable: str


class UncleanableLog(Exception):  # noqa: N818 - it names what was found
    """Bytes of a log that can't be opened: it stays as it is, and is never tried again in this life of the process."""
