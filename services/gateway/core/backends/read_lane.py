"""The reads of one processor at one logstore: credit, reads in flight and reads waiting."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from barnabas.channel.assembly import ReadAssembler, ReadResult
from barnabas.channel.messages import Read, ReadRequest
from services.gateway.core.backends.credited_stream import CreditedStream
from services.gateway.core.model.fetch_target import FetchTarget
from services.gateway.core.timing.request_timing import RequestTiming


class ReadOwner(Protocol):
    """The Fetch request that a read belongs to."""

    @property
    def timing(self) -> RequestTiming | None: ...

    def holds_back_answers(self) -> bool:
        """Whether other responses of its connection wait for this request's, and hold memory meanwhile."""

    def read_answered(self, read: PendingRead, result: ReadResult | None) -> None:
        """A logstore's result, or None if its stream was lost."""


class PendingRead(Read):
    """What one Fetch reads from one logstore."""

    __slots__ = ("fetch", "lane", "line", "reserved_bytes", "targets")

    def __init__(
        self,
        fetch: ReadOwner,
        lane: ReadLane,
        bytes_max: int,
        isolation_level: int,
        targets: list[FetchTarget],
        rack_id: str,
    ) -> None:
        self.request_id = 0
        self.bytes_max = bytes_max
        self.isolation_level = isolation_level
        self.partitions = list(targets)
        self.rack_id = rack_id
        self.targets = targets
        self.fetch: ReadOwner | None = fetch
        """None once the request does not wait for it any more."""
        self.lane = lane
        self.line: OrderedDict[PendingRead, None] | None = None
        """The queue in which it waits, for memory or for credit."""
        self.reserved_bytes = 0
        """Bytes held in `FetchMemory` for the reply; those of the reply itself once it has arrived."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class ReadLane(CreditedStream[PendingRead, PendingRead]):
    """The read stream to one logstore."""

    __slots__ = ("assembler", "is_up", "leaving", "message", "node_id")

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self.node_id = node_id
        self.is_up = False
        self.message: ReadRequest | None = None
        """The next message, created when there is something to put into it."""
        self.leaving: list[RequestTiming] = []
        """Timed requests in the next message, once for each part."""
        self.assembler = ReadAssembler()
