"""Responder: how a request ends, and how its answer leaves in the order of its connection's requests."""

from __future__ import annotations

import traceback
from typing import assert_never

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_response, encode_response_in_steps, frame_response
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.primitives import Buffer, MalformedFrame, Steps
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.connections.connection import Connection, PendingRequest, ResponseKind
from barnabas_gateway.core.connections.connections import Connections
from barnabas_gateway.core.connections.request_memory import RequestMemory
from barnabas_gateway.core.connections.steps import RequestSteps
from barnabas_gateway.core.connections.throttling import Throttle
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import LogLevel
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_metrics import RequestMetrics

_SHORT_ANSWERS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.API_VERSIONS)
"""Those of most requests, which have no more elements than their requests: encoded at once where these are short."""


class Responder:
    __slots__ = (
        "_clock",
        "_connections",
        "_deadlines",
        "_fetch_memory",
        "_is_measured",
        "_log_lines",
        "_metrics",
        "_request_memory",
        "steps",
    )

    def __init__(
        self,
        connections: Connections,
        clock: Clock,
        deadlines: Deadlines,
        request_memory: RequestMemory,
        fetch_memory: FetchMemory,
        log_lines: LogLineBuffer,
        metrics: RequestMetrics,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._deadlines = deadlines
        self._log_lines = log_lines
        self._request_memory = request_memory
        self._fetch_memory = fetch_memory
        self._metrics = metrics
        self._is_measured = connections.config.metrics_enable
        self.steps = RequestSteps(self, connections.discarded)

    def begin_steps(self, pending: PendingRequest, steps: Steps[None]) -> None:
        """Do this for a request, in as many turns as it takes; in place of what was still to be done for it."""
        self.steps.begin(pending, steps)

    def failed(self, pending: PendingRequest, error: Exception) -> None:
        """Close the connection of a request whose bytes are none after all, or that finds a fault of ours."""
        connection, header = pending.connection, pending.header
        if isinstance(error, MalformedFrame):
            self.refuse(connection, header, str(error))
            return
        self.close_faulty(pending, "".join(traceback.format_exception(error)))

    def close_faulty(self, pending: PendingRequest, fault: str) -> None:
        """Close the connection of a request that finds a fault of ours: the other connections keep theirs.

        `fault` is a traceback, for the log.
        """
        context = pending.connection.context
        self._log_lines.note(
            LogLevel.ERROR, "request failed", context, pending.header, {"traceback": fault}, pending.trace_id
        )
        self._connections.close(pending.connection)

    def refuse(self, connection: Connection, header: RequestHeader | None, reason: str) -> None:
        """Bytes that are no request of Kafka's, or none that is served."""
        event = "connection closed: bad request"
        self._log_lines.note(LogLevel.WARNING, event, connection.context, header, {"reason": reason})
        self._connections.close(connection)

    def respond(self, pending: PendingRequest, response: Response, *, may_have_failed: bool = True) -> None:
        """Answer a request; `may_have_failed`: perhaps there are errors in it, which are to be counted."""
        header = pending.header
        if pending.timing is not None:
            pending.timing.enter(Hop.GATEWAY)
        counts_errors = may_have_failed and self._is_measured
        if pending.is_long or header.api_key not in _SHORT_ANSWERS:
            self._deadlines.remove(pending)
            self.steps.begin(pending, self._answer_in_steps(pending, response, counts_errors))
            return
        if counts_errors:
            self._metrics.response_failed(header.api_key, response)
        pending.buffers = encode_response(response, header.api_version, header.correlation_id)
        self.finish(pending, ResponseKind.SEND)

    def _answer_in_steps(self, pending: PendingRequest, response: Response, counts_errors: bool) -> Steps[None]:
        header = pending.header
        if counts_errors:
            yield from self._metrics.response_failed_in_steps(header.api_key, response)
        pending.buffers = yield from encode_response_in_steps(response, header.api_version, header.correlation_id)
        if len(pending.buffers) > 1:
            self.steps.discarded.add(response)
        self.finish(pending, ResponseKind.SEND)

    def count_errors(self, pending: PendingRequest, response: Response) -> None:
        """Count the errors of an answer that is not sent."""
        self._metrics.response_failed(pending.header.api_key, response)

    def respond_encoded(self, pending: PendingRequest, body: Buffer) -> None:
        """Answer a request by what another has encoded, in the version of the request."""
        header = pending.header
        if pending.timing is not None:
            pending.timing.enter(Hop.GATEWAY)
        if self._is_measured:
            self._metrics.body_answered(header.api_key, header.api_version, body)
        pending.buffers = frame_response(header.api_key, header.api_version, header.correlation_id, body)
        self.finish(pending, ResponseKind.SEND)

    def forget_frame(self, pending: PendingRequest) -> None:
        """A request that waits holds nothing of its frame any more."""
        self._request_memory.held_bytes -= pending.frame_bytes
        pending.frame_bytes = 0

    def finish(self, pending: PendingRequest, kind: ResponseKind) -> None:
        """A request is over. Its answer leaves when those before it have left."""
        pending.kind = kind
        if pending.timing is not None:
            pending.timing.enter(Hop.RESPONSE_QUEUE)
        if pending.deadline_bucket >= 0:
            self._deadlines.remove(pending)
        if pending.is_long:
            self.steps.discarded.add(pending)
        self._request_memory.held_bytes -= pending.frame_bytes
        connection = pending.connection
        connection.unanswered -= 1
        requests = connection.requests
        while requests and requests[0].kind is not None:
            self._deliver(connection, requests.popleft())
            if connection.is_closed:
                return
        if connection.queued_frames or connection.is_paused:
            self._connections.run_later(connection)

    def _deliver(self, connection: Connection, pending: PendingRequest) -> None:
        if pending.reserved_bytes:
            self._fetch_memory.release(pending.reserved_bytes)
            pending.reserved_bytes = 0
        timing = pending.timing
        match pending.kind:
            case ResponseKind.SEND:
                assert pending.buffers is not None
                self._connections.write(connection, pending.buffers)
                if timing is not None:
                    self._metrics.leaves(timing)
            case ResponseKind.NO_OP:
                if timing is not None:
                    self._metrics.finish(timing)
            case ResponseKind.CLOSE:
                event = "connection closed: a produce with acks=0 failed"
                self._log_lines.note(LogLevel.INFO, event, connection.context, pending.header, {}, pending.trace_id)
                if timing is not None:
                    self._metrics.finish(timing)
                self._connections.close(connection)
            case ResponseKind.START_THROTTLING | ResponseKind.END_THROTTLING | None:
                raise AssertionError(f"{pending.kind} is no answer")
            case unknown:
                assert_never(unknown)

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        """Mute a connection for a while; its answers go out all the same (KIP-219)."""
        self.steer(connection, ResponseKind.START_THROTTLING)
        self._deadlines.add(Throttle(self, connection), self._clock.now_ms + throttle_ms)

    def steer(self, connection: Connection, kind: ResponseKind) -> None:
        """The two kinds of response that carry nothing and keep no order; each start has one end."""
        assert kind in (ResponseKind.START_THROTTLING, ResponseKind.END_THROTTLING), f"{kind} has a place in the order"
        connection.throttles += 1 if kind is ResponseKind.START_THROTTLING else -1
        self._connections.run_later(connection)
