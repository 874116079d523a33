"""One client connection, and its requests: frames in, requests in order, answers out.

Runs of Produce, and runs of Fetch, overlap; any other request is a barrier, which waits for the answers to all before
it, and nothing after it starts before it is answered. Kafka gets the same order by muting the connection at each
request (`SocketServer`); here a producer with several requests in flight keeps them in flight.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Protocol

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.headers import RequestHeader
from barnabas.wire.primitives import Buffer, Steps
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.backends.partition_appends import Fence, PartitionAppends, PartitionKey
from barnabas_gateway.core.model.authorization import RequestContext
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.timing.request_timing import RequestTiming

QUEUED_FRAME_BYTES = 256
"""What a whole frame takes beside its bytes while it waits: the smallest has ten of them."""


class ResponseKind(IntEnum):
    """What can come out of a request (`RequestChannel.Response` in Kafka)."""

    SEND = 1
    NO_OP = 2
    """Nothing is sent, and the next answer may go: a produce with acks=0."""
    CLOSE = 3
    """The connection ends in the place of the answer: a produce with acks=0 that failed, which has no other voice."""
    START_THROTTLING = 4
    """The connection is muted; the answer itself has gone out at once (KIP-219)."""
    END_THROTTLING = 5


class PendingRequest:
    """One request of a connection, from its frame to its answer.

    Answers leave a connection in the order of its requests; this holds a request's place in that order. What a request
    needs while it is under way is in the subclass of its API, so that each request costs one object.
    """

    __slots__ = (
        "buffers",
        "connection",
        "deadline_bucket",
        "frame_bytes",
        "handler",
        "header",
        "is_long",
        "kind",
        "reserved_bytes",
        "steps",
        "timing",
    )

    handler: object
    """That serves it; subclasses say of which class."""

    def __init__(self, handler: object, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        self.handler = handler
        self.connection = connection
        self.header = header
        self.frame_bytes = frame_bytes
        self.kind: ResponseKind | None = None
        """None until the request is answered; then SEND, NO_OP or CLOSE."""
        self.buffers: list[Buffer] | None = None
        """The answer's frame, with SEND."""
        self.reserved_bytes = 0
        """Held in `FetchMemory` for the answer until it goes out."""
        self.deadline_bucket = -1
        self.is_long = False
        """Whether it names more than `SHORT_ELEMENTS_MAX`, or its answer may."""
        self.steps: Steps[None] | None = None
        """What `RequestSteps` is still to do for it; None while that is under way, and when there is nothing."""
        self.timing: RequestTiming | None = None
        """Of the few that are timed (`request_metrics`), until the answer is out."""

    @property
    def trace_id(self) -> str:
        """For lines of the log about it, in hex; empty where it is not traced."""
        timing = self.timing
        return "" if timing is None or timing.trace is None else timing.trace.trace_id.hex()

    def expire(self, now_ms: int) -> None:
        """Its deadline has come. Only requests that wait for others set one."""
        raise AssertionError("a request without a deadline expired")

    def cancel(self) -> None:
        """Its connection is gone: drop what was not sent, cancel what waits."""


class ConnectionOwner(Protocol):
    """What holds a processor's connections, as one of them sees it."""

    @property
    def config(self) -> GatewayConfig: ...

    @property
    def fetch_memory(self) -> FetchMemory: ...

    def check_idle(self, connection: Connection, now_ms: int) -> None: ...

    def run_later(self, connection: Connection) -> None: ...


class Connection:
    """The state of one connection; `Connections`, `Responder` and the routers of appends change it."""

    __slots__ = (
        "active_ms",
        "append_orders",
        "connection_id",
        "context",
        "deadline_bucket",
        "fences",
        "frame_since_ms",
        "is_closed",
        "is_paused",
        "is_runnable",
        "is_starting",
        "outgoing",
        "outgoing_bytes",
        "owner",
        "produce_answered_ms",
        "produce_requests",
        "queued_bytes",
        "queued_frames",
        "queued_since_us",
        "requests",
        "run_api_key",
        "splitter",
        "throttles",
        "unanswered",
        "unsent_bytes",
        "unsent_since_ms",
        "waiting_appends",
        "written_bytes",
    )

    def __init__(self, owner: ConnectionOwner, context: RequestContext, now_ms: int) -> None:
        self.owner = owner
        self.connection_id = context.connection_id
        self.context = context
        self.splitter = FrameSplitter(owner.config.socket_request_bytes_max)
        self.queued_frames: deque[memoryview] = deque()
        """Whole frames that may not start yet."""
        self.queued_since_us: deque[int] = deque()
        """When each of them had come."""
        self.queued_bytes = 0
        """What these take, with `QUEUED_FRAME_BYTES` for each."""
        self.frame_since_ms = now_ms
        """When the frame that is still incomplete began to arrive, or might go on arriving."""
        self.requests: deque[PendingRequest] = deque()
        """Requests whose answers have not gone out, in order; the first is unanswered, others may be answered."""
        self.unanswered = 0
        self.run_api_key = -1
        """Of the requests that are unanswered, when there are any: they are all of one key."""
        self.outgoing: list[Buffer] = []
        self.outgoing_bytes = 0
        self.append_orders: dict[PartitionKey, PartitionAppends] = {}
        self.produce_requests = 0
        """All that have come."""
        self.produce_answered_ms = now_ms
        """When the last one was answered."""
        self.fences: deque[tuple[Fence, PartitionAppends]] = deque()
        """Of all its partitions, in the order in which they were raised, and some that others have replaced."""
        self.waiting_appends = 0
        """Appends that have no credit or no route, and requests that are being converted: as long as there are any, no
        request starts.
        """
        self.throttles = 0
        self.unsent_bytes = 0
        """Answers that the host still holds, as it said last."""
        self.written_bytes = 0
        """All that the host was ever given."""
        self.unsent_since_ms = now_ms
        """When the client last took some of them."""
        self.active_ms = now_ms
        self.is_paused = False
        self.is_closed = False
        self.is_starting = False
        """A request is begun in steps: until that is done, no other request starts."""
        self.is_runnable = False
        """Whether the processor looks at it at the end of the turn."""
        self.deadline_bucket = -1

    def may_start(self, frame: memoryview) -> bool:
        """Whether this frame, the oldest that has not started, may start now."""
        config = self.owner.config
        if (
            self.waiting_appends
            or self.is_starting
            or self.throttles
            or self.unsent_bytes + self.outgoing_bytes > config.connection_unsent_bytes_max
            or self.unanswered >= config.connection_requests_max
        ):
            return False
        if self.unanswered == 0:
            return True
        if len(frame) < 2 or frame[0] << 8 | frame[1] != self.run_api_key:
            return False
        if self.run_api_key == ApiKey.FETCH:
            # A client that pipelines fetches must not take the last memory from those that wait for each answer.
            return not self.owner.fetch_memory.is_scarce()
        return self.run_api_key == ApiKey.PRODUCE

    @property
    def produce_answers(self) -> int:
        """How many produce requests have been answered; a run of them has no other requests in it."""
        return self.produce_requests - len(self.requests)

    def wants_pause(self) -> bool:
        """Whether more of its bytes would only pile up here."""
        config = self.owner.config
        return (
            self.waiting_appends > 0
            or self.is_starting
            or self.throttles > 0
            or self.unsent_bytes > config.connection_unsent_bytes_max
            or self.unanswered >= config.connection_requests_max
            or self.queued_bytes > config.connection_queued_bytes_max
        )

    def hold_requests(self) -> None:
        """Start no request until an append, or a conversion, has gone on: `one_waits_less`."""
        self.waiting_appends += 1

    def one_waits_less(self) -> None:
        """With the last that waited its connection may go on."""
        self.waiting_appends -= 1
        if self.waiting_appends == 0:
            self.owner.run_later(self)

    def expire(self, now_ms: int) -> None:
        """`connections.max.idle.ms` may have passed."""
        self.owner.check_idle(self, now_ms)
