"""A processor of the gateway: client connections on one side, logstores, purgatory and the controller on the other.

Pure and synchronous. The host, a process of its own or the simulation, has this loop:

    processor = GatewayCore(config, new_session_id, read_us, random_bytes)
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
from barnabas.cluster.messages import UpdateMetadata
from barnabas.metrics.family import Measured
from barnabas_gateway.core.backends.append_router import AppendRouter
from barnabas_gateway.core.backends.controller_client import ControllerClient
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.backends.group_routing import GroupRouting
from barnabas_gateway.core.backends.logstore_admin_client import LogstoreAdminClient
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.backends.logstores_meter import LogstoresMeter
from barnabas_gateway.core.backends.producer_ids import ProducerIds
from barnabas_gateway.core.backends.purgatory_client import PurgatoryClient
from barnabas_gateway.core.backends.query_router import QueryRouter
from barnabas_gateway.core.backends.read_replicas import ReadReplicas
from barnabas_gateway.core.backends.read_router import ReadRouter
from barnabas_gateway.core.backends.record_format_converter import RecordFormatConverter
from barnabas_gateway.core.connections.connections import Connections
from barnabas_gateway.core.connections.dispatcher import RequestDispatcher
from barnabas_gateway.core.connections.request_memory import RequestMemory
from barnabas_gateway.core.connections.responder import Responder
from barnabas_gateway.core.handlers import (
    SERVED_AFTER_A_WAIT,
    SERVED_ALONE,
    SERVED_BY_CONTROLLER,
    SERVED_BY_COORDINATORS,
    SERVED_BY_LOGSTORES,
    served_versions,
)
from barnabas_gateway.core.handlers.api_00_produce import ProduceHandler
from barnabas_gateway.core.handlers.api_01_fetch import FetchHandler
from barnabas_gateway.core.handlers.api_02_list_offsets import ListOffsetsHandler
from barnabas_gateway.core.handlers.api_10_find_coordinator import FindCoordinatorHandler
from barnabas_gateway.core.handlers.api_22_init_producer_id import InitProducerIdHandler
from barnabas_gateway.core.model.authorization import ANY_NODE
from barnabas_gateway.core.model.cluster_view import ClusterView
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import ControllerAnswer, Conversion, Outputs
from barnabas_gateway.core.requests.fetch_sessions import FetchSessions
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment
from barnabas_gateway.core.requests.request_meter import RequestMeter
from barnabas_gateway.core.timing.request_metrics import RequestMetrics, note_times


class GatewayCore:
    """The composition root of the core, and its one way in: the methods are for the host.

    Each part is given what it needs when it is made. The attributes are for tests and for the host's metrics.
    """

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
        self.clock = Clock()
        self.cluster = ClusterView(config)
        self.image = image = self.cluster.image
        self.log_lines = LogLineBuffer()
        self.deadlines = Deadlines()
        self.request_memory = RequestMemory(config.queued_request_bytes_max)
        self.fetch_memory = FetchMemory(config.fetch_memory_bytes)
        self.fetch_sessions = FetchSessions(
            config.fetch_session_slots,
            config.fetch_session_partitions_max,
            config.fetch_session_eviction_ms,
            new_session_id,
        )
        self.metrics = RequestMetrics(config, self.log_lines, served_versions(), read_us, random_bytes)
        # What requests are put to.
        clock = self.clock
        self.logstores = Logstores()
        self.appends = AppendRouter(config, clock, self.deadlines, image, self.logstores)
        self.reads = ReadRouter(self.logstores, self.fetch_memory)
        self.read_replicas = ReadReplicas(config.address_policy, clock, image, self.logstores)
        self.queries = QueryRouter(self.logstores)
        self.logstore_admin = LogstoreAdminClient(self.logstores)
        self.purgatory = PurgatoryClient(clock)
        self.converter = RecordFormatConverter()
        self.controller = ControllerClient(image)
        self.producer_ids = ProducerIds(config.gateway_id, self.controller)
        self.coordinators = CoordinatorClient(self.logstores)
        self.group_routing = GroupRouting(config, clock, image, self.controller)
        # Where they come from, and where their answers go.
        self.connections = Connections(
            config, clock, self.deadlines, self.request_memory, self.fetch_memory, self.log_lines, self.metrics
        )
        self.responder = Responder(
            self.connections,
            clock,
            self.deadlines,
            self.request_memory,
            self.fetch_memory,
            self.log_lines,
            self.metrics,
        )
        self.dispatcher = RequestDispatcher(
            self.connections, clock, self.request_memory, self.metrics, self.responder, self._create_handlers()
        )
        self.request_meter = RequestMeter(self.metrics, self.connections, self.converter)
        self.measured: list[Measured] = [self.request_meter, LogstoresMeter(self.logstores)]
        """What has something to report; the host asks them at a scrape."""

    def _create_handlers(self) -> dict[int, Handler]:
        """Return a handler for each API key that is served, with what it needs."""
        environment = RequestEnvironment(self.config, self.clock, self.cluster, self.deadlines, self.responder)
        controller, logstore_admin = self.controller, self.logstore_admin
        coordinators, group_routing, purgatory = self.coordinators, self.group_routing, self.purgatory
        handlers: list[Handler] = [
            ProduceHandler(environment, self.appends, self.queries, purgatory, self.converter),
            FetchHandler(environment, self.reads, self.read_replicas, self.fetch_sessions, purgatory, self.converter),
            ListOffsetsHandler(environment, self.queries),
            FindCoordinatorHandler(environment, group_routing),
            InitProducerIdHandler(environment, self.producer_ids),
            *(serving(environment) for serving in SERVED_ALONE),
            *(serving(environment, controller) for serving in SERVED_BY_CONTROLLER),
            *(serving(environment, logstore_admin) for serving in SERVED_BY_LOGSTORES),
            *(serving(environment, coordinators, group_routing) for serving in SERVED_BY_COORDINATORS),
            *(serving(environment, coordinators, group_routing, purgatory) for serving in SERVED_AFTER_A_WAIT),
        ]
        return {handler.api_key: handler for handler in handlers}

    # --- connections ---

    def connection_opened(
        self, connection_id: int, listener: str, peer: str, now_ms: int, node_id: int = ANY_NODE
    ) -> None:
        """`node_id` is the broker whose own port was connected to, if it was one."""
        self.clock.now_ms = now_ms
        self.connections.open(connection_id, listener, peer, node_id)

    def bytes_received(self, connection_id: int, data: bytes, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        connection = self.connections.get(connection_id)
        if connection is not None:
            self.dispatcher.bytes_received(connection, data)

    def unsent_bytes(self, connection_id: int, unsent_bytes: int, now_ms: int) -> None:
        """How much of what was written to a connection the client has not taken; only changes need to be told."""
        self.clock.now_ms = now_ms
        connection = self.connections.get(connection_id)
        if connection is not None:
            self.connections.unsent_bytes(connection, unsent_bytes)

    def connection_closed(self, connection_id: int, now_ms: int) -> None:
        """The client is gone, or the socket broke."""
        self.clock.now_ms = now_ms
        connection = self.connections.get(connection_id)
        if connection is not None:
            self.connections.forget(connection)

    def drain(self, now_ms: int) -> None:
        """Start no further request; each connection closes when its answers are out. Over when `is_drained`."""
        self.clock.now_ms = now_ms
        self.connections.drain()

    def is_drained(self) -> bool:
        return self.connections.is_drained()

    # --- logstores, purgatory, controller ---

    def exchange_up(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.logstores.ensure(node_id).exchange_is_up = True
        self.appends.routes_changed()

    def exchange_down(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        logstore = self.logstores.ensure(node_id)
        logstore.exchange_is_up = False
        logstore.exchange_credit.reset()
        self.queries.stream_lost(logstore)
        self.logstore_admin.stream_lost(node_id)
        self.appends.stream_lost(logstore)
        logstore.exchange = None

    def exchange_response(self, node_id: int, response: ExchangeResponse, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        logstore = self.logstores.ensure(node_id)
        times = response.times
        noted = note_times(logstore.asked_on_exchange(times), logstore.answer_times) if times else ()
        result_received = self.appends.result_received
        for result in response.append_results:
            result_received(logstore, result)
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
        self.clock.now_ms = now_ms
        self.logstores.ensure(node_id).reads.is_up = True

    def read_down(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        lane = self.logstores.ensure(node_id).reads
        lane.is_up = False
        lane.credit.reset()
        self.reads.stream_lost(lane)

    def read_response(self, node_id: int, response: ReadResponse, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        lane = self.logstores.ensure(node_id).reads
        for times in response.times:
            self.reads.times_received(lane, times)
        for piece in response.pieces:
            self.reads.piece_received(lane, piece)
        if response.credit is not None:
            lane.credit.grant(response.credit)
            self.reads.credit_granted(lane)

    def coordinate_up(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.coordinators.stream_up(node_id)

    def coordinate_down(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.coordinators.stream_lost(node_id)

    def coordinate_response(self, node_id: int, response: CoordinateResponse, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.coordinators.response_received(node_id, response)

    def purgatory_up(self, pod_id: str, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.purgatory.pod_up(pod_id)

    def purgatory_down(self, pod_id: str, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.purgatory.pod_down(pod_id)

    def park_response(self, pod_id: str, response: ParkResponse, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.purgatory.response_received(pod_id, response)

    def metadata_updated(self, update: UpdateMetadata, now_ms: int) -> None:
        """After it returns, requests are answered by this revision."""
        self.clock.now_ms = now_ms
        if self.image.apply(update):
            self.appends.routes_changed()
            self.controller.image_updated()
            self.read_replicas.image_changed()

    def controller_answered(self, call_id: int, answer: ControllerAnswer | None, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.controller.call_answered(call_id, answer)

    def logstore_answered(self, call_id: int, answer: AdministrationResponse | None, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.logstore_admin.call_answered(call_id, answer)

    def converted(self, conversion: Conversion, elapsed_ms: float, now_ms: int) -> None:
        """It has run, in `elapsed_ms`."""
        self.clock.now_ms = now_ms
        conversion.ended(elapsed_ms)

    # --- time, and the end of a turn ---

    def expire(self, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.deadlines.expire(now_ms)
        if self.reads.has_waiting():
            self.connections.close_stalled_readers()
        if self.request_memory.has_waiting():
            self.connections.close_stalled_senders()

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called at the latest, or None."""
        has_work = self.connections.has_more() or self.appends.has_more() or self.cluster.has_new_leaders
        has_work = has_work or self.responder.steps.has_work()
        if has_work or self.log_lines.lines:
            return self.clock.now_ms
        deadlines_ms = [
            self.deadlines.next_deadline_ms(),
            self.logstores.gather_until_ms(),
            self.coordinators.gather_until_ms(),
        ]
        if self.reads.has_waiting() or self.request_memory.has_waiting():
            deadlines_ms.append(
                self.clock.now_ms + min(self.config.stalled_reader_ms, self.config.stalled_sender_ms) // 4
            )
        return min((each for each in deadlines_ms if each is not None), default=None)

    def take_outputs(self) -> Outputs:
        """All effects since the last call; requests that waited for something that is now over start here."""
        if self.cluster.has_new_leaders:
            self.cluster.has_new_leaders = False
            # Routers only collect what logstores say of leaders: what waits is routed here, outside of their loops.
            self.appends.routes_changed()
        self.appends.send_freed()
        self.reads.memory_freed()
        self.dispatcher.start_runnable()
        self.responder.steps.run()
        now_ms = self.clock.now_ms
        outputs = Outputs(
            self.log_lines.drain_lines(),
            self.logstores.take_exchanges(now_ms),
            self.logstores.take_reads(),
            self.coordinators.take_messages(now_ms),
            self.purgatory.take_requests(),
            self.controller.take_calls(),
            self.logstore_admin.take_calls(),
            self.logstore_admin.take_cancels(),
        )
        self.connections.drain_into(outputs)
        if self.metrics.sending:
            self.metrics.turn_taken()
        outputs.conversions = self.converter.drain_conversions()
        return outputs

    def turn_over(self) -> None:
        """The outputs have been carried out: what sockets have not taken of them, `unsent_bytes` has said."""
        if self.metrics.sending:
            self.metrics.turn_over()
