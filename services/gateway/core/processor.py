"""A processor of the gateway: client connections on one side, logstores, purgatory and the controller on the other.

Pure and synchronous. The host, a process of its own or the simulation, has this loop:

    processor = Processor(config)
    until processor.is_drained():
        wait for input, or for processor.next_deadline_ms()
        for each input since the last turn:
            processor.connection_opened(connection_id, listener, peer, now_ms)
            processor.bytes_received(connection_id, data, now_ms)
            processor.unsent_bytes(connection_id, bytes that the socket has not taken, now_ms)
            processor.connection_closed(connection_id, now_ms)
            processor.exchange_up / exchange_down / read_up / read_down(node_id, now_ms)
            processor.exchange_response / read_response(node_id, message, now_ms)
            processor.purgatory_up / purgatory_down(pod_id, now_ms), processor.park_response(pod_id, message, now_ms)
            processor.metadata_updated(update, now_ms)
            processor.controller_answered(call_id, answer or None, now_ms)
            processor.drain(now_ms)
        processor.expire(now_ms)
        carry out processor.take_outputs()

Nothing is called back: all effects are in the `Outputs` of the turn. `now_ms` is monotonic and never goes back.
Connection ids are the host's, and never used twice. Logstores and pods exist from their first `up`; credit comes with
the first message of a stream. A message whose meaning is broken raises MalformedMessage: the host closes that stream.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Mapping
from typing import assert_never

from barnabas.channel.messages import ExchangeResponse, ParkResponse, ReadResponse
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import UpdateMetadata
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_request, encode_response
from barnabas.wire.headers import RequestHeader, decode_request_header
from barnabas.wire.messages import Response
from barnabas.wire.primitives import MalformedFrame
from services.gateway.core.addresses import BrokerAddress, broker_address
from services.gateway.core.appends import AppendRouter
from services.gateway.core.authorization import RequestContext
from services.gateway.core.config import GatewayConfig
from services.gateway.core.connection import Connection
from services.gateway.core.controller import ControllerRoom
from services.gateway.core.deadlines import Deadlines
from services.gateway.core.effects import ControllerAnswer, Log, LogLevel, Outputs
from services.gateway.core.handlers import HANDLERS
from services.gateway.core.handlers.api_18_api_versions import unsupported_version
from services.gateway.core.logstores import Logstores
from services.gateway.core.memory import FetchMemory, RequestMemory
from services.gateway.core.parking import ParkingRoom
from services.gateway.core.producer_ids import ProducerIds
from services.gateway.core.queries import QueryRouter
from services.gateway.core.reads import ReadRouter
from services.gateway.core.slots import ResponseKind, Slot
from services.gateway.core.throttling import Throttle


class Processor:
    """The rooms of the core, and the door to them. The rooms and handlers use what is public here."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.now_ms = 0
        self.image = ClusterImage()
        self.deadlines = Deadlines()
        self.logstores = Logstores()
        self.request_memory = RequestMemory(config.queued_request_bytes_max)
        self.fetch_memory = FetchMemory(config.fetch_memory_bytes)
        self.appends = AppendRouter(self)
        self.reads = ReadRouter(self)
        self.queries = QueryRouter(self)
        self.parking = ParkingRoom(self)
        self.controller = ControllerRoom(self)
        self.producer_ids = ProducerIds(self)
        self._connections: dict[int, Connection] = {}
        self._runnable: deque[Connection] = deque()
        self._writing: list[Connection] = []
        self._is_draining = False
        self._outputs = Outputs()

    # --- connections ---

    def connection_opened(self, connection_id: int, listener: str, peer: str, now_ms: int) -> None:
        self.now_ms = now_ms
        connection = Connection(self, RequestContext(connection_id, listener, peer), now_ms)
        self._connections[connection_id] = connection
        self.deadlines.add(connection, now_ms + self.config.connection_idle_ms_max)

    def connection(self, connection_id: int) -> Connection | None:
        return self._connections.get(connection_id)

    def bytes_received(self, connection_id: int, data: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        connection.active_ms = now_ms
        splitter = connection.splitter
        memory = self.request_memory
        memory.held_bytes -= splitter.buffered_bytes
        try:
            frames = splitter.feed(data)
        except MalformedFrame as error:
            memory.held_bytes += splitter.buffered_bytes
            self._refuse(connection, None, str(error))
            return
        memory.held_bytes += splitter.buffered_bytes
        for frame in frames:
            if not connection.queued_frames and connection.may_start(frame):
                self._start(connection, frame)
                if connection.is_closed:
                    return
            else:
                connection.queued_frames.append(frame)
                connection.queued_bytes += len(frame)
                memory.held_bytes += len(frame)
        if frames and memory.privileged is connection:
            memory.privileged = None
        if memory.is_over() or connection.wants_pause():
            self._pause(connection)

    def unsent_bytes(self, connection_id: int, unsent_bytes: int, now_ms: int) -> None:
        """How much of what was written to a connection the client has not taken; only changes need to be told."""
        self.now_ms = now_ms
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        self.fetch_memory.unsent_bytes += unsent_bytes - connection.unsent_bytes
        if unsent_bytes < connection.unsent_bytes or connection.unsent_bytes == 0:
            connection.unsent_since_ms = connection.active_ms = now_ms
        connection.unsent_bytes = unsent_bytes
        self.run_later(connection)

    def drain(self, now_ms: int) -> None:
        """Start no further request; each connection closes when its answers are out. Over when `is_drained`."""
        self.now_ms = now_ms
        self._is_draining = True
        for connection in self._connections.values():
            self.run_later(connection)

    def is_drained(self) -> bool:
        return self._is_draining and not self._connections

    def connection_closed(self, connection_id: int, now_ms: int) -> None:
        """The client is gone, or the socket broke."""
        self.now_ms = now_ms
        connection = self._connections.get(connection_id)
        if connection is not None:
            self._forget(connection)

    def close(self, connection: Connection) -> None:
        """Close it from our side, after the bytes that are written already."""
        if not connection.is_closed:
            self._flush_outgoing(connection)
            self._outputs.closes.append(connection.connection_id)
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        connection.is_closed = True
        connection.outgoing = []
        del self._connections[connection.connection_id]
        self.deadlines.remove(connection)
        self.request_memory.held_bytes -= connection.splitter.buffered_bytes + connection.queued_bytes
        self.request_memory.forget(connection)
        self.fetch_memory.unsent_bytes -= connection.unsent_bytes
        for slot in connection.slots:
            if slot.kind is None:
                self.deadlines.remove(slot)
                slot.cancel()
                self.request_memory.held_bytes -= slot.frame_bytes
            if slot.reserved_bytes:
                self.fetch_memory.release(slot.reserved_bytes)
        connection.slots.clear()
        connection.queued_frames.clear()

    def _pause(self, connection: Connection) -> None:
        if connection.is_closed or connection.is_paused:
            return
        if self.request_memory.must_pause(connection) or connection.wants_pause():
            connection.is_paused = True
            self._outputs.pauses.append(connection.connection_id)

    def check_idle(self, connection: Connection, now_ms: int) -> None:
        idle_ms = 0 if connection.unanswered else now_ms - connection.active_ms
        if idle_ms >= self.config.connection_idle_ms_max:
            self._log(LogLevel.INFO, "connection closed: idle", connection, None, {"idle_ms": idle_ms})
            self.close(connection)
        else:
            self.deadlines.add(connection, now_ms - idle_ms + self.config.connection_idle_ms_max)

    # --- requests ---

    def _start(self, connection: Connection, frame: memoryview) -> None:
        """Begin one request: all that can be wrong with its frame closes its connection."""
        header: RequestHeader | None = None
        try:
            header, position = decode_request_header(frame)
            api_key, version = header.api_key, header.api_version
            handler = HANDLERS.get(api_key)
            if handler is None:
                self._refuse(connection, header, "the API key is not served")
                return
            if not handler.version_min <= version <= handler.version_max:
                if api_key == ApiKey.API_VERSIONS:
                    self._answer_unsupported_api_versions(connection, header, len(frame))
                else:
                    self._refuse(connection, header, "the version is not served")
                return
            request = decode_request(api_key, version, frame, position)
        except MalformedFrame as error:
            self._refuse(connection, header or _readable_header(frame), str(error))
            return
        slot = handler.slot(connection, header, len(frame))
        self._open(slot)
        try:
            handler.start(slot, request)
        except Exception:
            # A fault of ours that one request finds must not take the other connections with it.
            self._log(LogLevel.ERROR, "request failed", connection, header, {"traceback": traceback.format_exc()})
            self.close(connection)

    def _answer_unsupported_api_versions(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        """KIP-511: a v0 answer that every client can read."""
        slot = Slot(connection, RequestHeader(header.api_key, 0, header.correlation_id, header.client_id), frame_bytes)
        self._open(slot)
        self.respond(slot, unsupported_version())

    def _open(self, slot: Slot) -> None:
        connection = slot.connection
        connection.slots.append(slot)
        connection.unanswered += 1
        connection.run_api_key = slot.header.api_key
        self.request_memory.held_bytes += slot.frame_bytes

    def _refuse(self, connection: Connection, header: RequestHeader | None, reason: str) -> None:
        self._log(LogLevel.WARNING, "connection closed: bad request", connection, header, {"reason": reason})
        self.close(connection)

    def respond(self, slot: Slot, response: Response) -> None:
        """Answer a request."""
        header = slot.header
        slot.buffers = encode_response(response, header.api_version, header.correlation_id)
        self.answered(slot, ResponseKind.SEND)

    def answered(self, slot: Slot, kind: ResponseKind) -> None:
        """A request is over. Its answer leaves when those before it have left."""
        slot.kind = kind
        if slot.deadline_bucket >= 0:
            self.deadlines.remove(slot)
        self.request_memory.held_bytes -= slot.frame_bytes
        connection = slot.connection
        connection.unanswered -= 1
        slots = connection.slots
        while slots and slots[0].kind is not None:
            self._deliver(connection, slots.popleft())
            if connection.is_closed:
                return
        if connection.queued_frames or connection.is_paused or self._is_draining:
            self.run_later(connection)

    def _deliver(self, connection: Connection, slot: Slot) -> None:
        if slot.reserved_bytes:
            self.fetch_memory.release(slot.reserved_bytes)
            slot.reserved_bytes = 0
        match slot.kind:
            case ResponseKind.SEND:
                assert slot.buffers is not None
                if not connection.outgoing:
                    self._writing.append(connection)
                connection.outgoing += slot.buffers
            case ResponseKind.NO_OP:
                pass
            case ResponseKind.CLOSE:
                self._log(LogLevel.INFO, "connection closed: a produce with acks=0 failed", connection, slot.header, {})
                self.close(connection)
            case ResponseKind.START_THROTTLING | ResponseKind.END_THROTTLING | None:
                raise AssertionError(f"{slot.kind} is no answer")
            case unknown:
                assert_never(unknown)

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        """Mute a connection for a while; its answers go out all the same (KIP-219)."""
        self.steer(connection, ResponseKind.START_THROTTLING)
        self.deadlines.add(Throttle(self, connection), self.now_ms + throttle_ms)

    def steer(self, connection: Connection, kind: ResponseKind) -> None:
        """The two kinds of response that carry nothing and keep no order."""
        connection.throttles += 1 if kind is ResponseKind.START_THROTTLING else -1
        self.run_later(connection)

    def run_later(self, connection: Connection) -> None:
        """Something that kept its next request from starting, or its socket from being read, may be over."""
        if not connection.is_runnable:
            connection.is_runnable = True
            self._runnable.append(connection)

    def _run(self) -> None:
        while self._runnable:
            connection = self._runnable.popleft()
            connection.is_runnable = False
            if self._is_draining:
                self._drain_connection(connection)
                continue
            queued = connection.queued_frames
            while queued and not connection.is_closed and connection.may_start(queued[0]):
                frame = queued.popleft()
                connection.queued_bytes -= len(frame)
                self.request_memory.held_bytes -= len(frame)
                self._start(connection, frame)
            if connection.is_closed:
                continue
            if not connection.is_paused:
                self._pause(connection)
            elif not connection.wants_pause() and not self.request_memory.is_waiting(connection):
                self._resume(connection)
        for connection in self.request_memory.take_resumable():
            if connection.is_paused and not connection.wants_pause():
                self._resume(connection)

    def _drain_connection(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        if connection.unanswered == 0 and connection.unsent_bytes == 0:
            self.close(connection)
        elif not connection.is_paused:
            connection.is_paused = True
            self._outputs.pauses.append(connection.connection_id)

    def _resume(self, connection: Connection) -> None:
        connection.is_paused = False
        self._outputs.resumes.append(connection.connection_id)

    def address_of(self, node_id: int, context: RequestContext) -> BrokerAddress | None:
        """Where clients of this connection's listener find a broker; None when it is not alive."""
        broker = self.image.brokers.get(node_id)
        if broker is None:
            return None
        return broker_address(self.config.address_policy, self.config.listeners_by_name[context.listener], broker)

    # --- logstores, purgatory, controller ---

    def exchange_up(self, node_id: int, now_ms: int) -> None:
        self.now_ms = now_ms
        self.logstores.ensure(node_id).exchange_is_up = True
        self.appends.reroute()

    def exchange_down(self, node_id: int, now_ms: int) -> None:
        self.now_ms = now_ms
        logstore = self.logstores.ensure(node_id)
        logstore.exchange_is_up = False
        logstore.exchange_credit.reset()
        self.queries.stream_lost(logstore)
        self.appends.stream_lost(logstore)
        logstore.exchange = None

    def exchange_response(self, node_id: int, response: ExchangeResponse, now_ms: int) -> None:
        self.now_ms = now_ms
        logstore = self.logstores.ensure(node_id)
        answered = self.appends.answered
        for result in response.append_results:
            answered(logstore, result)
        for offset_answer in response.offset_answers:
            self.queries.offset_answered(logstore, offset_answer)
        for state_answer in response.state_answers:
            self.queries.state_answered(logstore, state_answer)
        if response.credit is not None:
            logstore.exchange_credit.grant(response.credit)
            self.queries.credit_granted(logstore)
            self.appends.credit_granted(logstore)

    def read_up(self, node_id: int, now_ms: int) -> None:
        self.now_ms = now_ms
        self.logstores.ensure(node_id).read_is_up = True

    def read_down(self, node_id: int, now_ms: int) -> None:
        self.now_ms = now_ms
        logstore = self.logstores.ensure(node_id)
        logstore.read_is_up = False
        logstore.read_credit.reset()
        self.reads.stream_lost(logstore)

    def read_response(self, node_id: int, response: ReadResponse, now_ms: int) -> None:
        self.now_ms = now_ms
        logstore = self.logstores.ensure(node_id)
        for piece in response.pieces:
            self.reads.piece_received(logstore, piece)
        if response.credit is not None:
            logstore.read_credit.grant(response.credit)
            self.reads.credit_granted(logstore)

    def purgatory_up(self, pod_id: str, now_ms: int) -> None:
        self.now_ms = now_ms
        self.parking.pod_up(pod_id)

    def purgatory_down(self, pod_id: str, now_ms: int) -> None:
        self.now_ms = now_ms
        self.parking.pod_down(pod_id)

    def park_response(self, pod_id: str, response: ParkResponse, now_ms: int) -> None:
        self.now_ms = now_ms
        self.parking.answered(pod_id, response)

    def metadata_updated(self, update: UpdateMetadata, now_ms: int) -> None:
        """After it returns, requests are answered by this revision."""
        self.now_ms = now_ms
        if self.image.apply(update):
            self.appends.reroute()
            self.controller.image_updated()

    def adopt_leader(self, topic_id: bytes, partition: int, leader: int, leader_epoch: int) -> None:
        """A logstore knows better than the image who leads."""
        if self.image.adopt_leader(topic_id, partition, leader, leader_epoch):
            self.appends.reroute()

    def controller_answered(self, call_id: int, answer: ControllerAnswer | None, now_ms: int) -> None:
        self.now_ms = now_ms
        self.controller.answered(call_id, answer)

    # --- time, and the end of a turn ---

    def expire(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.deadlines.expire(now_ms)
        if self.reads.has_waiting():
            self._close_stalled_reader()

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called at the latest, or None."""
        deadline_ms = self.deadlines.next_deadline_ms()
        if self.reads.has_waiting():
            check_ms = self.now_ms + self.config.stalled_reader_ms // 4
            return check_ms if deadline_ms is None else min(deadline_ms, check_ms)
        return deadline_ms

    def _close_stalled_reader(self) -> None:
        """Others wait for the memory of answers that a client does not take."""
        since_ms = self.now_ms - self.config.stalled_reader_ms
        stalled = [
            each for each in self._connections.values() if each.unsent_bytes and each.unsent_since_ms <= since_ms
        ]
        if stalled:
            connection = max(stalled, key=lambda each: each.unsent_bytes)
            unsent = {"unsent_bytes": connection.unsent_bytes}
            self._log(LogLevel.WARNING, "connection closed: its client takes no answers", connection, None, unsent)
            self.close(connection)

    def take_outputs(self) -> Outputs:
        """All effects since the last call; requests that waited for something that is now over start here."""
        self.reads.memory_freed()
        self._run()
        outputs = self._outputs
        for connection in self._writing:
            self._flush_outgoing(connection)
        self._writing.clear()
        outputs.exchanges = self.logstores.take_exchanges()
        outputs.reads = self.logstores.take_reads()
        outputs.parks = self.parking.take_requests()
        outputs.controller_calls = self.controller.calls
        self.controller.calls = []
        self._outputs = Outputs()
        return outputs

    def _flush_outgoing(self, connection: Connection) -> None:
        if connection.outgoing:
            self._outputs.writes.append((connection.connection_id, connection.outgoing))
            connection.outgoing = []

    def _log(
        self,
        level: LogLevel,
        event: str,
        connection: Connection,
        header: RequestHeader | None,
        fields: Mapping[str, str | int],
    ) -> None:
        context = connection.context
        described: dict[str, str | int] = {
            "connection_id": context.connection_id,
            "listener": context.listener,
            "peer": context.peer,
            "principal": context.principal,
        }
        if header is not None:
            described["api_key"] = header.api_key
            described["api_version"] = header.api_version
            described["correlation_id"] = header.correlation_id
            described["client_id"] = header.client_id or ""
        self._outputs.logs.append(Log(level, event, described | dict(fields)))


def _readable_header(frame: memoryview) -> RequestHeader | None:
    """What every header begins with, for the log line about one that is malformed further on."""
    if len(frame) < 8:
        return None
    api_key, version, correlation_id = (
        int.from_bytes(frame[start:end], "big", signed=True) for start, end in ((0, 2), (2, 4), (4, 8))
    )
    return RequestHeader(api_key, version, correlation_id, None)
