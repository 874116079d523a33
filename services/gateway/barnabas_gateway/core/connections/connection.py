"""One client connection and its requests: frames in, requests in order, responses out.

Runs of Produce, and runs of Fetch, overlap; any other request is a barrier, which waits for the responses to all
requests before it, and nothing after it starts before it is answered. Kafka gets the same order by muting the
connection at each request (`SocketServer`); here a producer with several requests in flight keeps them in flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.file_range import FileRange
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.headers import RequestHeader
from barnabas.wire.primitives import Buffer, Steps
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.backends.partition_appends import Fence, PartitionAppends, PartitionKey
from barnabas_gateway.core.model.client_quotas import ClientQuotas
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.request_context import RequestContext
from barnabas_gateway.core.timing.request_counts import RequestKind
from barnabas_gateway.core.timing.request_timing import RequestTiming

QUEUED_FRAME_BYTES = 256
"""The memory that a complete frame takes in addition to its bytes while it waits: the smallest frame has ten bytes."""

HandlerT = TypeVar("HandlerT")


class ResponseKind(IntEnum):
    """What a request can result in (`RequestChannel.Response` in Kafka)."""

    SEND = 1
    NO_OP = 2
    """Nothing is sent, and the next response may go: a produce with acks=0."""
    CLOSE = 3
    """The connection closes instead of a response: a failed produce with acks=0 has no other way to report it."""
    START_THROTTLING = 4
    """The connection is muted; the response itself was sent at once (KIP-219)."""
    END_THROTTLING = 5


class BaseRequest(Generic[HandlerT]):
    """One request of a connection, from its frame to its response.

    Responses leave a connection in the order of its requests; this holds a request's place in that order. The state of
    a request in progress is in the subclass of its API, so that each request costs one object.
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

    def __init__(self, handler: HandlerT, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        self.handler = handler
        """The handler that serves it; subclasses say of which class."""
        self.connection = connection
        self.header = header
        self.frame_bytes = frame_bytes
        self.kind: ResponseKind | None = None
        """None until the request is answered; then SEND, NO_OP or CLOSE."""
        self.buffers: list[Buffer | FileRange] | None = None
        """The response's frame, with SEND."""
        self.reserved_bytes = 0
        """Bytes held in `FetchMemory` for the response until it is sent."""
        self.deadline_bucket = -1
        self.is_long = False
        """Whether it names more than `SHORT_ELEMENTS_MAX` elements, or its response may."""
        self.steps: Steps[None] | None = None
        """What `RequestSteps` still has to do for it; None while that runs, and if there is nothing."""
        self.timing: RequestTiming | None = None
        """The timing of the few requests that are timed (`request_metrics`), until the response is sent."""

    @property
    def trace_id(self) -> str:
        """The trace id in hex for log lines; empty if it is not traced."""
        timing = self.timing
        return "" if timing is None or timing.trace is None else timing.trace.trace_id.hex()

    def expire(self, now_ms: int) -> None:
        """Its deadline has passed. Only requests that wait for others set one."""
        raise AssertionError("a request without a deadline expired")

    def cancel(self) -> None:
        """Its connection is closed, or it is answered at once: drop what was not sent, cancel what waits."""

    def failed(self, error: Exception) -> None:
        """What it has waited for has met an unexpected exception: end it, or its connection if that fails."""
        connection = self.connection
        try:
            connection.owner.request_failed(self, error)
        except Exception as second:
            connection.failed(second)


PendingRequest: TypeAlias = BaseRequest[Any]
"""Served by any handler."""


class RequestHandler(Protocol):
    """Serves the requests of one API key."""

    @property
    def request_class(self) -> type[PendingRequest]: ...

    @property
    def takes_body(self) -> bool: ...

    def start(self, pending: Any, request: Any) -> Steps[None] | None: ...


Route: TypeAlias = tuple[RequestHandler, RequestKind]
"""What serves the requests of one API key in one version, and what counts them."""


class Authentication(Protocol):
    """The authentication of a connection by SASL, as requests and the connection see it."""

    deadline_bucket: int

    def versions_answered(self) -> None: ...

    def handshake(self, pending: PendingRequest, mechanism: str) -> None: ...

    def token_received(self, pending: PendingRequest, token: bytes) -> None: ...

    def frame_without_route(self, frame: memoryview) -> bool: ...

    def refusal(self, header: RequestHeader) -> str | None: ...

    def expire(self, now_ms: int) -> None: ...

    def failed(self, error: Exception) -> None: ...


class ConnectionOwner(Protocol):
    """The owner of a processor's connections, as one of them sees it."""

    @property
    def config(self) -> GatewayConfig: ...

    @property
    def fetch_memory(self) -> FetchMemory: ...

    def check_idle(self, connection: Connection, now_ms: int) -> None: ...

    def request_failed(self, pending: PendingRequest, error: Exception) -> None: ...

    def connection_failed(self, connection: Connection, error: Exception) -> None: ...

    def run_later(self, connection: Connection) -> None: ...


class Connection:
    """The state of one connection; `Connections`, `Responder` and the routers of appends change it."""

    __slots__ = (
        "active_ms",
        "append_orders",
        "authentication",
        "connection_id",
        "context",
        "deadline_bucket",
        "fences",
        "frame_since_ms",
        "is_authenticated",
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
        "quotas",
        "requests",
        "routes",
        "run_api_key",
        "spent_us",
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
        """Another one once the client has authenticated."""
        self.routes: Mapping[int, Route] = {}
        """What the client may send now, by API key and version as `kind_key` encodes them. Set before its first bytes
        are received.
        """
        self.authentication: Authentication | None = None
        """None on a listener without SASL."""
        self.is_authenticated = False
        """Whether the principal is that of a client that has authenticated."""
        self.splitter = FrameSplitter(owner.config.socket_request_bytes_max)
        self.queued_frames: deque[memoryview] = deque()
        """Complete frames that may not start yet."""
        self.queued_since_us: deque[int] = deque()
        """When each of them arrived."""
        self.queued_bytes = 0
        """The memory of these, with `QUEUED_FRAME_BYTES` for each."""
        self.frame_since_ms = now_ms
        """When the frame that is still incomplete began to arrive, or could continue to."""
        self.requests: deque[PendingRequest] = deque()
        """Requests whose responses have not been sent, in order; the first is unanswered, others may be answered."""
        self.unanswered = 0
        self.run_api_key = -1
        """The API key of the unanswered requests, if there are any: they all have the same."""
        self.outgoing: list[Buffer | FileRange] = []
        self.outgoing_bytes = 0
        self.append_orders: dict[PartitionKey, PartitionAppends] = {}
        self.produce_requests = 0
        """The number of produce requests received."""
        self.produce_answered_ms = now_ms
        """When the last one was answered."""
        self.fences: deque[tuple[Fence, PartitionAppends]] = deque()
        """Fences of all its partitions, in the order in which they were raised, including some that others have
        replaced.
        """
        self.waiting_appends = 0
        """Appends without credit or a route, and requests that are being converted: while there are any, no request
        starts.
        """
        self.throttles = 0
        """Throttle times that are not over: it is muted while there are any (KIP-219)."""
        self.quotas: ClientQuotas | None = None
        """None while no client has a quota."""
        self.spent_us = 0
        """The loop's time that its requests have taken since its last answer, while there are quotas."""
        self.unsent_bytes = 0
        """Response bytes that the host still holds, as it last reported."""
        self.written_bytes = 0
        """All response bytes that the host was ever given."""
        self.unsent_since_ms = now_ms
        """When the client last read some of them."""
        self.active_ms = now_ms
        self.is_paused = False
        self.is_closed = False
        self.is_starting = False
        """A request is begun in steps: until that is complete, no other request starts."""
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
            # A client that pipelines fetches must not take the last memory from those that wait for each response.
            return not self.owner.fetch_memory.is_scarce()
        return self.run_api_key == ApiKey.PRODUCE

    @property
    def produce_answers(self) -> int:
        """How many produce requests have been answered; a run of them contains no other requests."""
        return self.produce_requests - len(self.requests)

    def wants_pause(self) -> bool:
        """Whether more bytes from its socket would only accumulate here."""
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
        """Start no request until an append, or a conversion, has progressed: `one_waits_less`."""
        self.waiting_appends += 1

    def one_waits_less(self) -> None:
        """When the last one that waited is done, its connection may continue."""
        self.waiting_appends -= 1
        if self.waiting_appends == 0:
            self.owner.run_later(self)

    def expire(self, now_ms: int) -> None:
        """`connections.max.idle.ms` may have passed."""
        self.owner.check_idle(self, now_ms)

    def failed(self, error: Exception) -> None:
        """What it has apart from its requests has met an unexpected exception: close it."""
        self.owner.connection_failed(self, error)
