"""The connections of a processor: opened, read as far as limits allow, written, closed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.wire.primitives import Buffer, MalformedFrame
from services.gateway.core.authorization import RequestContext
from services.gateway.core.connection import QUEUED_FRAME_BYTES, Connection
from services.gateway.core.effects import LogLevel, Outputs

if TYPE_CHECKING:
    from services.gateway.core.processor import Processor


_ANSWERS_PER_TURN = 16
"""Of one connection to requests that are answered as they start, before the others have their turn."""
_ANSWER_BYTES = 256
"""So many more bytes of such a request count for another answer: it may name an element in every few of them."""


class ClientRoom:
    __slots__ = (
        "_aborts",
        "_closes",
        "_connections",
        "_deadlines",
        "_fetch_memory",
        "_is_draining",
        "_journal",
        "_next_turn",
        "_pauses",
        "_processor",
        "_request_memory",
        "_resumes",
        "_runnable",
        "_writes",
        "_writing",
    )

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._deadlines = processor.deadlines
        self._journal = processor.journal
        self._request_memory = processor.request_memory
        self._fetch_memory = processor.fetch_memory
        self._connections: dict[int, Connection] = {}
        self._runnable: deque[Connection] = deque()
        self._next_turn: list[Connection] = []
        """Those that may start more requests as soon as the others had their turn."""
        self._is_draining = False
        self._writing: list[Connection] = []
        """Those with something to write in this turn; the next five are the turn's outputs."""
        self._writes: list[tuple[int, list[Buffer]]] = []
        self._closes: list[int] = []
        self._aborts: list[int] = []
        self._pauses: list[int] = []
        self._resumes: list[int] = []

    def get(self, connection_id: int) -> Connection | None:
        return self._connections.get(connection_id)

    def opened(self, connection_id: int, listener: str, peer: str, node_id: int) -> None:
        now_ms = self._processor.now_ms
        context = RequestContext(connection_id, listener, peer, node_id=node_id)
        connection = Connection(self._processor, context, now_ms)
        self._connections[connection_id] = connection
        self._deadlines.add(connection, now_ms + self._processor.config.connection_idle_ms_max)

    def bytes_received(self, connection: Connection, data: bytes) -> None:
        connection.active_ms = self._processor.now_ms
        splitter, memory = connection.splitter, self._request_memory
        if not splitter.buffered_bytes:
            connection.frame_since_ms = self._processor.now_ms
        memory.held_bytes -= splitter.buffered_bytes
        try:
            frames = splitter.feed(data)
        except MalformedFrame as error:
            memory.held_bytes += splitter.buffered_bytes
            self._processor.requests.refuse(connection, None, str(error))
            return
        memory.held_bytes += splitter.buffered_bytes
        answers_left = _ANSWERS_PER_TURN
        # One that has come alone and may start has come now.
        arrived_us = self._processor.metrics.read_us() if len(frames) > 1 else -1
        for frame in frames:
            if answers_left and not connection.queued_frames and connection.may_start(frame):
                self._processor.requests.start(connection, frame, arrived_us)
                if connection.is_closed:
                    return
                if connection.unanswered == 0:
                    answers_left = max(0, answers_left - 1 - len(frame) // _ANSWER_BYTES)
            else:
                if arrived_us < 0:
                    arrived_us = self._processor.metrics.read_us()
                connection.queued_frames.append(frame)
                connection.queued_since_us.append(arrived_us)
                frame_bytes = len(frame) + QUEUED_FRAME_BYTES
                connection.queued_bytes += frame_bytes
                memory.held_bytes += frame_bytes
        if frames:
            connection.frame_since_ms = self._processor.now_ms
            memory.yield_privilege(connection)
        if not answers_left:
            self._next_turn.append(connection)
        if memory.is_over() or connection.wants_pause():
            self._pause(connection)

    def unsent_bytes(self, connection: Connection, unsent_bytes: int) -> None:
        self._fetch_memory.unsent_bytes += unsent_bytes - connection.unsent_bytes
        if unsent_bytes < connection.unsent_bytes or connection.unsent_bytes == 0:
            connection.unsent_since_ms = connection.active_ms = self._processor.now_ms
        connection.unsent_bytes = unsent_bytes
        self.run_later(connection)

    # --- closing ---

    def close(self, connection: Connection) -> None:
        """Close it from our side, after the bytes that are written already if the client takes them."""
        if connection.is_closed:
            return
        if connection.unsent_bytes > self._processor.config.connection_unsent_bytes_max:
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
        self._fetch_memory.unsent_bytes -= connection.unsent_bytes
        self._processor.metrics.cancelled(connection)
        for slot in connection.slots:
            if slot.kind is None:
                self._deadlines.remove(slot)
                slot.cancel()
                self._request_memory.held_bytes -= slot.frame_bytes
            if slot.reserved_bytes:
                self._fetch_memory.release(slot.reserved_bytes)
            if slot.is_long:
                self._processor.requests.steps.discarded.add(slot)
        connection.slots.clear()
        connection.queued_frames.clear()
        connection.queued_since_us.clear()

    def check_idle(self, connection: Connection, now_ms: int) -> None:
        """`connections.max.idle.ms`; a connection that waits for an answer is not idle."""
        idle_ms = 0 if connection.unanswered else now_ms - connection.active_ms
        idle_ms_max = self._processor.config.connection_idle_ms_max
        if idle_ms >= idle_ms_max:
            event = "connection closed: idle"
            self._journal.note(LogLevel.INFO, event, connection.context, None, {"idle_ms": idle_ms})
            self.close(connection)
        else:
            self._deadlines.add(connection, now_ms - idle_ms + idle_ms_max)

    def close_stalled_readers(self) -> None:
        """Others wait for the memory of answers that these clients do not take."""
        since_ms = self._processor.now_ms - self._processor.config.stalled_reader_ms
        stalled = [
            each for each in self._connections.values() if each.unsent_bytes and each.unsent_since_ms <= since_ms
        ]
        for connection in stalled:
            event = "connection closed: its client takes no answers"
            unsent = {"unsent_bytes": connection.unsent_bytes}
            self._journal.note(LogLevel.WARNING, event, connection.context, None, unsent)
            self.abort(connection)

    def close_stalled_senders(self) -> None:
        """Others wait for the memory of frames that these clients do not finish, however many bytes they drip."""
        since_ms = self._processor.now_ms - self._processor.config.stalled_sender_ms
        stalled = [
            each
            for each in self._connections.values()
            if each.splitter.buffered_bytes and not each.is_paused and each.frame_since_ms <= since_ms
        ]
        for connection in stalled:
            event = "connection closed: its client does not finish a frame"
            held = {"buffered_bytes": connection.splitter.buffered_bytes}
            self._journal.note(LogLevel.WARNING, event, connection.context, None, held)
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
        return sum(len(each.slots) - each.unanswered for each in self._connections.values())

    def drain(self) -> None:
        self._is_draining = True
        for connection in self._connections.values():
            self.run_later(connection)

    def is_drained(self) -> bool:
        return self._is_draining and not self._connections

    # --- reading and starting ---

    def run_later(self, connection: Connection) -> None:
        """Something that kept its next request from starting, or its socket from being read, may be over."""
        if not connection.is_runnable:
            connection.is_runnable = True
            self._runnable.append(connection)

    def run(self) -> None:
        """Start what may start now, and let the sockets follow."""
        while self._runnable:
            connection = self._runnable.popleft()
            if self._is_draining:
                self._drain_one(connection)
            elif not connection.is_closed:
                self._run_one(connection)
            connection.is_runnable = False
        for connection in self._request_memory.take_resumable():
            if connection.is_paused and not connection.wants_pause():
                self._resume(connection)

    def _run_one(self, connection: Connection) -> None:
        queued = connection.queued_frames
        answers_left = _ANSWERS_PER_TURN
        while queued and connection.may_start(queued[0]):
            if not answers_left:
                self._next_turn.append(connection)
                break
            frame = queued.popleft()
            frame_bytes = len(frame) + QUEUED_FRAME_BYTES
            connection.queued_bytes -= frame_bytes
            self._request_memory.held_bytes -= frame_bytes
            self._processor.requests.start(connection, frame, connection.queued_since_us.popleft())
            if connection.is_closed:
                return
            if connection.unanswered == 0:
                answers_left = max(0, answers_left - 1 - len(frame) // _ANSWER_BYTES)
        if not connection.is_paused:
            self._pause(connection)
        elif not connection.wants_pause() and not self._request_memory.is_waiting(connection):
            self._resume(connection)

    def has_more(self) -> bool:
        """Whether requests could start in another turn, without waiting for anything."""
        return len(self._runnable) > 0

    def _drain_one(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        if not connection.is_paused:
            connection.is_paused = True
            self._pauses.append(connection.connection_id)
        if connection.unanswered == 0 and connection.unsent_bytes == 0:
            self.close(connection)

    def _pause(self, connection: Connection) -> None:
        if connection.is_closed or connection.is_paused:
            return
        if self._request_memory.must_pause(connection) or connection.wants_pause():
            connection.is_paused = True
            self._pauses.append(connection.connection_id)

    def _resume(self, connection: Connection) -> None:
        connection.is_paused = False
        connection.frame_since_ms = self._processor.now_ms
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

    def take(self, outputs: Outputs) -> None:
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
