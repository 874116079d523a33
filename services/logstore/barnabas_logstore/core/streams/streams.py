"""The streams that peers have opened: unanswered requests on each, and this turn's responses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from barnabas.channel.assembly import ReadResult
from barnabas.channel.messages import (
    CoordinateResponse,
    ExchangeResponse,
    Read,
    ReadPartitionResult,
    ReadPiece,
    ReadResponse,
    WatchResponse,
)
from barnabas_logstore.core.streams.request_times import TimedRequest


@dataclass(slots=True, eq=False)
class ExchangeStream:
    """Appends and queries of one processor. Handled requests are returned to it as credit, with its next response."""

    stream_id: int
    response: ExchangeResponse | None = None
    requests_handled: int = 0
    bytes_handled: int = 0
    timed: dict[int, TimedRequest] = field(default_factory=dict)
    """Unanswered requests, by request id; in all streams."""
    greeted: bool = False
    closed: bool = False


@dataclass(slots=True, eq=False)
class ReadStream:
    """Reads of one processor. A read is handled when its answer is sent, so that credit bounds the waiting answers."""

    stream_id: int
    response: ReadResponse | None = None
    results: deque[ReadResult] = field(default_factory=deque)
    """To be answered, behind the rest of `pieces`, of which `piece` is the next."""
    pieces: Iterator[ReadPiece] | None = None
    piece: ReadPiece | None = None
    requests_handled: int = 0
    # By request id: what a cancel can still find.
    unanswered: dict[int, PendingRead] = field(default_factory=dict)
    timed: dict[int, TimedRequest] = field(default_factory=dict)
    greeted: bool = False
    closed: bool = False


@dataclass(slots=True, eq=False)
class WatchStream:
    """The partitions and groups that one purgatory pod watches."""

    stream_id: int
    response: WatchResponse | None = None
    greeted: bool = False
    closed: bool = False


@dataclass(slots=True, eq=False)
class CoordinateStream:
    """Requests of one processor to coordinators."""

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
    """A read in progress: one of `results` per partition, in the requested order; `outstanding` byte ranges are
    missing.
    """

    stream: ReadStream
    read: Read
    bytes_left: int
    results: list[ReadPartitionResult] = field(default_factory=list)
    outstanding: int = 0
    any_records: bool = False
    dropped: bool = False
    is_planned: bool = False
    """Every partition has been planned, or the read was dropped before."""
