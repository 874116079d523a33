"""Requests: begun from their frames, answered in their order."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, assert_never

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import (
    decode_request_in_steps,
    decode_short_request,
    encode_response,
    encode_response_in_steps,
    frame_response,
)
from barnabas.wire.headers import RequestHeader, decode_request_header
from barnabas.wire.messages import Request, Response
from barnabas.wire.primitives import Buffer, MalformedFrame, Steps, TooManyElements
from services.gateway.core.connection import Connection
from services.gateway.core.effects import LogLevel
from services.gateway.core.group_call import WithBody
from services.gateway.core.handlers import HANDLERS, Handler
from services.gateway.core.handlers.api_18_api_versions import unsupported_version
from services.gateway.core.request_metrics import kind_key
from services.gateway.core.request_timing import Hop
from services.gateway.core.slots import ResponseKind, Slot
from services.gateway.core.steps import RequestSteps
from services.gateway.core.throttling import Throttle

if TYPE_CHECKING:
    from services.gateway.core.processor import Processor

_SHORT_ANSWERS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.API_VERSIONS)
"""Those of most requests, which have no more elements than their requests: encoded at once where these are short."""


class RequestRoom:
    __slots__ = (
        "_clients",
        "_deadlines",
        "_fetch_memory",
        "_is_measured",
        "_journal",
        "_kinds",
        "_metrics",
        "_processor",
        "_request_memory",
        "steps",
    )

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._clients = processor.clients
        self._deadlines = processor.deadlines
        self._journal = processor.journal
        self._request_memory = processor.request_memory
        self._fetch_memory = processor.fetch_memory
        self._metrics = processor.metrics
        self._kinds = processor.metrics.kinds
        self._is_measured = processor.config.metrics_enable
        self.steps = RequestSteps(self)

    def start(self, connection: Connection, frame: memoryview, arrived_us: int) -> None:
        """Begin one request. Whatever can be wrong with its frame closes its connection, and no other.

        `arrived_us` is -1 for one that has come this moment.
        """
        header: RequestHeader | None = None
        try:
            header, position = decode_request_header(frame)
            api_key, version = header.api_key, header.api_version
            kind = self._kinds.get(api_key << 16 | version)
            if kind is None:
                self._refuse_unserved(connection, header, len(frame))
                return
            handler = kind.handler
            request: Request | None = None
            try:
                request = decode_short_request(api_key, version, frame, position)
            except TooManyElements:
                pass
        except MalformedFrame as error:
            self.refuse(connection, header or _readable_header(frame), str(error))
            return
        slot = handler.slot(connection, header, len(frame))
        if self._is_measured:
            kind.requests = number = kind.requests + 1
            kind.request_bytes += slot.frame_bytes
            if number >= kind.time_at:
                self._metrics.time(kind, slot, arrived_us)
        self._open(slot)
        if request is None:
            connection.is_starting = slot.is_long = True
            self.steps.begin(slot, self._start_in_steps(slot, handler, frame, position))
            return
        try:
            steps = handler.start(slot, WithBody(request, frame[position:]) if handler.takes_body else request)
            if steps is not None:
                self.steps.begin(slot, steps)
        except Exception as error:
            # A fault of ours that one request finds must not take the other connections with it.
            self.failed(slot, error)

    def _start_in_steps(self, slot: Slot, handler: Handler, frame: memoryview, position: int) -> Steps[None]:
        """Decode a long request and begin it. Nothing else of its connection begins before that is done."""
        header, connection = slot.header, slot.connection
        try:
            request = yield from decode_request_in_steps(header.api_key, header.api_version, frame, position)
            steps = handler.start(slot, WithBody(request, frame[position:]) if handler.takes_body else request)
            if steps is not None:
                yield from steps
            self.steps.discarded.add(request)
        finally:
            connection.is_starting = False
            self._clients.run_later(connection)

    def failed(self, slot: Slot, error: Exception) -> None:
        """Close the connection of a request whose bytes are none after all, or that finds a fault of ours."""
        connection, header = slot.connection, slot.header
        if isinstance(error, MalformedFrame):
            self.refuse(connection, header, str(error))
            return
        fault = {"traceback": "".join(traceback.format_exception(error))}
        self._journal.note(LogLevel.ERROR, "request failed", connection.context, header, fault, slot.trace_id)
        self._clients.close(connection)

    def _refuse_unserved(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        if header.api_key == ApiKey.API_VERSIONS:
            self._answer_unsupported_api_versions(connection, header, frame_bytes)
        elif header.api_key in HANDLERS:
            self.refuse(connection, header, "the version is not served")
        else:
            self.refuse(connection, header, "the API key is not served")

    def refuse(self, connection: Connection, header: RequestHeader | None, reason: str) -> None:
        """Bytes that are no request of Kafka's, or none that is served."""
        event = "connection closed: bad request"
        self._journal.note(LogLevel.WARNING, event, connection.context, header, {"reason": reason})
        self._clients.close(connection)

    def _answer_unsupported_api_versions(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        """KIP-511: a v0 answer that every client can read."""
        header_v0 = RequestHeader(header.api_key, 0, header.correlation_id, header.client_id)
        if self._is_measured:
            # Counted by the version that it is answered in: one that a client makes up is no label.
            kind = self._kinds[kind_key(ApiKey.API_VERSIONS, 0)]
            kind.requests += 1
            kind.request_bytes += frame_bytes
        slot = Slot(connection, header_v0, frame_bytes)
        self._open(slot)
        self.respond(slot, unsupported_version())

    def _open(self, slot: Slot) -> None:
        connection = slot.connection
        connection.slots.append(slot)
        connection.unanswered += 1
        connection.run_api_key = slot.header.api_key
        self._request_memory.held_bytes += slot.frame_bytes

    def respond(self, slot: Slot, response: Response, *, may_have_failed: bool = True) -> None:
        """Answer a request; `may_have_failed`: perhaps there are errors in it, which are to be counted."""
        header = slot.header
        if slot.timing is not None:
            slot.timing.enter(Hop.GATEWAY)
        counts_errors = may_have_failed and self._is_measured
        if slot.is_long or header.api_key not in _SHORT_ANSWERS:
            self._deadlines.remove(slot)
            self.steps.begin(slot, self._answer_in_steps(slot, response, counts_errors))
            return
        if counts_errors:
            self._metrics.response_failed(header.api_key, response)
        slot.buffers = encode_response(response, header.api_version, header.correlation_id)
        self.answered(slot, ResponseKind.SEND)

    def _answer_in_steps(self, slot: Slot, response: Response, counts_errors: bool) -> Steps[None]:
        header = slot.header
        if counts_errors:
            yield from self._metrics.response_failed_in_steps(header.api_key, response)
        slot.buffers = yield from encode_response_in_steps(response, header.api_version, header.correlation_id)
        if len(slot.buffers) > 1:
            self.steps.discarded.add(response)
        self.answered(slot, ResponseKind.SEND)

    def hand_over(self, slot: Slot, body: Buffer) -> None:
        """Answer a request by what another has encoded, in the version of the request."""
        header = slot.header
        if slot.timing is not None:
            slot.timing.enter(Hop.GATEWAY)
        if self._is_measured:
            self._metrics.body_answered(header.api_key, header.api_version, body)
        slot.buffers = frame_response(header.api_key, header.api_version, header.correlation_id, body)
        self.answered(slot, ResponseKind.SEND)

    def forget_frame(self, slot: Slot) -> None:
        """A request that waits holds nothing of its frame any more."""
        self._request_memory.held_bytes -= slot.frame_bytes
        slot.frame_bytes = 0

    def answered(self, slot: Slot, kind: ResponseKind) -> None:
        """A request is over. Its answer leaves when those before it have left."""
        slot.kind = kind
        if slot.timing is not None:
            slot.timing.enter(Hop.RESPONSE_QUEUE)
        if slot.deadline_bucket >= 0:
            self._deadlines.remove(slot)
        if slot.is_long:
            self.steps.discarded.add(slot)
        self._request_memory.held_bytes -= slot.frame_bytes
        connection = slot.connection
        connection.unanswered -= 1
        slots = connection.slots
        while slots and slots[0].kind is not None:
            self._deliver(connection, slots.popleft())
            if connection.is_closed:
                return
        if connection.queued_frames or connection.is_paused:
            self._clients.run_later(connection)

    def _deliver(self, connection: Connection, slot: Slot) -> None:
        if slot.reserved_bytes:
            self._fetch_memory.release(slot.reserved_bytes)
            slot.reserved_bytes = 0
        timing = slot.timing
        match slot.kind:
            case ResponseKind.SEND:
                assert slot.buffers is not None
                self._clients.write(connection, slot.buffers)
                if timing is not None:
                    self._metrics.leaves(timing)
            case ResponseKind.NO_OP:
                if timing is not None:
                    self._metrics.finish(timing)
            case ResponseKind.CLOSE:
                event = "connection closed: a produce with acks=0 failed"
                self._journal.note(LogLevel.INFO, event, connection.context, slot.header, {}, slot.trace_id)
                if timing is not None:
                    self._metrics.finish(timing)
                self._clients.close(connection)
            case ResponseKind.START_THROTTLING | ResponseKind.END_THROTTLING | None:
                raise AssertionError(f"{slot.kind} is no answer")
            case unknown:
                assert_never(unknown)

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        """Mute a connection for a while; its answers go out all the same (KIP-219)."""
        self.steer(connection, ResponseKind.START_THROTTLING)
        self._deadlines.add(Throttle(self, connection), self._processor.now_ms + throttle_ms)

    def steer(self, connection: Connection, kind: ResponseKind) -> None:
        """The two kinds of response that carry nothing and keep no order; each start has one end."""
        assert kind in (ResponseKind.START_THROTTLING, ResponseKind.END_THROTTLING), f"{kind} has a place in the order"
        connection.throttles += 1 if kind is ResponseKind.START_THROTTLING else -1
        self._clients.run_later(connection)


def _readable_header(frame: memoryview) -> RequestHeader | None:
    """What every header begins with, for the log line about one that is malformed further on."""
    if len(frame) < 8:
        return None
    api_key, version, correlation_id = (
        int.from_bytes(frame[start:end], "big", signed=True) for start, end in ((0, 2), (2, 4), (4, 8))
    )
    return RequestHeader(api_key, version, correlation_id, None)
