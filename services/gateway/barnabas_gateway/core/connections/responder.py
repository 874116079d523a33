"""Responder: complete requests, and send their responses in the order of their connection's requests."""

from __future__ import annotations

from typing import assert_never

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import (
    decode_response_body,
    encode_body,
    encode_response,
    encode_response_in_steps,
    frame_response,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import MESSAGES, Response
from barnabas.wire.primitives import Buffer, MalformedFrame, Steps
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.connections.connection import Connection, PendingRequest, ResponseKind
from barnabas_gateway.core.connections.connections import Connections
from barnabas_gateway.core.connections.steps import RequestSteps
from barnabas_gateway.core.model.containment import REQUEST
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import LogLevel
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_metrics import RequestMetrics

_SHORT_ANSWERS = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.HEARTBEAT,
    ApiKey.API_VERSIONS,
)
"""API keys of most requests, whose responses have no more elements than the requests: encoded at once if these are
short.
"""


_AUTHENTICATING = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_THROTTLE_TIME_FIRST: dict[int, int] = {
    ApiKey.OFFSET_COMMIT: 3,
    ApiKey.OFFSET_FETCH: 3,
    ApiKey.JOIN_GROUP: 2,
    ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 1,
    ApiKey.SYNC_GROUP: 1,
    ApiKey.DESCRIBE_GROUPS: 1,
    ApiKey.LIST_GROUPS: 1,
    ApiKey.DELETE_GROUPS: 0,
}
"""Of the responses that coordinators encode, those that begin with the throttle time: the first such version."""


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
        fetch_memory: FetchMemory,
        log_lines: LogLineBuffer,
        metrics: RequestMetrics,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._deadlines = deadlines
        self._log_lines = log_lines
        self._request_memory = connections.request_memory
        self._fetch_memory = fetch_memory
        self._metrics = metrics
        self._is_measured = connections.config.metrics_enable
        self.steps = RequestSteps(connections.discarded, connections.give_up)
        connections.request_failed = self.failed

    def begin_steps(self, pending: PendingRequest, steps: Steps[None]) -> None:
        """Do this for a request, over as many turns as it takes, instead of what was still to be done for it."""
        self.steps.begin_steps(pending, steps)

    def failed(self, pending: PendingRequest, error: Exception) -> None:
        """End a request whose bytes turn out to be malformed, or that has met an unexpected exception."""
        connection, header = pending.connection, pending.header
        if isinstance(error, MalformedFrame):
            self.refuse(connection, header, str(error))
            return
        self._end(pending, error)

    def failed_in_worker(self, pending: PendingRequest, fault: str) -> None:
        """End a request whose work has met an unexpected exception; `fault` is its traceback."""
        self._end(pending, fault)

    def _end(self, pending: PendingRequest, error: Exception | str) -> None:
        """Answer UNKNOWN_SERVER_ERROR, or close the connection if the response has no place for that, or if it is
        complete: then not all of it may have been sent. Whatever the request waits for is given up.
        """
        connection, header = pending.connection, pending.header
        self._log_lines.contain(REQUEST, error, connection.context, header, pending.trace_id)
        if connection.is_closed:
            self._connections.give_up(pending)
            return
        response = None
        is_open = connection.authentication is None or connection.is_authenticated
        if is_open and pending.kind is None and header.api_key not in _AUTHENTICATING:
            response = error_response(header)
        if response is not None:
            try:
                self._deadlines.unschedule(pending)
                pending.steps = None
                pending.cancel()
                self.respond(pending, response)
                return
            except Exception as second:
                self._log_lines.contain(REQUEST, second, connection.context, header)
        if not connection.is_closed:
            self._connections.close_in_doubt(connection)

    def refuse(self, connection: Connection, header: RequestHeader | None, reason: str) -> None:
        """Close the connection of bytes that are not a Kafka request, or not a supported one."""
        event = "connection closed: bad request"
        self._log_lines.add_line(LogLevel.WARNING, event, connection.context, header, {"reason": reason})
        self._connections.close_connection(connection)

    def respond(self, pending: PendingRequest, response: Response, *, may_have_failed: bool = True) -> None:
        """Answer a request; `may_have_failed`: it may contain errors, which are to be counted."""
        header = pending.header
        if pending.connection.quotas is not None:
            self._throttle_answer(pending, response)
        if pending.timing is not None:
            pending.timing.enter(Hop.GATEWAY)
        counts_errors = may_have_failed and self._is_measured
        if pending.is_long or header.api_key not in _SHORT_ANSWERS:
            self._deadlines.unschedule(pending)
            self.steps.begin_steps(pending, self._answer_in_steps(pending, response, counts_errors))
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
            self.steps.discarded.free_later(response)
        self.finish(pending, ResponseKind.SEND)

    def count_errors(self, pending: PendingRequest, response: Response) -> None:
        """Count the errors of a response that is not sent."""
        self._metrics.response_failed(pending.header.api_key, response)

    def respond_encoded(self, pending: PendingRequest, body: Buffer) -> None:
        """Answer a request with bytes that another service has encoded, in the version of the request."""
        header = pending.header
        if pending.connection.quotas is not None:
            body = self._throttle_body(pending, body)
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
        """A request is complete. Its response is sent when those before it have been sent."""
        if pending.kind is not None or pending.connection.is_closed:
            self._drop_late_answer(pending)
            return
        pending.kind = kind
        # What all share is given back first: a request whose kind is set is taken for finished, whatever raises here.
        self._request_memory.held_bytes -= pending.frame_bytes
        if pending.timing is not None:
            pending.timing.enter(Hop.RESPONSE_QUEUE)
        if pending.deadline_bucket >= 0:
            self._deadlines.unschedule(pending)
        if pending.is_long:
            if pending.timing is not None:
                pending.timing.let_request_go()
            self._connections.discard(pending)
        connection = pending.connection
        connection.unanswered -= 1
        requests = connection.requests
        while requests and requests[0].kind is not None:
            self._deliver(connection, requests.popleft())
            if connection.is_closed:
                return
        if connection.queued_frames or connection.is_paused:
            self._connections.run_later(connection)

    def _drop_late_answer(self, pending: PendingRequest) -> None:
        """Something that the request waited for did not know yet that it was ended: it is answered already, or its
        connection is closed. What it held of what all share has been given back.
        """
        self._deadlines.unschedule(pending)
        if pending.reserved_bytes:
            self._fetch_memory.release(pending)

    def _deliver(self, connection: Connection, pending: PendingRequest) -> None:
        if pending.reserved_bytes:
            self._fetch_memory.release(pending)
        timing = pending.timing
        match pending.kind:
            case ResponseKind.SEND:
                assert pending.buffers is not None
                self._connections.write_answer(connection, pending.buffers)
                if timing is not None:
                    self._metrics.leaves(timing)
            case ResponseKind.NO_OP:
                if timing is not None:
                    self._metrics.finish_timing(timing)
            case ResponseKind.CLOSE:
                event = "connection closed: a produce with acks=0 failed"
                self._log_lines.add_line(LogLevel.INFO, event, connection.context, pending.header, {}, pending.trace_id)
                if timing is not None:
                    self._metrics.finish_timing(timing)
                self._connections.close_connection(connection)
            case ResponseKind.START_THROTTLING | ResponseKind.END_THROTTLING | None:
                raise AssertionError(f"{pending.kind} is no answer")
            case unknown:
                assert_never(unknown)

    def _throttle_answer(self, pending: PendingRequest, response: Response) -> None:
        """Name the throttle time in a response, and mute its connection, if its client is over a quota."""
        named_ms: int | None = getattr(response, "throttle_time_ms", None)
        throttle_ms = self.charge(pending, named_ms or 0)
        if throttle_ms and named_ms is not None:
            response.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]

    def _throttle_body(self, pending: PendingRequest, body: Buffer) -> Buffer:
        """Do the same for a response that a coordinator has encoded."""
        throttle_ms = self.charge(pending, 0)
        header = pending.header
        if not throttle_ms or header.api_version < _THROTTLE_TIME_FIRST.get(header.api_key, header.api_version + 1):
            return body
        return throttle_ms.to_bytes(4, "big") + bytes(body[4:])

    def charge(self, pending: PendingRequest, throttle_ms: int) -> int:
        """Charge a request that is about to be answered to its client's quotas, and mute the connection for as long as
        the client has to wait, which is returned: `throttle_ms` at least.

        The loop's time is that since the connection's last answer.
        """
        connection, header = pending.connection, pending.header
        quotas = connection.quotas
        if quotas is None:
            return 0
        context, client_id = connection.context, header.client_id
        if header.api_key == ApiKey.PRODUCE:
            throttle_ms = max(throttle_ms, quotas.produce_wait_ms(context, client_id))
        spent_us, connection.spent_us = connection.spent_us, 0
        throttle_ms = max(throttle_ms, quotas.worked(context, client_id, spent_us))
        if throttle_ms:
            self.throttle(connection, throttle_ms)
            if pending.timing is not None:
                pending.timing.kind.api.times.throttle.add(throttle_ms * 1000)
        return throttle_ms

    def charge_request_bytes(self, pending: PendingRequest) -> None:
        """Charge a Produce to its client's quota as it starts: what follows it on its connection waits already, and not
        from its answer on, for a client may have sent hundreds of them.
        """
        connection = pending.connection
        if connection.quotas is not None:
            context, client_id = connection.context, pending.header.client_id
            throttle_ms = connection.quotas.produced(context, client_id, pending.frame_bytes)
            if throttle_ms:
                self.throttle(connection, throttle_ms)

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        """Mute a connection for a while; its responses are still sent (KIP-219)."""
        self.steer(connection, ResponseKind.START_THROTTLING)
        self._deadlines.schedule(_Throttle(self, connection), self._clock.now_ms + throttle_ms)

    def steer(self, connection: Connection, kind: ResponseKind) -> None:
        """The two kinds of response that carry nothing and keep no order; each start has one end."""
        assert kind in (ResponseKind.START_THROTTLING, ResponseKind.END_THROTTLING), f"{kind} has a place in the order"
        connection.throttles += 1 if kind is ResponseKind.START_THROTTLING else -1
        self._connections.run_later(connection)


def error_response(header: RequestHeader) -> Response | None:
    """Return the response with nothing but UNKNOWN_SERVER_ERROR; None if this version has no error for the whole
    request, so that it would be taken for a success.
    """
    response = MESSAGES[ApiKey(header.api_key)][1]()
    if getattr(response, "error_code", None) is None:
        return None
    response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[attr-defined]
    sent = decode_response_body(
        header.api_key, header.api_version, memoryview(encode_body(response, header.api_version))
    )
    return response if getattr(sent, "error_code", 0) == ErrorCode.UNKNOWN_SERVER_ERROR else None


class _Throttle:
    """The end of a mute: quotas set its length, KIP-219 its place, after the answer has gone out."""

    __slots__ = ("_connection", "_responder", "deadline_bucket")

    def __init__(self, responder: Responder, connection: Connection) -> None:
        self._responder = responder
        self._connection = connection
        self.deadline_bucket = -1

    def expire(self, now_ms: int) -> None:
        self._responder.steer(self._connection, ResponseKind.END_THROTTLING)

    def failed(self, error: Exception) -> None:
        self._connection.failed(error)
