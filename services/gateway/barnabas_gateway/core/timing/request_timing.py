"""The time of one request: always assigned to exactly one hop, so that its hops add up to the total by construction.

Each mark (`enter`) assigns the time since the last one to the hop that ends. A logstore reports its share of the time
on the channel as durations (`Times`), because the clocks of two hosts differ. With several logstores, the last one to
be sent to began the wait, and the last one to answer ended it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from barnabas.channel.timing import Timed
from barnabas.wire.file_range import FileRange
from barnabas.wire.headers import RequestHeader
from barnabas.wire.primitives import Buffer
from barnabas_gateway.core.model.outputs import Trace
from barnabas_gateway.core.model.request_context import RequestContext
from barnabas_gateway.core.timing.hops import HOP_NAMES, Hop
from barnabas_gateway.core.timing.request_counts import RequestKind

_NO_TIMES: Final = (0,) * len(HOP_NAMES)


class Untimed:
    """Makes calls on behalf of no particular request."""

    __slots__ = ()

    @property
    def timing(self) -> None:
        return

    def failed(self, error: Exception) -> None:
        """An answer has met an unexpected exception: what others rely on is in doubt."""
        raise error


class TimedConnection(Protocol):
    """The connection of a timed request."""

    @property
    def context(self) -> RequestContext: ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def unsent_bytes(self) -> int: ...

    @property
    def written_bytes(self) -> int: ...


class TimedRequest(Protocol):
    """A request that can be timed."""

    buffers: list[Buffer | FileRange] | None
    timing: RequestTiming | None

    @property
    def connection(self) -> TimedConnection: ...

    @property
    def frame_bytes(self) -> int: ...

    @property
    def header(self) -> RequestHeader: ...

    @property
    def trace_id(self) -> str: ...


@dataclass(slots=True)
class FinishedRequest:
    """What the timing of a long request refers to once that is answered: the request itself is freed meanwhile."""

    connection: TimedConnection
    frame_bytes: int
    header: RequestHeader
    trace_id: str
    timing: RequestTiming | None
    buffers: list[Buffer | FileRange] | None = None


class RequestTiming:
    __slots__ = (
        "_answered_us",
        "_queue_us",
        "_read_us",
        "_since_us",
        "_wait_us",
        "_work_us",
        "began_us",
        "hop",
        "hops_us",
        "kind",
        "pending",
        "sent_position",
        "trace",
    )

    def __init__(self, kind: RequestKind, pending: TimedRequest, began_us: int, read_us: Callable[[], int]) -> None:
        self.kind = kind
        self.pending: TimedRequest = pending
        self.began_us = self._since_us = began_us
        self.hop = Hop.REQUEST_QUEUE
        self.hops_us = list(_NO_TIMES)
        self.trace: Trace | None = None
        self.sent_position = -1
        """Where the response ends in what is written to its connection; -1 before it is written."""
        self._read_us = read_us
        self._answered_us = -1
        self._queue_us = self._work_us = self._wait_us = 0

    def let_request_go(self) -> None:
        """Refer to nothing that a long request holds, however late its client reads the response."""
        pending = self.pending
        self.pending = FinishedRequest(pending.connection, pending.frame_bytes, pending.header, pending.trace_id, self)

    def enter(self, hop: int) -> int:
        """From now on the time goes to `hop`; return the present time (µs)."""
        now_us = self._read_us()
        left = self.hop
        if left == Hop.CHANNEL:
            self._leave_channel(now_us)
        elif self.trace is None:
            self.hops_us[left] += now_us - self._since_us
            self._since_us = now_us
        else:
            self._spend(left, now_us)
        self.hop = hop
        return now_us

    def sent(self) -> None:
        """A message with the request, or a part of it, was sent. What waited until now was this part, whatever was sent
        before.
        """
        if self.hop == Hop.CHANNEL:
            self._spend(Hop.GATEWAY, self._read_us())
            self._answered_us = -1
        else:
            self.enter(Hop.CHANNEL)

    def answered(self, queue_us: int, work_us: int, wait_us: int = 0) -> int:
        """A logstore's answer has arrived, with how long it had the request, and held its answer. Others may be
        outstanding.

        Return how long the answer took (µs); -1 if the time went to another hop meanwhile.
        """
        if self.hop != Hop.CHANNEL:
            return -1
        self._answered_us = self._read_us()
        self._queue_us, self._work_us, self._wait_us = queue_us, work_us, wait_us
        return self._answered_us - self._since_us

    def answer_begun(self, queue_us: int, work_us: int) -> None:
        """Like `answered`, for an answer whose first piece has arrived."""
        self._queue_us, self._work_us = queue_us, work_us

    def still_waits(self) -> None:
        """That answer was not the last one, if the request is still on the channel."""
        self._answered_us = -1

    def _spend(self, hop: int, until_us: int) -> None:
        self.hops_us[hop] += until_us - self._since_us
        if self.trace is not None and until_us > self._since_us:
            self.trace.hops.append((hop, self._since_us, until_us))
        self._since_us = until_us

    def _leave_channel(self, now_us: int) -> None:
        """Assign the logstore's part of the time to the logstore, and what came after its answer to the gateway."""
        until_us = now_us if self._answered_us < 0 else self._answered_us
        passed_us = until_us - self._since_us
        work_us = min(self._work_us, passed_us)
        queue_us = min(self._queue_us, passed_us - work_us)
        wait_us = min(self._wait_us, passed_us - work_us - queue_us)
        self._spend(Hop.CHANNEL, until_us)
        hops_us = self.hops_us
        hops_us[Hop.CHANNEL] -= queue_us + work_us + wait_us
        hops_us[Hop.LOGSTORE_QUEUE] += queue_us
        hops_us[Hop.LOGSTORE_WORK] += work_us
        hops_us[Hop.PURGATORY] += wait_us
        if now_us > until_us:
            self._spend(Hop.GATEWAY, now_us)
        self._answered_us = -1
        self._queue_us = self._work_us = self._wait_us = 0


def timed_of(request_id: int, timing: RequestTiming) -> Timed:
    """Return the entry that asks a logstore for the times of a request."""
    trace = timing.trace
    return Timed(request_id) if trace is None else Timed(request_id, trace.trace_id, trace.span_id)
