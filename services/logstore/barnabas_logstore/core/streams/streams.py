"""The streams that peers have opened: what is unanswered on each, and what the core has for it this turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.channel.assembly import ReadResult
from barnabas.channel.messages import (
    CoordinateResponse,
    ExchangeResponse,
    Read,
    ReadPartitionResult,
    ReadResponse,
    WatchResponse,
)
from barnabas_logstore.core.streams.request_times import TimedRequest


@dataclass(slots=True, eq=False)
class ExchangeStream:
    """Appends and queries of one processor. What is handled goes back to it as credit, with its next response."""

    stream_id: int
    response: ExchangeResponse | None = None
    requests_handled: int = 0
    bytes_handled: int = 0
    timed: dict[int, TimedRequest] = field(default_factory=dict)
    """Unanswered, by request id; likewise on the other streams."""
    greeted: bool = False
    closed: bool = False


@dataclass(slots=True, eq=False)
class ReadStream:
    """Reads of one processor. A read is handled when its answer leaves, so that credit bounds what answers wait."""

    stream_id: int
    response: ReadResponse | None = None
    results: list[ReadResult] = field(default_factory=list)
    requests_handled: int = 0
    # By request id: what a cancel can still reach.
    unanswered: dict[int, PendingRead] = field(default_factory=dict)
    timed: dict[int, TimedRequest] = field(default_factory=dict)
    greeted: bool = False
    closed: bool = False


@dataclass(slots=True, eq=False)
class WatchStream:
    """The partitions and groups that one purgatory pod follows."""

    stream_id: int
    response: WatchResponse | None = None
    greeted: bool = False
    closed: bool = False


@dataclass(slots=True, eq=False)
class CoordinateStream:
    """What one processor asks of coordinators."""

    stream_id: int
    response: CoordinateResponse | None = None
    requests_handled: int = 0
    bytes_handled: int = 0
    timed: dict[int, TimedRequest] = field(default_factory=dict)
    greeted: bool = False
    closed: bool = False


Stream = ExchangeStream | ReadStream | WatchStream | CoordinateStream


@dataclass(slots=True, eq=False)
class PendingRead:
    """A read on its way: one of `results` per partition, in the order asked; `outstanding` byte ranges are due."""

    stream: ReadStream
    read: Read
    bytes_left: int
    results: list[ReadPartitionResult] = field(default_factory=list)
    outstanding: int = 0
    any_records: bool = False
    dropped: bool = False

    @property
    def is_planned(self) -> bool:
        """Every partition has been looked at; a dropped read needs no more looking."""
        return self.dropped or len(self.results) == len(self.read.partitions)
