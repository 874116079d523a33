"""GatewayDriver: the core between its clients' sockets, its streams, its acceptor and the clock.

Input is passed to the core as it arrives; output is sent once per turn of the event loop, so that everything that
arrived together leaves together, and nothing waits when the loop is idle.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import TypeVar

import msgspec

from barnabas.channel.messages import CoordinateResponse, ExchangeResponse, ParkResponse, ReadResponse
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.messages import UpdateMetadata
from barnabas.containment import Uncontained
from barnabas.metrics.connection_families import AUTHENTICATIONS, TLS_HANDSHAKES_FAILED, UNAUTHENTICATED
from barnabas.metrics.family import Measured, Sample
from barnabas.metrics.request_families import PROCESSOR_IDLE, REQUEST_QUEUE_SIZE, RESPONSE_QUEUE_SIZE
from barnabas.metrics.snapshot import pack
from barnabas.runtime.clock import monotonic_ms, monotonic_us, wall_ms
from barnabas.runtime.collector import COLLECTOR
from barnabas.runtime.compression import CODECS
from barnabas.runtime.contained import CONTAINED, SCRAPE, log_contained
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.event_loop import loop_waited_ns
from barnabas.runtime.loop.idle import IdlePart
from barnabas.runtime.loop.input_selector import TurnScheduler
from barnabas.runtime.metrics.process_metrics import measures_of_process
from barnabas.runtime.patterns import compile_pattern
from barnabas.runtime.processes.contained_counts import ContainedCounts
from barnabas.runtime.processes.messages import MessageSocket
from barnabas.runtime.tracing.traces import trace_exporter
from barnabas_gateway.core.model.containment import CONNECTION, MESSAGE
from barnabas_gateway.core.model.outputs import (
    Conversion,
    Log,
    LogLevel,
    Outputs,
    PatternMatching,
    RareOutputs,
    TokenCheck,
    Trace,
)
from barnabas_gateway.core.model.principal_mapping import principal_of
from barnabas_gateway.core.model.request_context import ANONYMOUS
from barnabas_gateway.core.processor import GatewayCore
from barnabas_gateway.shell import processor_ipc
from barnabas_gateway.shell.client_socket import ClientSocket
from barnabas_gateway.shell.kerberos.acceptors import KerberosAcceptors
from barnabas_gateway.shell.links import Links
from barnabas_gateway.shell.listener_security import kerberos_configs, oauth_configs, tls_configs
from barnabas_gateway.shell.metadata_reader import MetadataReader
from barnabas_gateway.shell.oauth.listener_tokens import ListenerTokens
from barnabas_gateway.shell.spans import spans_of
from barnabas_gateway.shell.tls.listener_contexts import ListenerContexts
from barnabas_gateway.shell.tls.tls_socket import HandshakeQueue, TlsSocket
from barnabas_gateway.shell.worker import Worker

_log = get_logger("gateway.processor")

Peer = TypeVar("Peer", int, str)
Message = TypeVar("Message")


class GatewayDriver:
    """Everything of one processor runs on one event loop; only the reading of large metadata awaits."""

    def __init__(self, settings: processor_ipc.ProcessorSettings, acceptor: MessageSocket) -> None:
        properties = settings.properties
        core_config = properties.core_config(settings.bound_ports, settings.settings)
        securities = properties.security()
        self._tokens = ListenerTokens(oauth_configs(securities), wall_ms)
        acceptors = KerberosAcceptors(kerberos_configs(securities), wall_ms)
        self._core = GatewayCore(
            core_config,
            _new_session_id,
            monotonic_us,
            secrets.token_bytes,
            wall_ms,
            self._tokens.validate,
            acceptors.begin,
        )
        self._acceptor = acceptor
        contained = self._core.log_lines.contained
        self._contained_counts = ContainedCounts(acceptor, contained.counts_by_name)
        self._loop = asyncio.get_running_loop()
        self._sockets: dict[int, ClientSocket | TlsSocket] = {}
        self._handshaking: dict[int, tuple[processor_ipc.Accepted, TlsSocket]] = {}
        """Connections that the core does not know yet."""
        self._handshakes = HandshakeQueue()
        self._handshakes_failed: Counter[str] = Counter()
        """By listener."""
        self._contexts = ListenerContexts(tls_configs(securities))
        self._handshake_ms_max = core_config.authentication_ms_max
        self._closed_ids: list[int] = []
        self._schedule_turn = TurnScheduler(self._turn).request
        self._metadata = MetadataReader(self._apply_metadata, self._schedule_turn, self._metadata_failed)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.links = Links(f"{properties.gateway_id}/{settings.index}", self)
        self._conversions = Worker[Conversion]("conversions", lambda each: each.run(CODECS), self._converted)
        self._token_checks = Worker[TokenCheck]("tokens", lambda each: each.run(), self._token_checked)
        self._pattern_matchings = Worker[PatternMatching](
            "patterns", lambda each: each.run(compile_pattern), self._pattern_matched
        )
        self.drained = asyncio.Event()
        self.failure: asyncio.Future[None] = self._loop.create_future()
        """Gets the exception of a turn, or of a metadata update that was not applied. The processor must end then:
        later updates assume that one, and its successor gets the whole image.
        """
        self._index = str(settings.index)
        self._traces = trace_exporter(
            properties.traces_otlp_endpoint, "gateway", f"{properties.gateway_id}/{self._index}"
        )
        self._measured: list[Measured] = [
            *measures_of_process(f"processor-{self._index}"),
            *self._core.measured,
            IdlePart(PROCESSOR_IDLE, self._index, loop_waited_ns, monotonic_ns),
            self,
        ]

    # --- the acceptor ------------------------------------------------------------------------------------------------

    def acceptor_message(self, kind: bytes, payload: bytes, fds: list[int]) -> None:
        try:
            self._take_message(kind, payload, fds)
        except Exception as error:
            self._fail("a message of the acceptor was not handled", error)

    def _take_message(self, kind: bytes, payload: bytes, fds: list[int]) -> None:
        match kind:
            case processor_ipc.CONNECTION:
                self._adopt(msgspec.json.decode(payload, type=processor_ipc.Accepted), fds)
            case processor_ipc.METADATA:
                self._metadata.take(payload)
            case processor_ipc.ANSWER:
                call_id, answer = processor_ipc.decode_answer(payload)
                self._core.controller_answered(call_id, answer, monotonic_ms())
            case processor_ipc.METRICS:
                self._tell_metrics()
            case processor_ipc.QUOTAS:
                self._core.quota_shares(processor_ipc.decode_shares(payload), monotonic_ms())
            case processor_ipc.PROCESSORS:
                self._core.processors_changed(int(payload), monotonic_ms())
            case processor_ipc.OPERATOR_CALLS:
                for call in processor_ipc.decode_operator_calls(payload):
                    self._core.audit_topic.add_operator_call(call)
            case processor_ipc.DRAIN:
                for _, client in self._handshaking.values():
                    client.abort()
                self._closed_ids += self._handshaking
                self._handshaking.clear()
                self._core.drain(monotonic_ms())
                self._loop.call_later(processor_ipc.DRAIN_GRACE_MS / 1000, self.drained.set)
            case _:
                _log.error("an unknown message from the acceptor", kind=kind)
        self._schedule_turn()

    def _metadata_failed(self, error: BaseException) -> None:
        self._fail("a metadata update was not applied", error)

    def _fail(self, what: str, error: BaseException) -> None:
        if not self.failure.done():
            _log.error("this processor ends", reason=what, error=repr(error), exc_info=error)
            self.failure.set_exception(error)

    def _apply_metadata(self, update: UpdateMetadata) -> None:
        self._core.metadata_updated(update, monotonic_ms())
        self.links.follow(self._core.image)
        self._acceptor.send(processor_ipc.APPLIED, processor_ipc.encode_revision(self._core.image.revision))

    def _adopt(self, accepted: processor_ipc.Accepted, fds: list[int]) -> None:
        connection_id = accepted.connection_id
        if not fds:
            self._closed_ids.append(connection_id)
            return
        client = socket.socket(fileno=fds[0])
        context = self._contexts.context_of(accepted.listener)
        if context is not None:
            tls = TlsSocket(connection_id, client, context, self, self._handshakes, self._handshake_ms_max)
            self._handshaking[connection_id] = accepted, tls
            return
        listener, peer, node_id = accepted.listener, accepted.peer, accepted.node_id
        self._core.connection_opened(connection_id, listener, peer, monotonic_ms(), node_id)
        self._sockets[connection_id] = ClientSocket(connection_id, client, self)

    def handshake_done(self, connection_id: int, tls: ssl.SSLObject) -> None:
        """The client of a TLS listener is one, and has proven its certificate if it has sent one."""
        accepted, client = self._handshaking.pop(connection_id)
        listener, peer, node_id = accepted.listener, accepted.peer, accepted.node_id
        try:
            principal = principal_of(tls.getpeercert(), self._contexts.rules_of(listener))
        except Exception as error:
            self._core.log_lines.contained.contain(CONNECTION, error, {"listener": listener, "peer": peer})
            principal = None
        if principal is None:
            self._log_refused(accepted, "no rule of ssl.principal.mapping.rules matches its certificate")
            client.abort()
            self._closed_ids.append(connection_id)
            self._schedule_turn()
            return
        if principal != ANONYMOUS:
            fields = {"listener": listener, "peer": peer, "principal": str(principal), "mechanism": "TLS"}
            _log.info("authenticated", **fields)
            self._core.audit_topic.add_record("authenticated", fields)
        self._core.connection_opened(connection_id, listener, peer, monotonic_ms(), node_id, principal)
        self._sockets[connection_id] = client

    def handshake_failed(self, connection_id: int, reason: str) -> None:
        accepted, _ = self._handshaking.pop(connection_id)
        if reason:
            self._log_refused(accepted, reason)
        self._closed_ids.append(connection_id)
        self._schedule_turn()

    def _log_refused(self, accepted: processor_ipc.Accepted, reason: str) -> None:
        self._handshakes_failed[accepted.listener] += 1
        limit_key = f"TLS handshake failed: {accepted.peer.rpartition(':')[0]} {accepted.listener} {reason}"
        fields = {"listener": accepted.listener, "peer": accepted.peer, "reason": reason}
        _log.warning("TLS handshake failed", limit_key=limit_key, **fields)
        self._core.audit_topic.add_record("TLS handshake failed", fields)

    # --- sockets -----------------------------------------------------------------------------------------------------

    def bytes_received(self, connection_id: int, data: bytes) -> None:
        self._core.bytes_received(connection_id, data, monotonic_ms())
        self._schedule_turn()

    def unsent_changed(self, connection_id: int, unsent_bytes: int) -> None:
        self._core.unsent_bytes(connection_id, unsent_bytes, monotonic_ms())
        self._schedule_turn()

    def range_cut(self, connection_id: int) -> None:
        self._core.range_cut(connection_id, monotonic_ms())

    def socket_lost(self, connection_id: int) -> None:
        try:
            self._core.connection_closed(connection_id, monotonic_ms())
        except Exception as error:
            self._fail("a connection was not forgotten", error)
        del self._sockets[connection_id]
        self._closed_ids.append(connection_id)
        self._schedule_turn()

    # --- streams -----------------------------------------------------------------------------------------------------

    def exchange_up(self, node_id: int) -> None:
        self._core.exchange_up(node_id, monotonic_ms())
        self._schedule_turn()

    def exchange_response(self, node_id: int, response: ExchangeResponse) -> None:
        self._take(self._core.exchange_response, node_id, response)

    def exchange_down(self, node_id: int) -> None:
        self._lose(self._core.exchange_down, node_id)

    def read_up(self, node_id: int, *, accepts_ranges: bool) -> None:
        self._core.read_up(node_id, monotonic_ms(), accepts_ranges=accepts_ranges)
        self._schedule_turn()

    def read_response(self, node_id: int, response: ReadResponse) -> None:
        self._take(self._core.read_response, node_id, response)

    def read_down(self, node_id: int) -> None:
        self._lose(self._core.read_down, node_id)

    def coordinate_up(self, node_id: int) -> None:
        self._core.coordinate_up(node_id, monotonic_ms())
        self._schedule_turn()

    def coordinate_response(self, node_id: int, response: CoordinateResponse) -> None:
        self._take(self._core.coordinate_response, node_id, response)

    def coordinate_down(self, node_id: int) -> None:
        self._lose(self._core.coordinate_down, node_id)

    def logstore_answered(self, call_id: int, answer: AdministrationResponse | None) -> None:
        try:
            self._core.logstore_answered(call_id, answer, monotonic_ms())
        except Exception as error:
            self._fail("an answer of a logstore was not handled", error)
        self._schedule_turn()

    def purgatory_up(self, pod_id: str) -> None:
        self._core.purgatory_up(pod_id, monotonic_ms())
        self._schedule_turn()

    def park_response(self, pod_id: str, response: ParkResponse) -> None:
        self._take(self._core.park_response, pod_id, response)

    def purgatory_down(self, pod_id: str) -> None:
        self._lose(self._core.purgatory_down, pod_id)

    def _converted(self, conversion: Conversion, elapsed_ms: float) -> None:
        self._core.converted(conversion, elapsed_ms, monotonic_ms())
        self._schedule_turn()

    def _token_checked(self, check: TokenCheck, _elapsed_ms: float) -> None:
        if check.fault:
            _log.error("internal error: a token was not checked", error=check.fault)
        self._core.token_checked(check, monotonic_ms())
        self._schedule_turn()

    def _pattern_matched(self, matching: PatternMatching, _elapsed_ms: float) -> None:
        self._core.pattern_matched(matching, monotonic_ms())
        self._schedule_turn()

    def _take(self, core_takes: Callable[[Peer, Message, int], None], peer: Peer, message: Message) -> None:
        """Pass a message to the core. One that is not handled has its stream closed, by MalformedMessage."""
        try:
            core_takes(peer, message, monotonic_ms())
        except MalformedMessage:
            raise
        except Exception as error:
            self._core.log_lines.contained.contain(MESSAGE, error, {"peer": str(peer)})
            raise MalformedMessage("an internal error") from error
        finally:
            self._schedule_turn()

    def _lose(self, core_loses: Callable[[Peer, int], None], peer: Peer) -> None:
        try:
            core_loses(peer, monotonic_ms())
        except Exception as error:
            self._fail("the end of a stream was not handled", error)
        self._schedule_turn()

    # --- turns -------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """A turn that fails is the last one: what connections and streams share can't be trusted any more."""
        try:
            self._take_turn()
        except (Exception, Uncontained) as error:
            self._fail("a turn failed", error)

    def _take_turn(self) -> None:
        now_ms = monotonic_ms()
        self._core.expire(now_ms)
        self._carry_out(self._core.take_outputs())
        self._core.turn_over()
        COLLECTOR.postpone(while_held=self._core.holds_long_requests())
        if self._core.metrics.traces:
            self._tell_traces()
        self._set_timer(now_ms)
        if self._core.is_drained():
            self.drained.set()

    def _carry_out(self, outputs: Outputs) -> None:
        for line in outputs.logs:
            _write_log(line)
        for node_id, exchange in outputs.exchanges:
            self.links.send_exchange(node_id, exchange)
        for node_id, read in outputs.reads:
            self.links.send_read(node_id, read)
        for node_id, coordinate in outputs.coordinates:
            self.links.send_coordinate(node_id, coordinate)
        for pod_id, park in outputs.parks.items():
            self.links.send_park(pod_id, park)
        sockets = self._sockets
        for connection_id, buffers in outputs.writes:
            client = sockets.get(connection_id)
            if client is not None:
                client.write(buffers)
                if client.unsent_bytes:
                    self.unsent_changed(connection_id, client.unsent_bytes)
        if outputs.rare is not None:
            self._carry_out_rare(outputs.rare)
        if self._closed_ids:
            self._acceptor.send(processor_ipc.CLOSED, processor_ipc.encode_ids(self._closed_ids))
            self._closed_ids = []

    def _carry_out_rare(self, rare: RareOutputs) -> None:
        for call in rare.controller_calls:
            self._acceptor.send(
                processor_ipc.CALL, processor_ipc.encode_call(call.call_id, call.request, _context(call.trace))
            )
        for logstore_call in rare.logstore_calls:
            self.links.send_call(logstore_call)
        for call_id in rare.logstore_cancels:
            self.links.cancel_call(call_id)
        sockets = self._sockets
        for connection_id in rare.closes:
            client = sockets.pop(connection_id, None)
            if client is not None:
                client.close()
                self._closed_ids.append(connection_id)
        for connection_id in rare.aborts:
            client = sockets.pop(connection_id, None)
            if client is not None:
                client.abort()
                self._closed_ids.append(connection_id)
        for connection_id in rare.pauses:
            if connection_id in sockets:
                sockets[connection_id].pause()
        for connection_id in rare.resumes:
            if connection_id in sockets:
                sockets[connection_id].resume()
        if rare.quota_uses:
            self._acceptor.send(processor_ipc.QUOTAS, processor_ipc.encode_uses(rare.quota_uses))
        if rare.contained:
            log_contained(rare.contained)
            self._contained_counts.tell()
        for conversion in rare.conversions:
            self._conversions.submit(conversion)
        for check in rare.token_checks:
            self._token_checks.submit(check)
        for matching in rare.pattern_matchings:
            self._pattern_matchings.submit(matching)

    def _set_timer(self, now_ms: int) -> None:
        """An early timer is harmless, so one that is set is only ever replaced by an earlier one."""
        deadline_ms = self._core.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_later(max(0, deadline_ms - now_ms) / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._schedule_turn()

    def _tell_traces(self) -> None:
        traced = self._core.metrics.take_traces()
        if self._traces is not None:
            self._traces.export([span for timing in traced for span in spans_of(timing)])

    def samples(self) -> Iterator[Sample]:
        """Return the samples of requests and responses in this processor."""
        connections = self._core.connections
        yield Sample(REQUEST_QUEUE_SIZE, (self._index,), connections.queued_requests())
        yield Sample(RESPONSE_QUEUE_SIZE, (self._index,), connections.queued_responses())
        yield Sample(UNAUTHENTICATED, (), len(connections.unauthenticated) + len(self._handshaking))
        for listener, count in self._handshakes_failed.items():
            yield Sample(TLS_HANDSHAKES_FAILED, (listener,), count)
        for (listener, mechanism, outcome), count in self._core.authentications.counts.items():
            yield Sample(AUTHENTICATIONS, (listener, mechanism, outcome.value), count)

    def _tell_metrics(self) -> None:
        try:
            snapshot = pack([sample for part in self._measured for sample in part.samples()])
        except Exception as error:
            CONTAINED.contain(SCRAPE, error)
            return
        self._acceptor.send(processor_ipc.METRICS, snapshot)

    def close(self) -> None:
        """Close what is left, without waiting for clients, after reporting the metrics."""
        self._tell_metrics()
        self._conversions.stop()
        self._token_checks.stop()
        self._pattern_matchings.stop()
        self._metadata.stop()
        if self._traces is not None:
            self._traces.close()
        self._contexts.stop()
        self._tokens.stop()
        for client in (*self._sockets.values(), *(each for _, each in self._handshaking.values())):
            client.abort()


def _context(trace: Trace | None) -> bytes:
    return b"" if trace is None else trace.trace_id + trace.span_id


def _new_session_id() -> int:
    """A random number that can't be guessed: a client that knows a fetch session's number can disturb it."""
    return secrets.randbelow(0x7FFF_FFFF) + 1


def _write_log(line: Log) -> None:
    match line.level:
        case LogLevel.INFO:
            _log.info(line.event, **line.fields)
        case LogLevel.WARNING:
            _log.warning(line.event, **line.fields)
        case LogLevel.ERROR:
            _log.error(line.event, **line.fields)
