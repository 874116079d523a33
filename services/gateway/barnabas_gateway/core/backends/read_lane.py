"""The reads of one processor at one logstore: credit, what is in flight, what waits."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from barnabas.channel.assembly import ReadAssembler, ReadResult
from barnabas.channel.messages import Read, ReadRequest
from barnabas_gateway.core.backends.credited_stream import CreditedStream
from barnabas_gateway.core.model.fetch_target import FetchTarget
from barnabas_gateway.core.timing.request_timing import RequestTiming


class ReadOwner(Protocol):
    """The Fetch request that a read is of."""

    @property
    def timing(self) -> RequestTiming | None: ...

    def holds_back_answers(self) -> bool:
        """Whether other answers of its connection wait for this request's, and hold memory meanwhile."""

    def read_answered(self, read: PendingRead, result: ReadResult | None) -> None:
        """A logstore's result, or None when its stream was lost."""


class PendingRead(Read):
    """What one Fetch wants of one logstore."""

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
        """None once nobody waits for it."""
        self.lane = lane
        self.line: OrderedDict[PendingRead, None] | None = None
        """Where it waits, for memory or for credit."""
        self.reserved_bytes = 0
        """Held in `FetchMemory` for the reply; of the reply itself once it is here."""

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
        """The next message, made when there is something to put into it."""
        self.leaving: list[RequestTiming] = []
        """Timed requests in it, once for each part."""
        self.assembler = ReadAssembler()
