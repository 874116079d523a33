"""Responder: how a request ends, and how its answer leaves in the order of its connection's requests."""

from __future__ import annotations

import traceback
from typing import assert_never

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_response, encode_response_in_steps, frame_response
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.primitives import Buffer, MalformedFrame, Steps
from services.gateway.core.backends.fetch_memory import FetchMemory
from services.gateway.core.connections.connection import Connection, ResponseKind, Slot
from services.gateway.core.connections.connections import ClientRoom
from services.gateway.core.connections.request_memory import RequestMemory
from services.gateway.core.connections.steps import RequestSteps
from services.gateway.core.connections.throttling import Throttle
from services.gateway.core.model.clock import Clock
from services.gateway.core.model.deadlines import Deadlines
from services.gateway.core.model.log_lines import Journal
from services.gateway.core.model.outputs import LogLevel
from services.gateway.core.timing.hops import Hop
from services.gateway.core.timing.request_metrics import RequestMetrics

_SHORT_ANSWERS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.API_VERSIONS)
"""Those of most requests, which have no more elements than their requests: encoded at once where these are short."""


class Responder:
    __slots__ = (
        "_clients",
        "_clock",
        "_deadlines",
        "_fetch_memory",
        "_is_measured",
        "_journal",
        "_metrics",
        "_request_memory",
        "steps",
    )

    def __init__(
        self,
        clients: ClientRoom,
        clock: Clock,
        deadlines: Deadlines,
        request_memory: RequestMemory,
        fetch_memory: FetchMemory,
        journal: Journal,
        metrics: RequestMetrics,
    ) -> None:
        self._clients = clients
        self._clock = clock
        self._deadlines = deadlines
        self._journal = journal
        self._request_memory = request_memory
        self._fetch_memory = fetch_memory
        self._metrics = metrics
        self._is_measured = clients.config.metrics_enable
        self.steps = RequestSteps(self, clients.discarded)

    def begin(self, slot: Slot, steps: Steps[None]) -> None:
        """Do this for a request, in as many turns as it takes; in place of what was still to be done for it."""
        self.steps.begin(slot, steps)

    def failed(self, slot: Slot, error: Exception) -> None:
        """Close the connection of a request whose bytes are none after all, or that finds a fault of ours."""
        connection, header = slot.connection, slot.header
        if isinstance(error, MalformedFrame):
            self.refuse(connection, header, str(error))
            return
        self.close_faulty(slot, "".join(traceback.format_exception(error)))

    def close_faulty(self, slot: Slot, fault: str) -> None:
        """Close the connection of a request that finds a fault of ours: the other connections keep theirs.

        `fault` is a traceback, for the log.
        """
        context = slot.connection.context
        self._journal.note(LogLevel.ERROR, "request failed", context, slot.header, {"traceback": fault}, slot.trace_id)
        self._clients.close(slot.connection)

    def refuse(self, connection: Connection, header: RequestHeader | None, reason: str) -> None:
        """Bytes that are no request of Kafka's, or none that is served."""
        event = "connection closed: bad request"
        self._journal.note(LogLevel.WARNING, event, connection.context, header, {"reason": reason})
        self._clients.close(connection)

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

    def count_errors(self, slot: Slot, response: Response) -> None:
        """Count the errors of an answer that is not sent."""
        self._metrics.response_failed(slot.header.api_key, response)

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
        self._deadlines.add(Throttle(self, connection), self._clock.now_ms + throttle_ms)

    def steer(self, connection: Connection, kind: ResponseKind) -> None:
        """The two kinds of response that carry nothing and keep no order; each start has one end."""
        assert kind in (ResponseKind.START_THROTTLING, ResponseKind.END_THROTTLING), f"{kind} has a place in the order"
        connection.throttles += 1 if kind is ResponseKind.START_THROTTLING else -1
        self._clients.run_later(connection)
