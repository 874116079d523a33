"""The connections of a processor: opened, read as far as limits allow, written, closed; what they hold of memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from barnabas.containment import CONTAINING
from barnabas.wire.file_range import FileRange
from barnabas.wire.primitives import Buffer
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.connections.connection import Connection, PendingRequest
from barnabas_gateway.core.connections.steps import Discarded
from barnabas_gateway.core.model.client_quotas import ClientQuotas
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.containment import CONNECTION
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import LogLevel, Turn
from barnabas_gateway.core.model.request_context import Principal, RequestContext
from barnabas_gateway.core.timing.request_metrics import RequestMetrics


class RequestMemory:
    """Request bytes: of complete requests until they are answered, and of frames that are still incomplete.

    Over the limit, every connection that sends is paused except one: the *privileged* one, whose frame may be completed
    whatever is held. Without it, many incomplete frames could fill the memory and none of them would ever be completed.
    """

    __slots__ = ("_bytes_max", "held_bytes", "privileged", "waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.held_bytes = 0
        self.privileged: Connection | None = None
        self.waiting: dict[Connection, None] = {}
        """Those that are paused for lack of memory, the longest paused first."""

    def is_over(self) -> bool:
        return self.held_bytes > self._bytes_max

    def must_pause(self, connection: Connection) -> bool:
        """Called after `connection` has added bytes; True queues it to be resumed."""
        if self.held_bytes <= self._bytes_max or connection is self.privileged:
            return False
        if self.privileged is None and connection.splitter.buffered_bytes:
            self.privileged = connection
            return False
        self.waiting[connection] = None
        return True

    def yield_privilege(self, connection: Connection) -> None:
        """Its frame is complete, or it is gone."""
        if self.privileged is connection:
            self.privileged = None

    def forget_connection(self, connection: Connection) -> None:
        self.waiting.pop(connection, None)
        self.yield_privilege(connection)

    def take_resumable(self) -> list[Connection]:
        """Return the connections that may be read again: all once memory is free, the longest paused one to be
        privileged.
        """
        if not self.waiting:
            return []
        if self.held_bytes <= self._bytes_max:
            resumable = list(self.waiting)
            self.waiting.clear()
            return resumable
        if self.privileged is None:
            for connection in self.waiting:
                if connection.splitter.buffered_bytes:
                    self.privileged = connection
                    del self.waiting[connection]
                    return [connection]
        return []


def _refuse_failure(pending: PendingRequest, error: Exception) -> None:
    raise error


class Connections:
    __slots__ = (
        "_clock",
        "_connections",
        "_deadlines",
        "_log_lines",
        "_metrics",
        "_next_turn",
        "_quotas",
        "_turn",
        "_writing",
        "config",
        "discarded",
        "fetch_memory",
        "is_draining",
        "long_requests",
        "request_failed",
        "request_memory",
        "runnable",
        "unauthenticated",
    )

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        deadlines: Deadlines,
        fetch_memory: FetchMemory,
        log_lines: LogLineBuffer,
        metrics: RequestMetrics,
        turn: Turn,
        quotas: ClientQuotas,
    ) -> None:
        self.config = config
        self._clock = clock
        self._deadlines = deadlines
        self._log_lines = log_lines
        self.request_memory = RequestMemory(config.queued_request_bytes_max)
        self.fetch_memory = fetch_memory
        self._metrics = metrics
        self._turn = turn
        self._quotas = quotas
        self.discarded = Discarded()
        """What long requests leave to be freed."""
        self.long_requests: set[PendingRequest] = set()
        """Those that are decoded in steps, until they are finished."""
        self._connections: dict[int, Connection] = {}
        self.unauthenticated: dict[Connection, None] = {}
        """Those that have to authenticate first, in the order in which they were opened."""
        self.runnable: deque[Connection] = deque()
        """Connections that the dispatcher has to look at in this turn."""
        self._next_turn: list[Connection] = []
        """Connections that may start more requests as soon as the others have had their turn."""
        self.is_draining = False
        self.request_failed: Callable[[PendingRequest, Exception], None] = _refuse_failure
        """Ends a request that has met an unexpected exception: set by the responder."""
        self._writing: list[Connection] = []
        """Those with something to write in this turn."""

    def find_connection(self, connection_id: int) -> Connection | None:
        return self._connections.get(connection_id)

    def open_connection(
        self, connection_id: int, listener: str, peer: str, principal: Principal, node_id: int
    ) -> Connection:
        now_ms = self._clock.now_ms
        context = RequestContext(connection_id, listener, peer, principal, node_id)
        connection = Connection(self, context, now_ms)
        self._connections[connection_id] = connection
        connection.quotas = self._quotas if self._quotas.is_active else None
        self._deadlines.schedule(connection, now_ms + self.config.connection_idle_ms_max)
        return connection

    def quotas_changed(self) -> None:
        """Limit the clients of all connections, or none, as there are quotas."""
        quotas = self._quotas if self._quotas.is_active else None
        for connection in self._connections.values():
            connection.quotas = quotas
            connection.spent_us = 0

    def unsent_bytes(self, connection: Connection, unsent_bytes: int) -> None:
        self.fetch_memory.unsent_bytes += unsent_bytes - connection.unsent_bytes
        if unsent_bytes < connection.unsent_bytes or connection.unsent_bytes == 0:
            connection.unsent_since_ms = connection.active_ms = self._clock.now_ms
        connection.unsent_bytes = unsent_bytes
        self.run_later(connection)

    # --- closing ---

    def connection_failed(self, connection: Connection, error: Exception) -> None:
        """Close a connection that has met an unexpected exception: the others stay open."""
        self._log_lines.contain(CONNECTION, error, connection.context)
        self.close_in_doubt(connection)

    def close_in_doubt(self, connection: Connection) -> None:
        """Close a connection of which something may be half-done. What can't be given back then is shared by all."""
        with CONTAINING:
            self.close_connection(connection)

    def close_connection(self, connection: Connection) -> None:
        """Close it from our side, after the bytes that are already written if the client reads them."""
        if connection.is_closed:
            return
        if connection.unsent_bytes > self.config.connection_unsent_bytes_max:
            self.abort_connection(connection)
            return
        self._flush(connection)
        self._turn.rare.closes.append(connection.connection_id)
        self.forget_connection(connection)

    def abort_connection(self, connection: Connection) -> None:
        """Close it without sending another byte, so that what it holds is free now."""
        self._turn.rare.aborts.append(connection.connection_id)
        self.forget_connection(connection)

    def forget_connection(self, connection: Connection) -> None:
        """Its socket is closed, or about to be: drop what was not sent, cancel what waits, release what it holds.
        Raises Uncontained if that fails: what can't be given back is shared by all.
        """
        connection.is_closed = True
        with CONTAINING:
            self._give_back(connection)

    def give_up(self, pending: PendingRequest) -> None:
        """Cancel what a request has begun although its connection is closed: the end of another request may close it
        in the midst of this one. Raises Uncontained if that fails.
        """
        if pending.kind is not None:
            return
        with CONTAINING:
            self._deadlines.unschedule(pending)
            pending.cancel()

    def _give_back(self, connection: Connection) -> None:
        connection.outgoing = []
        connection.outgoing_bytes = 0
        del self._connections[connection.connection_id]
        self._deadlines.unschedule(connection)
        if connection.authentication is not None:
            self._deadlines.unschedule(connection.authentication)
            self.unauthenticated.pop(connection, None)
        self.request_memory.held_bytes -= connection.splitter.buffered_bytes + connection.queued_bytes
        self.request_memory.forget_connection(connection)
        self.fetch_memory.unsent_bytes -= connection.unsent_bytes
        self._metrics.cancelled(connection.requests, connection.run_api_key, connection.unanswered)
        for pending in connection.requests:
            if pending.kind is None:
                self._deadlines.unschedule(pending)
                pending.cancel()
                self.request_memory.held_bytes -= pending.frame_bytes
            if pending.reserved_bytes:
                self.fetch_memory.release(pending)
            if pending.is_long:
                self.discard(pending)
        connection.requests.clear()
        connection.queued_frames.clear()
        connection.queued_since_us.clear()

    def discard(self, pending: PendingRequest) -> None:
        """Free what a long request holds in later turns: it is finished, or dropped."""
        self.long_requests.discard(pending)
        self.discarded.free_later(pending)

    def check_idle(self, connection: Connection, now_ms: int) -> None:
        """Apply `connections.max.idle.ms`; a connection that waits for a response is not idle."""
        idle_ms = 0 if connection.unanswered else now_ms - connection.active_ms
        idle_ms_max = self.config.connection_idle_ms_max
        if idle_ms >= idle_ms_max:
            event = "connection closed: idle"
            self._log_lines.add_line(LogLevel.INFO, event, connection.context, None, {"idle_ms": idle_ms})
            self.close_connection(connection)
        else:
            self._deadlines.schedule(connection, now_ms - idle_ms + idle_ms_max)

    def close_stalled_readers(self) -> None:
        """Close connections whose clients don't read their responses while others wait for that memory."""
        since_ms = self._clock.now_ms - self.config.stalled_reader_ms
        stalled = [
            each for each in self._connections.values() if each.unsent_bytes and each.unsent_since_ms <= since_ms
        ]
        for connection in stalled:
            event = "connection closed: its client does not read responses"
            unsent = {"unsent_bytes": connection.unsent_bytes}
            self._log_lines.add_line(LogLevel.WARNING, event, connection.context, None, unsent)
            self.abort_connection(connection)

    def close_stalled_senders(self) -> None:
        """Close connections whose clients don't complete their frames while others wait for that memory, however slowly
        bytes arrive.
        """
        since_ms = self._clock.now_ms - self.config.stalled_sender_ms
        stalled = [
            each
            for each in self._connections.values()
            if each.splitter.buffered_bytes and not each.is_paused and each.frame_since_ms <= since_ms
        ]
        for connection in stalled:
            event = "connection closed: its client does not finish a frame"
            held = {"buffered_bytes": connection.splitter.buffered_bytes}
            self._log_lines.add_line(LogLevel.WARNING, event, connection.context, None, held)
            self.abort_connection(connection)

    def _close_unauthenticated_senders(self) -> None:
        """What has not authenticated does not take the memory of others: not even for as long as it may take."""
        senders = [each for each in self.unauthenticated if each.splitter.buffered_bytes or each.queued_bytes]
        for connection in senders:
            event = "connection closed: it has not authenticated, and there is no memory for more of its bytes"
            held = {"buffered_bytes": connection.splitter.buffered_bytes}
            self._log_lines.add_line(LogLevel.WARNING, event, connection.context, None, held)
            self.abort_connection(connection)

    def log_range_cut(self, connection: Connection) -> None:
        event = "connection closed: records that it was being sent were truncated, its client has to fetch again"
        unsent = {"unsent_bytes": connection.unsent_bytes}
        self._log_lines.add_line(LogLevel.WARNING, event, connection.context, None, unsent)

    def unanswered_by_api_key(self) -> dict[int, int]:
        """How many requests are in progress."""
        unanswered: dict[int, int] = {}
        for each in self._connections.values():
            if each.unanswered:
                unanswered[each.run_api_key] = unanswered.get(each.run_api_key, 0) + each.unanswered
        return unanswered

    def queued_requests(self) -> int:
        """Complete frames whose requests have not started."""
        return sum(len(each.queued_frames) for each in self._connections.values())

    def queued_responses(self) -> int:
        """Responses that wait for those before them."""
        return sum(len(each.requests) - each.unanswered for each in self._connections.values())

    def drain_all(self) -> None:
        self.is_draining = True
        for connection in self._connections.values():
            self.run_later(connection)

    def is_drained(self) -> bool:
        return self.is_draining and not self._connections

    # --- reading ---

    def run_later(self, connection: Connection) -> None:
        """The reason why its next request could not start, or its socket was not read, may be gone."""
        if not connection.is_runnable:
            connection.is_runnable = True
            self.runnable.append(connection)

    def run_next_turn(self, connection: Connection) -> None:
        """It may start more requests as soon as the others have had their turn."""
        self._next_turn.append(connection)

    def has_more(self) -> bool:
        """Whether requests could start in another turn, without waiting for anything."""
        return len(self.runnable) > 0

    def adjust_reading(self, connection: Connection) -> None:
        """Pause its socket, or resume it, depending on its requests."""
        if not connection.is_paused:
            self.pause_reading(connection)
        elif not connection.wants_pause() and connection not in self.request_memory.waiting:
            self.resume_reading(connection)

    def drain_one(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        if not connection.is_paused:
            connection.is_paused = True
            self._turn.rare.pauses.append(connection.connection_id)
        if connection.unanswered == 0 and connection.unsent_bytes == 0:
            self.close_connection(connection)

    def pause_reading(self, connection: Connection) -> None:
        if self.unauthenticated and self.request_memory.is_over():
            self._close_unauthenticated_senders()
        if connection.is_closed or connection.is_paused:
            return
        if self.request_memory.must_pause(connection) or connection.wants_pause():
            connection.is_paused = True
            self._turn.rare.pauses.append(connection.connection_id)

    def resume_reading(self, connection: Connection) -> None:
        connection.is_paused = False
        connection.frame_since_ms = self._clock.now_ms
        self._turn.rare.resumes.append(connection.connection_id)

    # --- writing ---

    def write_answer(self, connection: Connection, buffers: list[Buffer | FileRange]) -> None:
        if connection.outgoing:
            connection.outgoing += buffers
        else:
            connection.outgoing = buffers
            self._writing.append(connection)
        connection.outgoing_bytes += sum(map(len, buffers))

    def _flush(self, connection: Connection) -> None:
        if connection.outgoing:
            self._turn.outputs.writes.append((connection.connection_id, connection.outgoing))
            connection.written_bytes += connection.outgoing_bytes
            connection.outgoing = []
            connection.outgoing_bytes = 0

    def end_turn(self) -> None:
        """Put what is to be written into the turn's outputs; the next turn goes on with those that may start more."""
        for connection in self._writing:
            self._flush(connection)
            if connection.queued_frames and connection.may_start(connection.queued_frames[0]):
                self._next_turn.append(connection)
        self._writing.clear()
        for connection in self._next_turn:
            self.run_later(connection)
        self._next_turn.clear()
