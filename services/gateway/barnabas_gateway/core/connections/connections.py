"""The connections of a processor: opened, read as far as limits allow, written, closed."""

from __future__ import annotations

from collections import deque

from barnabas.wire.primitives import Buffer
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.connections.discarded import Discarded
from barnabas_gateway.core.connections.request_memory import RequestMemory
from barnabas_gateway.core.model.authorization import RequestContext
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import LogLevel, Outputs
from barnabas_gateway.core.timing.request_metrics import RequestMetrics


class Connections:
    __slots__ = (
        "_aborts",
        "_clock",
        "_closes",
        "_connections",
        "_deadlines",
        "_log_lines",
        "_metrics",
        "_next_turn",
        "_pauses",
        "_request_memory",
        "_resumes",
        "_writes",
        "_writing",
        "config",
        "discarded",
        "fetch_memory",
        "is_draining",
        "runnable",
    )

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        deadlines: Deadlines,
        request_memory: RequestMemory,
        fetch_memory: FetchMemory,
        log_lines: LogLineBuffer,
        metrics: RequestMetrics,
    ) -> None:
        self.config = config
        self._clock = clock
        self._deadlines = deadlines
        self._log_lines = log_lines
        self._request_memory = request_memory
        self.fetch_memory = fetch_memory
        self._metrics = metrics
        self.discarded = Discarded()
        """What long requests leave behind."""
        self._connections: dict[int, Connection] = {}
        self.runnable: deque[Connection] = deque()
        """Those that the dispatcher has to look at in this turn."""
        self._next_turn: list[Connection] = []
        """Those that may start more requests as soon as the others had their turn."""
        self.is_draining = False
        self._writing: list[Connection] = []
        """Those with something to write in this turn; the next five are the turn's outputs."""
        self._writes: list[tuple[int, list[Buffer]]] = []
        self._closes: list[int] = []
        self._aborts: list[int] = []
        self._pauses: list[int] = []
        self._resumes: list[int] = []

    def get(self, connection_id: int) -> Connection | None:
        return self._connections.get(connection_id)

    def open(self, connection_id: int, listener: str, peer: str, node_id: int) -> None:
        now_ms = self._clock.now_ms
        context = RequestContext(connection_id, listener, peer, node_id=node_id)
        connection = Connection(self, context, now_ms)
        self._connections[connection_id] = connection
        self._deadlines.add(connection, now_ms + self.config.connection_idle_ms_max)

    def unsent_bytes(self, connection: Connection, unsent_bytes: int) -> None:
        self.fetch_memory.unsent_bytes += unsent_bytes - connection.unsent_bytes
        if unsent_bytes < connection.unsent_bytes or connection.unsent_bytes == 0:
            connection.unsent_since_ms = connection.active_ms = self._clock.now_ms
        connection.unsent_bytes = unsent_bytes
        self.run_later(connection)

    # --- closing ---

    def close(self, connection: Connection) -> None:
        """Close it from our side, after the bytes that are written already if the client takes them."""
        if connection.is_closed:
            return
        if connection.unsent_bytes > self.config.connection_unsent_bytes_max:
            self.abort(connection)
            return
        self._flush(connection)
        self._closes.append(connection.connection_id)
        self.forget(connection)

    def abort(self, connection: Connection) -> None:
        """Close it without another byte: what it holds is to be free now."""
        self._aborts.append(connection.connection_id)
        self.forget(connection)

    def forget(self, connection: Connection) -> None:
        """Its socket is gone, or about to go: drop what was not sent, cancel what waits, give back what it holds."""
        connection.is_closed = True
        connection.outgoing = []
        connection.outgoing_bytes = 0
        del self._connections[connection.connection_id]
        self._deadlines.remove(connection)
        self._request_memory.held_bytes -= connection.splitter.buffered_bytes + connection.queued_bytes
        self._request_memory.forget(connection)
        self.fetch_memory.unsent_bytes -= connection.unsent_bytes
        self._metrics.cancelled(connection.requests, connection.run_api_key, connection.unanswered)
        for pending in connection.requests:
            if pending.kind is None:
                self._deadlines.remove(pending)
                pending.cancel()
                self._request_memory.held_bytes -= pending.frame_bytes
            if pending.reserved_bytes:
                self.fetch_memory.release(pending.reserved_bytes)
            if pending.is_long:
                self.discarded.add(pending)
        connection.requests.clear()
        connection.queued_frames.clear()
        connection.queued_since_us.clear()

    def check_idle(self, connection: Connection, now_ms: int) -> None:
        """`connections.max.idle.ms`; a connection that waits for an answer is not idle."""
        idle_ms = 0 if connection.unanswered else now_ms - connection.active_ms
        idle_ms_max = self.config.connection_idle_ms_max
        if idle_ms >= idle_ms_max:
            event = "connection closed: idle"
            self._log_lines.note(LogLevel.INFO, event, connection.context, None, {"idle_ms": idle_ms})
            self.close(connection)
        else:
            self._deadlines.add(connection, now_ms - idle_ms + idle_ms_max)

    def close_stalled_readers(self) -> None:
        """Others wait for the memory of answers that these clients do not take."""
        since_ms = self._clock.now_ms - self.config.stalled_reader_ms
        stalled = [
            each for each in self._connections.values() if each.unsent_bytes and each.unsent_since_ms <= since_ms
        ]
        for connection in stalled:
            event = "connection closed: its client takes no answers"
            unsent = {"unsent_bytes": connection.unsent_bytes}
            self._log_lines.note(LogLevel.WARNING, event, connection.context, None, unsent)
            self.abort(connection)

    def close_stalled_senders(self) -> None:
        """Others wait for the memory of frames that these clients do not finish, however many bytes they drip."""
        since_ms = self._clock.now_ms - self.config.stalled_sender_ms
        stalled = [
            each
            for each in self._connections.values()
            if each.splitter.buffered_bytes and not each.is_paused and each.frame_since_ms <= since_ms
        ]
        for connection in stalled:
            event = "connection closed: its client does not finish a frame"
            held = {"buffered_bytes": connection.splitter.buffered_bytes}
            self._log_lines.note(LogLevel.WARNING, event, connection.context, None, held)
            self.abort(connection)

    def unanswered_by_api_key(self) -> dict[int, int]:
        """How many requests are under way."""
        unanswered: dict[int, int] = {}
        for each in self._connections.values():
            if each.unanswered:
                unanswered[each.run_api_key] = unanswered.get(each.run_api_key, 0) + each.unanswered
        return unanswered

    def queued_requests(self) -> int:
        """Whole, and not begun."""
        return sum(len(each.queued_frames) for each in self._connections.values())

    def queued_responses(self) -> int:
        """Answers that wait for those before them."""
        return sum(len(each.requests) - each.unanswered for each in self._connections.values())

    def drain(self) -> None:
        self.is_draining = True
        for connection in self._connections.values():
            self.run_later(connection)

    def is_drained(self) -> bool:
        return self.is_draining and not self._connections

    # --- reading ---

    def run_later(self, connection: Connection) -> None:
        """Something that kept its next request from starting, or its socket from being read, may be over."""
        if not connection.is_runnable:
            connection.is_runnable = True
            self.runnable.append(connection)

    def run_next_turn(self, connection: Connection) -> None:
        """It may start more requests as soon as the others had their turn."""
        self._next_turn.append(connection)

    def has_more(self) -> bool:
        """Whether requests could start in another turn, without waiting for anything."""
        return len(self.runnable) > 0

    def adjust_reading(self, connection: Connection) -> None:
        """Pause its socket, or read it again, as far as its requests have come."""
        if not connection.is_paused:
            self.pause(connection)
        elif not connection.wants_pause() and not self._request_memory.is_waiting(connection):
            self.resume(connection)

    def drain_one(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        if not connection.is_paused:
            connection.is_paused = True
            self._pauses.append(connection.connection_id)
        if connection.unanswered == 0 and connection.unsent_bytes == 0:
            self.close(connection)

    def pause(self, connection: Connection) -> None:
        if connection.is_closed or connection.is_paused:
            return
        if self._request_memory.must_pause(connection) or connection.wants_pause():
            connection.is_paused = True
            self._pauses.append(connection.connection_id)

    def resume(self, connection: Connection) -> None:
        connection.is_paused = False
        connection.frame_since_ms = self._clock.now_ms
        self._resumes.append(connection.connection_id)

    # --- writing ---

    def write(self, connection: Connection, buffers: list[Buffer]) -> None:
        if connection.outgoing:
            connection.outgoing += buffers
        else:
            connection.outgoing = buffers
            self._writing.append(connection)
        connection.outgoing_bytes += sum(map(len, buffers))

    def _flush(self, connection: Connection) -> None:
        if connection.outgoing:
            self._writes.append((connection.connection_id, connection.outgoing))
            connection.written_bytes += connection.outgoing_bytes
            connection.outgoing = []
            connection.outgoing_bytes = 0

    def drain_into(self, outputs: Outputs) -> None:
        """Put the turn's writes, closes, pauses and resumes there."""
        for connection in self._writing:
            self._flush(connection)
            if connection.queued_frames and connection.may_start(connection.queued_frames[0]):
                self._next_turn.append(connection)
        self._writing.clear()
        for connection in self._next_turn:
            self.run_later(connection)
        self._next_turn.clear()
        outputs.writes, self._writes = self._writes, []
        outputs.closes, self._closes = self._closes, []
        outputs.aborts, self._aborts = self._aborts, []
        outputs.pauses, self._pauses = self._pauses, []
        outputs.resumes, self._resumes = self._resumes, []
