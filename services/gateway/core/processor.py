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
from services.gateway.core.backends.append_router import AppendRouter
from services.gateway.core.backends.controller_client import ControllerClient
from services.gateway.core.backends.coordinator_client import CoordinatorClient
from services.gateway.core.backends.fetch_memory import FetchMemory
from services.gateway.core.backends.group_routing import GroupRouting
from services.gateway.core.backends.logstore_admin_client import LogstoreAdminClient
from services.gateway.core.backends.logstores import Logstores
from services.gateway.core.backends.logstores_meter import LogstoresMeter
from services.gateway.core.backends.producer_ids import ProducerIds
from services.gateway.core.backends.purgatory_client import PurgatoryClient
from services.gateway.core.backends.query_router import QueryRouter
from services.gateway.core.backends.read_replicas import ReadReplicas
from services.gateway.core.backends.read_router import ReadRouter
from services.gateway.core.backends.record_format_converter import RecordFormatConverter
from services.gateway.core.connections.connections import Connections
from services.gateway.core.connections.dispatcher import RequestDispatcher
from services.gateway.core.connections.responder import Responder
from services.gateway.core.handlers import (
    SERVED_AFTER_A_WAIT,
    SERVED_ALONE,
    SERVED_BY_CONTROLLER,
    SERVED_BY_COORDINATORS,
    SERVED_BY_LOGSTORES,
    served_versions,
)
from services.gateway.core.handlers.api_00_produce import ProduceHandler
from services.gateway.core.handlers.api_01_fetch import FetchHandler
from services.gateway.core.handlers.api_02_list_offsets import ListOffsetsHandler
from services.gateway.core.handlers.api_10_find_coordinator import FindCoordinatorHandler
from services.gateway.core.handlers.api_22_init_producer_id import InitProducerIdHandler
from services.gateway.core.model.authorization import ANY_NODE
from services.gateway.core.model.cluster_view import ClusterView
from services.gateway.core.model.config import GatewayConfig
from services.gateway.core.model.deadlines import Clock, Deadlines
from services.gateway.core.model.log_lines import LogLineBuffer
from services.gateway.core.model.outputs import ControllerAnswer, Conversion, Outputs, Turn
from services.gateway.core.requests.fetch_sessions import FetchSessions
from services.gateway.core.requests.handler import Handler, RequestEnvironment
from services.gateway.core.requests.request_meter import RequestMeter
from services.gateway.core.timing.request_metrics import RequestMetrics, note_times


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
        self.turn = Turn()
        self.log_lines = LogLineBuffer(self.turn)
        self.deadlines = Deadlines()
        self.fetch_memory = FetchMemory(config.fetch_memory_bytes)
        self.fetch_sessions = FetchSessions(
            config.fetch_session_slots,
            config.fetch_session_partitions_max,
            config.fetch_session_eviction_ms,
            new_session_id,
        )
        self.metrics = RequestMetrics(config, self.log_lines, served_versions(), read_us, random_bytes)
        # What requests are put to.
        clock, turn = self.clock, self.turn
        self.logstores = Logstores()
        self.appends = AppendRouter(config, clock, self.deadlines, image, self.logstores)
        self.reads = ReadRouter(self.logstores, self.fetch_memory)
        self.read_replicas = ReadReplicas(config.address_policy, clock, image, self.reads.lanes)
        self.queries = QueryRouter(self.logstores)
        self.logstore_admin = LogstoreAdminClient(self.logstores, turn)
        self.purgatory = PurgatoryClient(clock, turn)
        self.converter = RecordFormatConverter(turn)
        self.controller = ControllerClient(image, turn)
        self.producer_ids = ProducerIds(config.gateway_id, self.controller)
        self.coordinators = CoordinatorClient(self.logstores)
        self.group_routing = GroupRouting(config, clock, image, self.controller)
        # Where they come from, and where their answers go.
        self.connections = Connections(
            config, clock, self.deadlines, self.fetch_memory, self.log_lines, self.metrics, turn
        )
        self.request_memory = self.connections.request_memory
        self.responder = Responder(
            self.connections, clock, self.deadlines, self.fetch_memory, self.log_lines, self.metrics
        )
        self.dispatcher = RequestDispatcher(
            self.connections, clock, self.metrics, self.responder, self._create_handlers()
        )
        self.request_meter = RequestMeter(self.metrics, self.connections, self.converter)
        self.measured: list[Measured] = [self.request_meter, LogstoresMeter(self.logstores, self.reads)]
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
        self.connections.open_connection(connection_id, listener, peer, node_id)

    def bytes_received(self, connection_id: int, data: bytes, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        connection = self.connections.find_connection(connection_id)
        if connection is not None:
            self.dispatcher.bytes_received(connection, data)

    def unsent_bytes(self, connection_id: int, unsent_bytes: int, now_ms: int) -> None:
        """How much of what was written to a connection the client has not taken; only changes need to be told."""
        self.clock.now_ms = now_ms
        connection = self.connections.find_connection(connection_id)
        if connection is not None:
            self.connections.unsent_bytes(connection, unsent_bytes)

    def connection_closed(self, connection_id: int, now_ms: int) -> None:
        """The client is gone, or the socket broke."""
        self.clock.now_ms = now_ms
        connection = self.connections.find_connection(connection_id)
        if connection is not None:
            self.connections.forget_connection(connection)

    def drain(self, now_ms: int) -> None:
        """Start no further request; each connection closes when its answers are out. Over when `is_drained`."""
        self.clock.now_ms = now_ms
        self.connections.drain_all()

    def is_drained(self) -> bool:
        return self.connections.is_drained()

    def holds_long_requests(self) -> bool:
        """Whether a request of many elements is served, or what one has left is still to be freed."""
        return bool(self.connections.long_requests) or self.connections.discarded.has_work()

    # --- logstores, purgatory, controller ---

    def exchange_up(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.logstores.ensure_logstore(node_id).exchange_is_up = True
        self.appends.routes_changed()

    def exchange_down(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        logstore = self.logstores.ensure_logstore(node_id)
        logstore.exchange_is_up = False
        logstore.exchange_credit.reset()
        self.queries.stream_lost(logstore)
        self.logstore_admin.stream_lost(node_id)
        self.appends.stream_lost(logstore)
        logstore.exchange = None

    def exchange_response(self, node_id: int, response: ExchangeResponse, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        logstore = self.logstores.ensure_logstore(node_id)
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
            if logstore.queries.waiting:
                self.queries.credit_granted(logstore)
            if logstore.appends.waiting:
                self.appends.credit_granted(logstore)

    def read_up(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.reads.stream_up(node_id)

    def read_down(self, node_id: int, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.reads.stream_lost(node_id)

    def read_response(self, node_id: int, response: ReadResponse, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.reads.response_received(node_id, response)

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
        if self.reads.waiting:
            self.connections.close_stalled_readers()
        if self.request_memory.waiting:
            self.connections.close_stalled_senders()

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called at the latest, or None."""
        has_work = self.connections.has_more() or self.appends.has_more() or self.cluster.has_new_leaders
        has_work = has_work or self.responder.steps.has_work()
        if has_work or self.turn.outputs.logs:
            return self.clock.now_ms
        deadlines_ms = [self.deadlines.next_deadline_ms(), self.logstores.gather_until_ms()]
        if self.coordinators.sending:
            deadlines_ms.append(self.coordinators.gather_until_ms())
        if self.reads.waiting or self.request_memory.waiting:
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
        if self.reads.waiting:
            self.reads.memory_freed()
        self.dispatcher.start_runnable()
        self.responder.steps.run_turn()
        self.connections.end_turn()
        outputs, self.turn.outputs = self.turn.outputs, Outputs()
        # What nothing was put into in this turn is not asked: most turns are for a few connections and one logstore.
        if self.logstores.sending:
            outputs.exchanges = self.logstores.take_messages(self.clock.now_ms)
        if self.reads.sending:
            outputs.reads = self.reads.take_messages()
        if self.coordinators.sending:
            outputs.coordinates = self.coordinators.take_messages(self.clock.now_ms)
        if self.metrics.sending:
            self.metrics.turn_taken()
        return outputs

    def turn_over(self) -> None:
        """The outputs have been carried out: what sockets have not taken of them, `unsent_bytes` has said."""
        if self.metrics.sending:
            self.metrics.turn_over()
