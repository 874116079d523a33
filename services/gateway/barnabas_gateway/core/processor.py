"""A processor of the gateway: client connections on one side, logstores, purgatory and the controller on the other.

Pure and synchronous. The host, a process of its own or the simulation, has this loop:

    processor = GatewayCore(config, new_session_id, read_us, random_bytes, wall_ms)
    until processor.is_drained():
        wait for input, or for processor.next_deadline_ms()
        for each input since the last turn:
            processor.connection_opened(connection_id, listener, peer, now_ms, node_id, principal)
            processor.bytes_received(connection_id, data, now_ms)
            processor.unsent_bytes(connection_id, bytes that the socket has not taken, now_ms)
            processor.connection_closed(connection_id, now_ms)
            processor.exchange_up / exchange_down / read_up / read_down(node_id, now_ms)
            processor.coordinate_up / coordinate_down(node_id, now_ms)
            processor.exchange_response / read_response / coordinate_response(node_id, message, now_ms)
            processor.purgatory_up / purgatory_down(pod_id, now_ms), processor.park_response(pod_id, message, now_ms)
            processor.metadata_updated(update, now_ms)
            processor.controller_answered(call_id, answer or None, now_ms)
            processor.quota_shares(shares, now_ms), processor.processors_changed(processors, now_ms)
            processor.converted(conversion, elapsed_ms, now_ms), processor.token_checked(check, now_ms)
            processor.logstore_answered(call_id, answer or None, now_ms)
            processor.pattern_matched(matching, now_ms)
            processor.drain(now_ms)
        processor.expire(now_ms)
        carry out processor.take_outputs(), then processor.turn_over()

Nothing is called back: all effects are in the `Outputs` of the turn. `now_ms` is monotonic and never goes back.
Connection ids are chosen by the host and never reused. Logstores and pods exist from their first `up`; credit comes
with the first message of a stream. A semantically invalid message raises MalformedMessage: the host closes that stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.channel.messages import CoordinateResponse, ExchangeResponse, ParkResponse, ReadResponse
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.cluster.messages import UpdateMetadata
from barnabas.cluster.quotas.shares import QuotaId
from barnabas.metrics.family import Measured
from barnabas_gateway.core.backends.append_router import AppendRouter
from barnabas_gateway.core.backends.controller_client import ControllerClient
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.backends.group_routing import GroupRouting
from barnabas_gateway.core.backends.logstore_admin_client import LogstoreAdminClient
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.backends.logstores_meter import LogstoresMeter
from barnabas_gateway.core.backends.pattern_matcher import PatternMatcher
from barnabas_gateway.core.backends.producer_ids import ProducerIds
from barnabas_gateway.core.backends.purgatory_client import PurgatoryClient
from barnabas_gateway.core.backends.query_router import QueryRouter
from barnabas_gateway.core.backends.read_replicas import ReadReplicas
from barnabas_gateway.core.backends.read_router import ReadRouter
from barnabas_gateway.core.backends.record_format_converter import RecordFormatConverter
from barnabas_gateway.core.backends.transaction_verifier import TransactionVerifier
from barnabas_gateway.core.connections.connections import Connections
from barnabas_gateway.core.connections.dispatcher import RequestDispatcher
from barnabas_gateway.core.connections.responder import Responder
from barnabas_gateway.core.handlers import (
    SERVED_AFTER_A_WAIT,
    SERVED_ALONE,
    SERVED_BY_CONTROLLER,
    SERVED_BY_COORDINATORS,
    SERVED_BY_LOGSTORES,
    SERVED_FOR_TOKENS,
    SERVED_FOR_TRANSACTIONS,
    served_versions,
)
from barnabas_gateway.core.handlers.api_00_produce import ProduceHandler
from barnabas_gateway.core.handlers.api_01_fetch import FetchHandler
from barnabas_gateway.core.handlers.api_02_list_offsets import ListOffsetsHandler
from barnabas_gateway.core.handlers.api_10_find_coordinator import FindCoordinatorHandler
from barnabas_gateway.core.handlers.api_22_init_producer_id import InitProducerIdHandler
from barnabas_gateway.core.handlers.api_25_add_offsets_to_txn import AddOffsetsToTxnHandler
from barnabas_gateway.core.handlers.api_28_txn_offset_commit import TxnOffsetCommitHandler
from barnabas_gateway.core.handlers.api_44_incremental_alter_configs import IncrementalAlterConfigsHandler
from barnabas_gateway.core.handlers.api_66_list_transactions import ListTransactionsHandler
from barnabas_gateway.core.model.audit import Audit
from barnabas_gateway.core.model.authorizer import Authorizer
from barnabas_gateway.core.model.client_quotas import ClientQuotas
from barnabas_gateway.core.model.cluster_view import ClusterView
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.containment import AUDIT, QUOTAS
from barnabas_gateway.core.model.deadlines import Clock, Deadlines, earlier
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import (
    ControllerAnswer,
    Conversion,
    Outputs,
    PatternMatching,
    TokenCheck,
    Turn,
)
from barnabas_gateway.core.model.request_context import ANONYMOUS, ANY_NODE, Principal
from barnabas_gateway.core.requests.audit_topic import AuditProduceHandler, AuditTopic
from barnabas_gateway.core.requests.fetch_sessions import FetchSessions
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment
from barnabas_gateway.core.requests.request_meter import RequestMeter
from barnabas_gateway.core.requests.sasl_authentication import SaslAuthentications
from barnabas_gateway.core.sasl.delegation_tokens import DelegationTokens
from barnabas_gateway.core.sasl.gssapi import BeginContext, without_kerberos
from barnabas_gateway.core.sasl.oauthbearer import ValidateToken, refuse_all
from barnabas_gateway.core.sasl.sasl_servers import SaslServers
from barnabas_gateway.core.timing.request_metrics import RequestMetrics, note_times


class GatewayCore:
    """The composition root of the core and its only entry: the methods are for the host.

    Each part gets what it needs in its constructor. The attributes are for tests and for the host's metrics.
    """

    def __init__(
        self,
        config: GatewayConfig,
        new_session_id: Callable[[], int],
        read_us: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        wall_ms: Callable[[], int],
        validate_token: ValidateToken = refuse_all,
        begin_context: BeginContext = without_kerberos,
    ) -> None:
        """`new_session_id` returns random numbers from 1 to 2^31 − 1, for fetch sessions.

        `read_us` returns the time in µs, monotonic, and decides nothing: requests are timed by it. `random_bytes`
        returns that many that can't be predicted, for the ids of traces and for nonces. `wall_ms` is the clock by which
        tokens expire; `validate_token` verifies those of OAUTHBEARER, `begin_context` begins to accept those of GSSAPI.
        """
        self.config = config
        self.clock = Clock()
        self.cluster = ClusterView(config)
        self.image = image = self.cluster.image
        self.turn = Turn()
        self.log_lines = LogLineBuffer(self.turn)
        self.audit = Audit(self.clock, self.log_lines)
        self.authorizer = Authorizer(config.authorizer, self.audit)
        self.deadlines = Deadlines()
        self.fetch_memory = FetchMemory(config.fetch_memory_bytes)
        self.fetch_sessions = FetchSessions(
            config.fetch_session_slots,
            config.fetch_session_partitions_max,
            config.fetch_session_eviction_ms,
            new_session_id,
        )
        self.metrics = RequestMetrics(config, self.log_lines, served_versions(), read_us, random_bytes)
        # The backends that requests use.
        clock, turn = self.clock, self.turn
        self.logstores = Logstores()
        self.coordinators = CoordinatorClient(self.logstores)
        self.verifier = TransactionVerifier(
            config, clock, self.deadlines, image, self.coordinators, self.log_lines.contained
        )
        self.appends = AppendRouter(config, clock, self.deadlines, image, self.logstores, self.verifier)
        self.reads = ReadRouter(self.logstores, self.fetch_memory)
        self.read_replicas = ReadReplicas(config.address_policy, clock, image, self.reads.lanes)
        self.queries = QueryRouter(self.logstores)
        self.logstore_admin = LogstoreAdminClient(self.logstores, turn)
        self.purgatory = PurgatoryClient(clock, turn)
        self.converter = RecordFormatConverter(turn)
        self.pattern_matcher = PatternMatcher(turn)
        self.controller = ControllerClient(image, turn)
        self.producer_ids = ProducerIds(config.gateway_id, self.controller)
        self.group_routing = GroupRouting(config, clock, image, self.controller)
        self.transaction_routing = GroupRouting(config, clock, image, self.controller, TRANSACTION_STATE_TOPIC)
        self.tokens = DelegationTokens(config.delegation_token_secret_key, image, random_bytes, wall_ms)
        self.quotas = ClientQuotas(config, clock, read_us, self.deadlines, turn)
        # The connections that requests come from and responses go to.
        self.connections = Connections(
            config, clock, self.deadlines, self.fetch_memory, self.log_lines, self.metrics, turn, self.quotas
        )
        self.request_memory = self.connections.request_memory
        self.responder = Responder(
            self.connections, clock, self.deadlines, self.fetch_memory, self.log_lines, self.metrics
        )
        environment = RequestEnvironment(config, clock, self.cluster, self.deadlines, self.responder, self.authorizer)
        self.dispatcher = RequestDispatcher(
            self.connections, clock, self.metrics, self.responder, self._create_handlers(environment)
        )
        sasl = SaslServers(image, self.tokens, validate_token, begin_context, random_bytes)
        self.authentications = SaslAuthentications(
            environment, self.connections, self.log_lines, self.dispatcher.routes, sasl.create_server, wall_ms, turn
        )
        audit_handler = AuditProduceHandler(environment, self.appends, self.queries, self.purgatory, self.converter)
        self.audit_topic = AuditTopic(config.audit_topic, audit_handler, self.fetch_memory, self.log_lines, wall_ms)
        self.request_meter = RequestMeter(self.metrics, self.connections, self.converter)
        logstores_meter = LogstoresMeter(self.logstores, self.reads)
        self.measured: list[Measured] = [
            *(self.request_meter, logstores_meter, self.verifier),
            *(self.audit, self.audit_topic, self.quotas, self.log_lines.contained),
        ]
        """The meters; the host reads them at a scrape."""

    def _create_handlers(self, environment: RequestEnvironment) -> dict[int, Handler]:
        """Return a handler for each supported API key, with what it needs."""
        controller, logstore_admin = self.controller, self.logstore_admin
        coordinators, group_routing, purgatory = self.coordinators, self.group_routing, self.purgatory
        transactions = self.transaction_routing
        handlers: list[Handler] = [
            ProduceHandler(environment, self.appends, self.queries, purgatory, self.converter),
            FetchHandler(environment, self.reads, self.read_replicas, self.fetch_sessions, purgatory, self.converter),
            ListOffsetsHandler(environment, self.queries),
            FindCoordinatorHandler(environment, group_routing, transactions),
            InitProducerIdHandler(environment, coordinators, transactions, self.producer_ids),
            AddOffsetsToTxnHandler(environment, coordinators, transactions, group_routing),
            TxnOffsetCommitHandler(environment, coordinators, group_routing, self.verifier),
            ListTransactionsHandler(environment, coordinators, transactions, self.pattern_matcher),
            IncrementalAlterConfigsHandler(environment, controller, logstore_admin),
            *(serving(environment, coordinators, transactions) for serving in SERVED_FOR_TRANSACTIONS),
            *(serving(environment) for serving in SERVED_ALONE),
            *(serving(environment, controller) for serving in SERVED_BY_CONTROLLER),
            *(serving(environment, controller, self.tokens) for serving in SERVED_FOR_TOKENS),
            *(serving(environment, logstore_admin) for serving in SERVED_BY_LOGSTORES),
            *(serving(environment, coordinators, group_routing) for serving in SERVED_BY_COORDINATORS),
            *(serving(environment, coordinators, group_routing, purgatory) for serving in SERVED_AFTER_A_WAIT),
        ]
        return {handler.api_key: handler for handler in handlers}

    # --- connections ---

    def connection_opened(
        self,
        connection_id: int,
        listener: str,
        peer: str,
        now_ms: int,
        node_id: int = ANY_NODE,
        principal: Principal = ANONYMOUS,
    ) -> None:
        """`node_id` is the broker whose own port was connected to, if it was one; `principal` that of the client's
        certificate.
        """
        self.clock.now_ms = now_ms
        connection = self.connections.open_connection(connection_id, listener, peer, principal, node_id)
        try:
            self.authentications.begin(connection)
        except Exception as error:
            connection.failed(error)

    def bytes_received(self, connection_id: int, data: bytes, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        connection = self.connections.find_connection(connection_id)
        if connection is None:
            return
        try:
            if connection.quotas is None:
                self.dispatcher.bytes_received(connection, data)
            else:
                self.dispatcher.timed_bytes_received(connection, data, connection.quotas)
        except Exception as error:
            connection.failed(error)

    def unsent_bytes(self, connection_id: int, unsent_bytes: int, now_ms: int) -> None:
        """How many bytes written to a connection the client has not read; only changes need to be reported."""
        self.clock.now_ms = now_ms
        connection = self.connections.find_connection(connection_id)
        if connection is not None:
            try:
                self.connections.unsent_bytes(connection, unsent_bytes)
            except Exception as error:
                connection.failed(error)

    def connection_closed(self, connection_id: int, now_ms: int) -> None:
        """The client has closed the connection, or the socket failed."""
        self.clock.now_ms = now_ms
        connection = self.connections.find_connection(connection_id)
        if connection is not None:
            self.connections.forget_connection(connection)

    def range_cut(self, connection_id: int, now_ms: int) -> None:
        """Log why the host closes the connection: records on their way to its client have been truncated since they
        were read. `connection_closed` follows.
        """
        self.clock.now_ms = now_ms
        connection = self.connections.find_connection(connection_id)
        if connection is not None:
            self.connections.log_range_cut(connection)

    def drain(self, now_ms: int) -> None:
        """Start no further request; each connection closes when its responses are sent. Complete when `is_drained`."""
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

    def read_up(self, node_id: int, now_ms: int, *, accepts_ranges: bool = False) -> None:
        """`accepts_ranges`: descriptors of files can come along with the stream's responses."""
        self.clock.now_ms = now_ms
        self.reads.stream_up(node_id, accepts_ranges=accepts_ranges)

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
            self.authorizer.metadata_updated(update)
            self.quotas.gateways_changed(update.gateways)
            if update.full or update.client_quotas:
                self.quotas.quotas_changed(self.image.client_quotas)
                self.connections.quotas_changed()
            self.appends.routes_changed()
            self.controller.image_updated()
            self.read_replicas.image_changed()

    def quota_shares(self, shares: Iterable[tuple[QuotaId, float]], now_ms: int) -> None:
        """The owner of quotas has answered the uses that were reported: the rates that this processor has of them."""
        self.clock.now_ms = now_ms
        try:
            self.quotas.shares_granted(shares)
        except Exception as error:
            self.log_lines.contained.contain(QUOTAS, error, {})

    def processors_changed(self, processors: int, now_ms: int) -> None:
        """The gateway has so many processors."""
        self.clock.now_ms = now_ms
        self.quotas.processors_changed(processors)

    def controller_answered(self, call_id: int, answer: ControllerAnswer | None, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.controller.call_answered(call_id, answer)

    def logstore_answered(self, call_id: int, answer: AdministrationResponse | None, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.logstore_admin.call_answered(call_id, answer)

    def converted(self, conversion: Conversion, elapsed_ms: float, now_ms: int) -> None:
        """The conversion has run, in `elapsed_ms`."""
        self.clock.now_ms = now_ms
        conversion.ended(elapsed_ms)

    def token_checked(self, check: TokenCheck, now_ms: int) -> None:
        """The token has been answered, or could not be."""
        self.clock.now_ms = now_ms
        check.ended()

    def pattern_matched(self, matching: PatternMatching, now_ms: int) -> None:
        """The names have been matched, or could not be."""
        self.clock.now_ms = now_ms
        matching.ended()

    # --- time, and the end of a turn ---

    def expire(self, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.deadlines.expire(now_ms)
        if self.reads.waiting:
            self.connections.close_stalled_readers()
        if self.request_memory.waiting:
            self.connections.close_stalled_senders()

    def next_deadline_ms(self) -> int | None:
        """Return when `expire` has to be called at the latest, or None."""
        has_work = self.connections.has_more() or self.appends.has_more() or self.cluster.has_new_leaders
        has_work = has_work or self.responder.steps.has_work()
        if has_work or self.turn.outputs.logs:
            return self.clock.now_ms
        deadline_ms = self.deadlines.next_deadline_ms()
        if self.logstores.sending:
            deadline_ms = earlier(deadline_ms, self.logstores.gather_until_ms())
        if self.coordinators.sending:
            deadline_ms = earlier(deadline_ms, self.coordinators.gather_until_ms())
        if self.reads.waiting or self.request_memory.waiting:
            stalled_ms = min(self.config.stalled_reader_ms, self.config.stalled_sender_ms) // 4
            deadline_ms = earlier(deadline_ms, self.clock.now_ms + stalled_ms)
        return deadline_ms

    def take_outputs(self) -> Outputs:
        """Return all effects since the last call; requests that waited for something that has happened start here."""
        if self.cluster.has_new_leaders:
            self.cluster.has_new_leaders = False
            # Routers only collect the leaders that logstores name: what waits is routed here, outside of their loops.
            self.appends.routes_changed()
        if self.verifier.gathered:
            self.verifier.send_asks()
        self.appends.send_freed()
        if self.reads.waiting:
            self.reads.memory_freed()
        self.dispatcher.start_runnable()
        self.responder.steps.run_turn()
        self.connections.end_turn()
        if self.authentications.costly_tokens.is_used:
            self.authentications.costly_tokens.turn_taken()
        if self.log_lines.contained.reports:
            self.turn.rare.contained = self.log_lines.contained.take_reports()
        outputs, self.turn.outputs = self.turn.outputs, Outputs()
        if outputs.logs and self.audit_topic.is_enabled:
            try:
                self.audit_topic.add_lines(outputs.logs)
            except Exception as error:
                self.log_lines.contained.contain(AUDIT, error, {"records": len(outputs.logs)})
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
        """The outputs have been carried out: `unsent_bytes` has reported what sockets have not accepted of them."""
        if self.metrics.sending:
            self.metrics.turn_over()
