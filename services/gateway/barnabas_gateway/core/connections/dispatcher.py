"""RequestDispatcher: start requests from the frames of their connections, within the limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_request_in_steps, decode_short_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader, decode_request_header
from barnabas.wire.messages import Request
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.primitives import Buffer, MalformedFrame, Steps, TooManyElements
from barnabas_gateway.core.connections.connection import (
    QUEUED_FRAME_BYTES,
    BaseRequest,
    Connection,
    PendingRequest,
    RequestHandler,
    Route,
)
from barnabas_gateway.core.connections.connections import Connections
from barnabas_gateway.core.connections.responder import Responder
from barnabas_gateway.core.model.client_quotas import ClientQuotas
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.timing.request_metrics import RequestMetrics, kind_key

_ANSWERS_PER_TURN = 16
"""The number of requests of one connection that are answered as they start, before the others have their turn."""
_ANSWER_BYTES = 256
"""Every so many bytes of such a request count as another response: it may name an element in every few of them."""


_CLIENT_HELLO = b"\x16\x03"
_TLS_REFUSED = "a handshake of TLS, on a listener without TLS"


class WithBody(NamedTuple):
    """A request that is forwarded unchanged, and the bytes that it was read from: complete, since they were decoded."""

    request: Request
    body: Buffer


class RequestDispatcher:
    __slots__ = (
        "_clock",
        "_connections",
        "_handlers",
        "_is_measured",
        "_metrics",
        "_request_memory",
        "_responder",
        "routes",
    )

    def __init__(
        self,
        connections: Connections,
        clock: Clock,
        metrics: RequestMetrics,
        responder: Responder,
        handlers: Mapping[int, RequestHandler],
    ) -> None:
        """`handlers` is by API key, and has one for each that `metrics` knows."""
        self._connections = connections
        self._clock = clock
        self._request_memory = connections.request_memory
        self._metrics = metrics
        self._is_measured = connections.config.metrics_enable
        self._responder = responder
        self._handlers = handlers
        self.routes: dict[int, Route] = {key: (handlers[key >> 16], kind) for key, kind in metrics.kinds.items()}
        """Those of all that is served, by API key and version as `kind_key` encodes them."""

    # --- reading ---

    def bytes_received(self, connection: Connection, data: bytes) -> None:
        connection.active_ms = self._clock.now_ms
        splitter, memory = connection.splitter, self._request_memory
        buffered_bytes = splitter.buffered_bytes
        if not buffered_bytes:
            connection.frame_since_ms = self._clock.now_ms
        try:
            frames = splitter.feed(data)
        except MalformedFrame as error:
            memory.held_bytes += splitter.buffered_bytes - buffered_bytes
            is_tls = data.startswith(_CLIENT_HELLO) and not connection.requests
            self._responder.refuse(connection, None, _TLS_REFUSED if is_tls else str(error))
            return
        memory.held_bytes += splitter.buffered_bytes - buffered_bytes
        answers_left = _ANSWERS_PER_TURN
        # A request that has arrived alone and may start has arrived now.
        arrived_us = self._metrics.read_us() if len(frames) > 1 else -1
        for frame in frames:
            if answers_left and not connection.queued_frames and connection.may_start(frame):
                self.start_request(connection, frame, arrived_us)
                if connection.is_closed:
                    return
                if connection.unanswered == 0:
                    answers_left = max(0, answers_left - 1 - len(frame) // _ANSWER_BYTES)
            else:
                if arrived_us < 0:
                    arrived_us = self._metrics.read_us()
                connection.queued_frames.append(frame)
                connection.queued_since_us.append(arrived_us)
                frame_bytes = len(frame) + QUEUED_FRAME_BYTES
                connection.queued_bytes += frame_bytes
                memory.held_bytes += frame_bytes
        if frames:
            connection.frame_since_ms = self._clock.now_ms
            memory.yield_privilege(connection)
        if not answers_left:
            self._connections.run_next_turn(connection)
        if memory.is_over() or connection.wants_pause():
            self._connections.pause_reading(connection)

    def timed_bytes_received(self, connection: Connection, data: bytes, quotas: ClientQuotas) -> None:
        """Do the same for a connection whose client may have a quota of the loop's time."""
        began_us = quotas.start_timing()
        self.bytes_received(connection, data)
        connection.spent_us += quotas.stop_timing(began_us)

    def start_runnable(self) -> None:
        """Start what may start now, and adjust the reading of the sockets."""
        runnable = self._connections.runnable
        while runnable:
            connection = runnable.popleft()
            try:
                if self._connections.is_draining:
                    self._connections.drain_one(connection)
                elif connection.quotas is not None:
                    self._timed_run_one(connection, connection.quotas)
                elif not connection.is_closed:
                    self._run_one(connection)
            except Exception as error:
                connection.failed(error)
            connection.is_runnable = False
        for connection in self._request_memory.take_resumable():
            if connection.is_paused and not connection.wants_pause():
                self._connections.resume_reading(connection)

    def _timed_run_one(self, connection: Connection, quotas: ClientQuotas) -> None:
        if not connection.is_closed:
            began_us = quotas.start_timing()
            self._run_one(connection)
            connection.spent_us += quotas.stop_timing(began_us)

    def _run_one(self, connection: Connection) -> None:
        queued = connection.queued_frames
        answers_left = _ANSWERS_PER_TURN
        while queued and connection.may_start(queued[0]):
            if not answers_left:
                self._connections.run_next_turn(connection)
                break
            frame = queued.popleft()
            frame_bytes = len(frame) + QUEUED_FRAME_BYTES
            connection.queued_bytes -= frame_bytes
            self._request_memory.held_bytes -= frame_bytes
            self.start_request(connection, frame, connection.queued_since_us.popleft())
            if connection.is_closed:
                return
            if connection.unanswered == 0:
                answers_left = max(0, answers_left - 1 - len(frame) // _ANSWER_BYTES)
        self._connections.adjust_reading(connection)

    # --- starting ---

    def start_request(self, connection: Connection, frame: memoryview, arrived_us: int) -> None:
        """Start one request. Anything wrong with its frame closes its connection, and no other.

        `arrived_us` is -1 for a request that has just arrived.
        """
        header: RequestHeader | None = None
        try:
            header, position = decode_request_header(frame)
            api_key, version = header.api_key, header.api_version
            route = connection.routes.get(api_key << 16 | version)
            if route is None:
                self._refuse_unserved(connection, header, frame)
                return
            handler, kind = route
            request: Request | None = None
            try:
                request = decode_short_request(api_key, version, frame, position)
            except TooManyElements:
                pass
        except MalformedFrame as malformed:
            if connection.authentication is None or not connection.authentication.frame_without_route(frame):
                self._responder.refuse(connection, header or _readable_header(frame), str(malformed))
            return
        pending = handler.request_class(handler, connection, header, len(frame))
        if self._is_measured:
            kind.requests = number = kind.requests + 1
            kind.request_bytes += pending.frame_bytes
            if number >= kind.time_at:
                self._metrics.start_timing(kind, pending, arrived_us)
        self._open(connection, pending)
        if request is None:
            connection.is_starting = pending.is_long = True
            self._connections.long_requests.add(pending)
            self._responder.steps.begin_steps(pending, self._start_in_steps(pending, handler, frame, position))
            return
        try:
            steps = handler.start(pending, WithBody(request, frame[position:]) if handler.takes_body else request)
            if steps is not None:
                self._responder.steps.begin_steps(pending, steps)
            if connection.is_closed:
                self._connections.give_up(pending)
        except Exception as error:
            # An internal error in one request must not close the other connections.
            end_by(pending, error)

    def _start_in_steps(
        self, pending: PendingRequest, handler: RequestHandler, frame: memoryview, position: int
    ) -> Steps[None]:
        """Decode a long request and start it. No other request of its connection starts before that is complete."""
        header, connection = pending.header, pending.connection
        try:
            request = yield from decode_request_in_steps(header.api_key, header.api_version, frame, position)
            steps = handler.start(pending, WithBody(request, frame[position:]) if handler.takes_body else request)
            if steps is not None:
                yield from steps
            self._connections.discarded.free_later(request)
        finally:
            connection.is_starting = False
            self._connections.run_later(connection)

    def _refuse_unserved(self, connection: Connection, header: RequestHeader, frame: memoryview) -> None:
        authentication = connection.authentication
        if authentication is not None and authentication.frame_without_route(frame):
            return
        refusal = None if authentication is None else authentication.refusal(header)
        if refusal is not None:
            self._responder.refuse(connection, header, refusal)
        elif header.api_key == ApiKey.API_VERSIONS:
            self._answer_unsupported_api_versions(connection, header, len(frame))
        elif header.api_key in self._handlers:
            self._responder.refuse(connection, header, "the version is not served")
        else:
            self._responder.refuse(connection, header, "the API key is not served")

    def _answer_unsupported_api_versions(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        """KIP-511: a v0 response that every client can read."""
        header_v0 = RequestHeader(header.api_key, 0, header.correlation_id, header.client_id)
        if self._is_measured:
            # Counted under the version that it is answered in: a version that a client makes up must not become a
            # label.
            _, kind = self.routes[kind_key(ApiKey.API_VERSIONS, 0)]
            kind.requests += 1
            kind.request_bytes += frame_bytes
        pending = BaseRequest(self._handlers[ApiKey.API_VERSIONS], connection, header_v0, frame_bytes)
        self._open(connection, pending)
        self._responder.respond(pending, unsupported_version())

    def _open(self, connection: Connection, pending: PendingRequest) -> None:
        connection.requests.append(pending)
        connection.unanswered += 1
        connection.run_api_key = pending.header.api_key
        self._request_memory.held_bytes += pending.frame_bytes


def unsupported_version() -> ApiVersionsResponse:
    """Return the response, to be sent in v0, to an unsupported version of ApiVersions."""
    api_key = ApiKey.API_VERSIONS
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key, api_key.advertised_min, api_key.version_max)],
    )


def _readable_header(frame: memoryview) -> RequestHeader | None:
    """Return the fields that every header begins with, for the log line about one that is malformed further on."""
    if len(frame) < 8:
        return None
    api_key, version, correlation_id = (
        int.from_bytes(frame[start:end], "big", signed=True) for start, end in ((0, 2), (2, 4), (4, 8))
    )
    return RequestHeader(api_key, version, correlation_id, None)
