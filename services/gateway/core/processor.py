"""A processor of the gateway: client connections on one side, logstores, purgatory and the controller on the other.

Pure and synchronous. The host, a process of its own or the simulation, has this loop:

    processor = Processor(config, new_session_id, read_us, random_bytes)
    until processor.is_drained():
        wait for input, or for processor.next_deadline_ms()
        for each input since the last turn:
            processor.connection_opened(connection_id, listener, peer, now_ms, node_id)
            processor.bytes_received(connection_id, data, now_ms)
            processor.unsent_bytes(connection_id, bytes that the socket has not taken, now_ms)
            processor.connection_closed(connection_id, now_ms)
            processor.exchange_up / exchange_down / read_up / read_down(node_id, now_ms)
            processor.coordinate_up / coordinate_down(node_id, now_ms)
            processor.exchange_response / read_response / coordinate_response(node_id, message, now_ms)
            processor.purgatory_up / purgatory_down(pod_id, now_ms), processor.park_response(pod_id, message, now_ms)
            processor.metadata_updated(update, now_ms)
            processor.controller_answered(call_id, answer or None, now_ms)
            processor.converted(conversion, elapsed_ms, now_ms)
            processor.logstore_answered(call_id, answer or None, now_ms)
            processor.drain(now_ms)
        processor.expire(now_ms)
        carry out processor.take_outputs(), then processor.turn_over()

Nothing is called back: all effects are in the `Outputs` of the turn. `now_ms` is monotonic and never goes back.
Connection ids are the host's, and never used twice. Logstores and pods exist from their first `up`; credit comes with
the first message of a stream. A message whose meaning is broken raises MalformedMessage: the host closes that stream.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.channel.messages import CoordinateResponse, ExchangeResponse, ParkResponse, ReadResponse
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import UpdateMetadata
from barnabas.metrics.family import Measured
from services.gateway.core.addresses import BrokerAddress, broker_address
from services.gateway.core.administration import AdministrationRoom
from services.gateway.core.appends import AppendRouter
from services.gateway.core.authorization import ANY_NODE, RequestContext
from services.gateway.core.clients import ClientRoom
from services.gateway.core.config import GatewayConfig
from services.gateway.core.controller import ControllerRoom
from services.gateway.core.conversions import Conversion, ConversionRoom
from services.gateway.core.coordination import CoordinationRoom
from services.gateway.core.deadlines import Deadlines
from services.gateway.core.effects import ControllerAnswer, Outputs
from services.gateway.core.fetch_sessions import FetchSessions
from services.gateway.core.group_routing import GroupRouting
from services.gateway.core.journal import Journal
from services.gateway.core.logstores import Logstores
from services.gateway.core.logstores_meter import LogstoresMeter
from services.gateway.core.memory import FetchMemory, RequestMemory
from services.gateway.core.parking import ParkingRoom
from services.gateway.core.producer_ids import ProducerIds
from services.gateway.core.queries import QueryRouter
from services.gateway.core.read_replicas import ReadReplicas
from services.gateway.core.reads import ReadRouter
from services.gateway.core.request_metrics import RequestMetrics, note_times
from services.gateway.core.requests import RequestRoom


class Processor:
    """The rooms of the core, and the door to them. The attributes are for the rooms, the methods for the host."""

    def __init__(
        self,
        config: GatewayConfig,
        new_session_id: Callable[[], int],
        read_us: Callable[[], int],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`new_session_id` gives random numbers from 1 to 2^31 − 1, for fetch sessions.

        `read_us` is the time in µs, monotonic, and decides nothing: it is what requests are timed by. `random_bytes`
        gives so many, for the ids of traces.
        """
        self.config = config
        self.now_ms = 0
        """Of the present input."""
        self.image = ClusterImage()
        self.journal = Journal()
        self.deadlines = Deadlines()
        self.request_memory = RequestMemory(config.queued_request_bytes_max)
        self.fetch_memory = FetchMemory(config.fetch_memory_bytes)
        self.logstores = Logstores()
        self.metrics = RequestMetrics(self, read_us, random_bytes)
        self.clients = ClientRoom(self)
        self.requests = RequestRoom(self)
        self.appends = AppendRouter(self)
        self.reads = ReadRouter(self)
        self.read_replicas = ReadReplicas(self)
        self.queries = QueryRouter(self)
        self.coordination = CoordinationRoom(self.logstores)
        self.group_routing = GroupRouting(self)
        self.fetch_sessions = FetchSessions(
            config.fetch_session_slots,
            config.fetch_session_partitions_max,
            config.fetch_session_eviction_ms,
            new_session_id,
        )
        self.parking = ParkingRoom(self)
        self.controller = ControllerRoom(self)
        self.administration = AdministrationRoom(self)
        self.producer_ids = ProducerIds(self)
        self.conversions = ConversionRoom(self)
        self.measured: list[Measured] = [self.metrics, LogstoresMeter(self.logstores)]
        """The rooms that have something to report; the host asks them at a scrape."""

    # --- connections ---

    def connection_opened(
        self, connection_id: int, listener: str, peer: str, now_ms: int, node_id: int = ANY_NODE
    ) -> None:
        """`node_id` is the broker whose own port was connected to, if it was one."""
        self.now_ms = now_ms
        self.clients.opened(connection_id, listener, peer, node_id)

    def bytes_received(self, connection_id: int, data: bytes, now_ms: int) -> None:
        self.now_ms = now_ms
        connection = self.clients.get(connection_id)
        if connection is not None:
            self.clients.bytes_received(connection, data)

    def unsent_bytes(self, connection_id: int, unsent_bytes: int, now_ms: int) -> None:
        """How much of what was written to a connection the client has not taken; only changes need to be told."""
        self.now_ms = now_ms
        connection = self.clients.get(connection_id)
        if connection is not None:
            self.clients.unsent_bytes(connection, unsent_bytes)

    def connection_closed(self, connection_id: int, now_ms: int) -> None:
        """The client is gone, or the socket broke."""
        self.now_ms = now_ms
        connection = self.clients.get(connection_id)
        if connection is not None:
            self.clients.forget(connection)

    def drain(self, now_ms: int) -> None:
        """Start no further request; each connection closes when its answers are out. Over when `is_drained`."""
        self.now_ms = now_ms
        self.clients.drain()

    def is_drained(self) -> bool:
        return self.clients.is_drained()

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
        self.appends.routes_changed()

    def exchange_down(self, node_id: int, now_ms: int) -> None:
        self.now_ms = now_ms
        logstore = self.logstores.ensure(node_id)
        logstore.exchange_is_up = False
        logstore.exchange_credit.reset()
        self.queries.stream_lost(logstore)
        self.administration.stream_lost(node_id)
        self.appends.stream_lost(logstore)
        logstore.exchange = None

    def exchange_response(self, node_id: int, response: ExchangeResponse, now_ms: int) -> None:
        self.now_ms = now_ms
        logstore = self.logstores.ensure(node_id)
        times = response.times
        noted = note_times(logstore.asked_on_exchange(times), logstore.answer_times) if times else ()
        answered = self.appends.answered
        for result in response.append_results:
            answered(logstore, result)
        for offset_answer in response.offset_answers:
            self.queries.offset_answered(logstore, offset_answer)
        for state_answer in response.state_answers:
            self.queries.state_answered(logstore, state_answer)
        for timing in noted:
            timing.still_waits()
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
        for times in response.times:
            self.reads.took(logstore, times)
        for piece in response.pieces:
            self.reads.piece_received(logstore, piece)
        if response.credit is not None:
            logstore.read_credit.grant(response.credit)
            self.reads.credit_granted(logstore)

    def coordinate_up(self, node_id: int, now_ms: int) -> None:
        self.now_ms = now_ms
        self.coordination.up(node_id)

    def coordinate_down(self, node_id: int, now_ms: int) -> None:
        self.now_ms = now_ms
        self.coordination.down(node_id)

    def coordinate_response(self, node_id: int, response: CoordinateResponse, now_ms: int) -> None:
        self.now_ms = now_ms
        self.coordination.answered(node_id, response)

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
            self.appends.routes_changed()
            self.controller.image_updated()
            self.read_replicas.image_changed()

    def adopt_leader(self, topic_id: bytes, partition: int, leader: int, leader_epoch: int) -> None:
        """Believe a logstore that knows a later leader than the image; what waits is routed at the end of the turn."""
        if self.image.adopt_leader(topic_id, partition, leader, leader_epoch):
            self.appends.routes_changed()

    def controller_answered(self, call_id: int, answer: ControllerAnswer | None, now_ms: int) -> None:
        self.now_ms = now_ms
        self.controller.answered(call_id, answer)

    def logstore_answered(self, call_id: int, answer: AdministrationResponse | None, now_ms: int) -> None:
        self.now_ms = now_ms
        self.administration.answered(call_id, answer)

    def converted(self, conversion: Conversion, elapsed_ms: float, now_ms: int) -> None:
        """It has run, in `elapsed_ms`."""
        self.now_ms = now_ms
        self.conversions.done(conversion, elapsed_ms)

    # --- time, and the end of a turn ---

    def expire(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.deadlines.expire(now_ms)
        if self.reads.has_waiting():
            self.clients.close_stalled_readers()
        if self.request_memory.has_waiting():
            self.clients.close_stalled_senders()

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called at the latest, or None."""
        if self.clients.has_more() or self.appends.has_more() or self.journal.lines:
            return self.now_ms
        deadlines_ms = [
            self.deadlines.next_deadline_ms(),
            self.logstores.gather_until_ms(),
            self.coordination.gather_until_ms(),
        ]
        if self.reads.has_waiting() or self.request_memory.has_waiting():
            deadlines_ms.append(self.now_ms + min(self.config.stalled_reader_ms, self.config.stalled_sender_ms) // 4)
        return min((each for each in deadlines_ms if each is not None), default=None)

    def take_outputs(self) -> Outputs:
        """All effects since the last call; requests that waited for something that is now over start here."""
        self.appends.go_on()
        self.reads.memory_freed()
        self.clients.run()
        outputs = Outputs(
            self.journal.take(),
            self.logstores.take_exchanges(self.now_ms),
            self.logstores.take_reads(),
            self.coordination.take_messages(self.now_ms),
            self.parking.take_requests(),
            self.controller.take_calls(),
            self.administration.take_calls(),
            self.administration.take_cancels(),
        )
        self.clients.take(outputs)
        if self.metrics.sending:
            self.metrics.turn_taken()
        outputs.conversions = self.conversions.take()
        return outputs

    def turn_over(self) -> None:
        """The outputs have been carried out: what sockets have not taken of them, `unsent_bytes` has said."""
        if self.metrics.sending:
            self.metrics.turn_over()
