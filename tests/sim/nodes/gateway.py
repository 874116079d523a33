"""A gateway: one `GatewayCore` between clients' sockets, the streams of logstores and pods, and the controller."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from barnabas.channel.generated.packing import MalformedMessage
from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    ExchangeRequest,
    ExchangeResponse,
    Hello,
    ParkRequest,
    ParkResponse,
    ReadRequest,
    ReadResponse,
)
from barnabas.channel.range_files import ReceivedFiles
from barnabas.cluster.access.operator_calls import OperatorCall
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.controller_calls.table import ClusterResponse
from barnabas.cluster.keys import GatewayRegistration, Role
from barnabas.cluster.messages import AllocateProducerIdsRequest, Broker, Purgatory, UpdateMetadata
from barnabas.cluster.quotas.shares import ShareQuotasRequest
from barnabas.runtime.compression import CODECS
from barnabas.runtime.patterns import compile_pattern
from barnabas_gateway.core.model.addresses import broker_port
from barnabas_gateway.core.model.config import AddressPolicy, GatewayConfig, Listener
from barnabas_gateway.core.model.containment import MESSAGE
from barnabas_gateway.core.model.outputs import (
    Conversion,
    Log,
    LogLevel,
    LogstoreCall,
    Outputs,
    PatternMatching,
    RareOutputs,
    TokenCheck,
)
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.core.processor import GatewayCore
from tests.sim.links import Link
from tests.sim.network import End, Network, StreamKind
from tests.sim.nodes.acceptor import Acceptor
from tests.sim.nodes.client_socket import SLOW_CLIENT_SHARE, ClientSocket
from tests.sim.nodes.etcd import EtcdClient
from tests.sim.nodes.identities import begin_context, validate_token
from tests.sim.nodes.membership import Answer, Membership
from tests.sim.nodes.registrar import Registrar
from tests.sim.process import Process
from tests.sim.protocols import ADMINISTRATION, COORDINATE, EXCHANGE, PARK, READ, WithFiles
from tests.sim.scheduler import MS, Event, InvariantViolation, Scheduler, injected

PORT = 9092
LISTENER = "PLAINTEXT"
ALLOCATE_TIMEOUT_MS = 5_000
DRAIN_GRACE_MS = 3_000
RESTART_US = 300 * MS
LATE_US = 50 * MS


class GatewayNode(Process):
    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        network: Network,
        node_ids: Iterable[int] = (),
        policy: AddressPolicy = AddressPolicy.SHARED,
    ) -> None:
        """`node_ids`: the brokers that have ports of their own, where `policy` says so."""
        super().__init__(name, scheduler, network)
        self._policy = policy
        self._node_ids = list(node_ids)
        self.configure: Callable[[GatewayConfig], GatewayConfig] = lambda config: config
        """Changes the configuration of its next life."""
        self.has_whole_shell = False
        """Whether its next life does all that the service's shell does: it admits connections, shares quotas, and says
        what clients have not read.
        """
        self.unexplained_closes = 0
        """Connections of clients that the core has closed so far, without those of which the log says why."""
        self.loses_call: Callable[[], bool] = lambda: False
        """Whether a call to a logstore gets lost on its way; then its end is noticed late."""
        self.slow_share = SLOW_CLIENT_SHARE
        """Of ranges of files: so many are read late by their clients."""
        self.core: GatewayCore | None = None
        self.turned: Callable[[GatewayNode], None] = lambda node: None

    @property
    def address(self) -> str:
        """The bootstrap address."""
        return f"{self.name}:{PORT}"

    def boot(self) -> None:
        listener = Listener(LISTENER, self.name, PORT, self.name, PORT)
        config = self.configure(GatewayConfig(self.name, (listener,), address_policy=self._policy))
        scheduler = self.scheduler
        self.core = GatewayCore(
            config,
            lambda: scheduler.random.randint(1, 0x7FFF_FFFF),
            lambda: scheduler.now_us,
            scheduler.random.randbytes,
            lambda: self.wall_ms,
            validate_token,
            begin_context,
        )
        self._acceptor = Acceptor(self) if self.has_whole_shell else None
        self._sockets: dict[int, ClientSocket] = {}
        self._last_connection_id = 0
        self._logstores: dict[int, _LogstoreStreams] = {}
        self._pods: dict[str, tuple[Purgatory, Link]] = {}
        self._calls: dict[int, _LogstoreCall] = {}
        self._timer: Event | None = None
        for each in config.listeners:
            self.network.listen(f"{self.name}:{each.port}", self, partial(self._accept, each.name, ANY_NODE))
        if self._policy is AddressPolicy.PER_BROKER_PORT:
            for node_id in self._node_ids:
                port = broker_port(self._policy, PORT, node_id)
                self.network.listen(f"{self.name}:{port}", self, partial(self._accept, LISTENER, node_id))
        etcd = EtcdClient(self)
        self._membership = Membership(self, etcd, Role.GATEWAY, self.name, self._metadata, self._answered)
        Registrar(
            etcd,
            Role.GATEWAY,
            self.name,
            lambda incarnation: GatewayRegistration(self.name, incarnation, {LISTENER: self.address}),
        )

    def died(self) -> None:
        self.core = None

    @property
    def running(self) -> GatewayCore:
        """The core, by those who can only speak while it runs."""
        assert self.core is not None
        return self.core

    # --- clients -----------------------------------------------------------------------------------------------------

    def _accept(self, listener: str, node_id: int, end: End) -> ClientSocket:
        self._last_connection_id += 1
        socket = ClientSocket(self, self._last_connection_id, end)
        peer = end.other.process.name
        if self._acceptor is not None and not self._acceptor.admits(listener, peer):
            end.close("not admitted")
            return socket
        self._sockets[self._last_connection_id] = socket
        self.running.connection_opened(self._last_connection_id, listener, peer, self.now_ms, node_id)
        self.turn_soon()
        return socket

    def range_cut(self, connection_id: int) -> None:
        self.running.range_cut(connection_id, self.now_ms)

    def unsent_changed(self, connection_id: int, unsent_bytes: int) -> None:
        if self.has_whole_shell:
            self.running.unsent_bytes(connection_id, unsent_bytes, self.now_ms)
            self.turn_soon()

    def socket_lost(self, connection_id: int) -> None:
        if self._forget_socket(connection_id) is not None:
            self.running.connection_closed(connection_id, self.now_ms)
            self.turn_soon()

    def _forget_socket(self, connection_id: int) -> ClientSocket | None:
        socket = self._sockets.pop(connection_id, None)
        if socket is not None and self._acceptor is not None:
            self._acceptor.closed(socket.end.other.process.name)
        return socket

    # --- controller --------------------------------------------------------------------------------------------------

    def _metadata(self, update: UpdateMetadata) -> None:
        core = self.running
        core.metadata_updated(update, self.now_ms)
        self._follow_image()
        if self._acceptor is not None:
            self._acceptor.image_changed(update)
        self._membership.acknowledge(core.image.revision)
        self.turn_soon()

    def ask_for_shares(self, call_id: int, request: ShareQuotasRequest, timeout_ms: int) -> None:
        self._membership.call(call_id, request, timeout_ms)

    def _answered(self, call_id: int, answer: Answer | None) -> None:
        if call_id < 0:
            assert self._acceptor is not None
            self._acceptor.answered(call_id, answer)
            return
        assert answer is None or isinstance(answer, ClusterResponse), "only logstores ask for more"
        self.running.controller_answered(call_id, answer, self.now_ms)
        self.turn_soon()

    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        if self._calls.pop(call.call_id, None) is not None:
            self.running.logstore_answered(call.call_id, answer, self.now_ms)
            self.turn_soon()

    def _follow_image(self) -> None:
        image = self.running.image
        for node_id, streams in list(self._logstores.items()):
            if image.brokers.get(node_id) != streams.broker:
                streams.close()
                del self._logstores[node_id]
        hello = Hello(image.cluster_id, f"{self.name}/0")
        for node_id, broker in image.brokers.items():
            if node_id not in self._logstores:
                self._logstores[node_id] = _LogstoreStreams(self, broker, hello)
        pods = {pod.pod_id: pod for pod in image.purgatories}
        for pod_id, (pod, link) in list(self._pods.items()):
            if pods.get(pod_id) != pod:
                link.close()
                del self._pods[pod_id]
        for pod_id, pod in pods.items():
            if pod_id not in self._pods:
                self._pods[pod_id] = (pod, self._park_link(pod, hello))

    def _park_link(self, pod: Purgatory, hello: Hello) -> Link:
        def up(first: ParkResponse) -> None:
            if first.pod_id != pod.pod_id:
                link.reset("another pod")
                return
            self.running.purgatory_up(pod.pod_id, self.now_ms)
            self.turn_soon()

        def message(response: ParkResponse) -> None:
            self.take(self.running.park_response, pod.pod_id, response)

        def down(reason: str) -> None:
            self.running.purgatory_down(pod.pod_id, self.now_ms)
            self.turn_soon()

        link = Link(self, PARK, pod.address, hello=ParkRequest(hello=hello), on_up=up, on_message=message, on_down=down)
        return link

    def take(self, core_takes: Callable[[Any, Any, int], None], peer: int | str, message: object) -> None:
        """Pass a message to the core. One that is not handled has its stream closed, by MalformedMessage."""
        try:
            core_takes(peer, message, self.now_ms)
        except (MalformedMessage, InvariantViolation):
            raise
        except Exception as error:
            self.running.log_lines.contained.contain(MESSAGE, error, {"peer": str(peer)})
            raise MalformedMessage("an internal error") from error
        finally:
            self.turn_soon()

    # --- turns -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        core = self.running
        core.expire(self.now_ms)
        self._carry_out(core.take_outputs())
        core.turn_over()
        core.holds_long_requests()
        if core.metrics.traces:
            core.metrics.take_traces()
        if core.is_drained():
            self._end_draining()
            return
        self._timer = self.wake_at_ms(core.next_deadline_ms(), self._timer)
        self.turned(self)

    # --- what the acceptor tells besides -----------------------------------------------------------------------------

    def terminate(self) -> None:
        """SIGTERM: what is asked is answered, and its supervisor starts it again."""
        self.scheduler.note(f"{self.name} is told to stop")
        self.running.drain(self.now_ms)
        self.turn_soon()
        self.after(DRAIN_GRACE_MS * MS, "drains no longer", self._end_draining)

    def _end_draining(self) -> None:
        self.kill()
        self.scheduler.plan(RESTART_US, f"{self.name} is started again", lambda: None if self.alive else self.start())

    def processors_changed(self, processors: int) -> None:
        """As if it had so many: the others are idle."""
        self.running.processors_changed(processors, self.now_ms)

    def record_operator_call(self, call: OperatorCall) -> None:
        """A controller hands over a record for the audit."""
        self.running.audit_topic.add_operator_call(call)
        self.turn_soon()

    # --- effects -----------------------------------------------------------------------------------------------------

    def _carry_out(self, outputs: Outputs) -> None:
        rare = outputs.rare or RareOutputs()
        for line in outputs.logs:
            self._look_at(line)
        for each in rare.contained:
            self.scheduler.contained(self, each.place.name, each.place.scope.value, each.traceback)
        for node_id, exchange in outputs.exchanges:
            if node_id in self._logstores:
                self._logstores[node_id].exchange.send(exchange)
        for node_id, read in outputs.reads:
            if node_id in self._logstores:
                self._logstores[node_id].read.send(read)
        for node_id, coordinate in outputs.coordinates:
            if node_id in self._logstores:
                self._logstores[node_id].coordinate.send(coordinate)
        for pod_id, park in outputs.parks.items():
            if pod_id in self._pods:
                self._pods[pod_id][1].send(park)
        for call in rare.controller_calls:
            request = call.request
            timeout_ms = ALLOCATE_TIMEOUT_MS if isinstance(request, AllocateProducerIdsRequest) else request.timeout_ms
            self._membership.call(call.call_id, request, timeout_ms)
        for logstore_call in rare.logstore_calls:
            if logstore_call.node_id in self._logstores:
                address = self._logstores[logstore_call.node_id].broker.data_address
                self._calls[logstore_call.call_id] = _LogstoreCall(self, address, logstore_call)
        for call_id in rare.logstore_cancels:
            if call_id in self._calls:
                self._calls.pop(call_id).end.close("the call is cancelled")
        for conversion in rare.conversions:
            self.after(self.scheduler.random.randrange(50, 5 * MS), "conversion", partial(self._converted, conversion))
        for matching in rare.pattern_matchings:
            self.after(self.scheduler.random.randrange(50, 5 * MS), "pattern", partial(self._matched, matching))
        for check in rare.token_checks:
            self.after(self.scheduler.random.randrange(50, 5 * MS), "token", partial(self._checked, check))
        if rare.quota_uses and self._acceptor is not None:
            self._acceptor.reported(rare.quota_uses)
        for connection_id, buffers in outputs.writes:
            if connection_id in self._sockets:
                self._sockets[connection_id].write(buffers)
        for connection_id in rare.closes:
            socket = self._forget_socket(connection_id)
            if socket is not None:
                self.unexplained_closes += 1
                socket.close()
        for connection_id in rare.aborts:
            socket = self._forget_socket(connection_id)
            if socket is not None:
                self.unexplained_closes += 1
                socket.end.close("closed by the gateway")
        for connection_id in rare.pauses:
            if connection_id in self._sockets:
                self._sockets[connection_id].is_paused = True
        for connection_id in rare.resumes:
            if connection_id in self._sockets:
                self._sockets[connection_id].resume()

    def _converted(self, conversion: Conversion) -> None:
        self._work(conversion, partial(conversion.run, CODECS))
        self.running.converted(conversion, 1.0, self.now_ms)
        self.turn_soon()

    def _matched(self, matching: PatternMatching) -> None:
        self._work(matching, partial(matching.run, compile_pattern))
        self.running.pattern_matched(matching, self.now_ms)
        self.turn_soon()

    def _checked(self, check: TokenCheck) -> None:
        self._work(check, check.run)
        if check.fault:
            self.scheduler.contained(self, "gateway.worker", "stream", check.fault)
        self.running.token_checked(check, self.now_ms)
        self.turn_soon()

    def _work(self, work: Conversion | PatternMatching | TokenCheck, run: Callable[[], None]) -> None:
        """As a worker's thread does: an exception is left with the work."""
        try:
            run()
        except Exception as error:
            if injected(error) is None:
                raise
            work.fault = traceback.format_exc()

    def _look_at(self, line: Log) -> None:
        self.scheduler.note(f"{self.name} logs {line.event}")
        if line.event.startswith(("connection closed: ", "authentication failed")):
            self.unexplained_closes -= 1
        if line.level is LogLevel.ERROR:
            self.scheduler.contained(self, line.event, "stream", str(line.fields))


class _LogstoreCall:
    """One call on a connection of its own; lost when that is, or when its time is over."""

    def __init__(self, node: GatewayNode, address: str, call: LogstoreCall) -> None:
        self._node = node
        self._call = call
        self.end = node.network.connect(ADMINISTRATION, node, address, self)
        late_us = 0
        if node.loses_call():
            late_us = LATE_US
        else:
            self.end.send(call.request)
        node.after(call.timeout_ms * MS + late_us, f"gives up call {call.call_id}", self._give_up)

    def on_message(self, message: AdministrationResponse) -> None:
        self.end.close("answered")
        self._node.logstore_answered(self._call, message)

    def on_closed(self, reason: str) -> None:
        self._node.logstore_answered(self._call, None)

    def _give_up(self) -> None:
        self.end.close("took too long")
        self._node.logstore_answered(self._call, None)


class _LogstoreStreams:
    """The streams to one incarnation of a logstore."""

    def __init__(self, node: GatewayNode, broker: Broker, hello: Hello) -> None:
        core = node.running
        self.broker = broker
        self.exchange = _LogstoreLink(
            node,
            EXCHANGE,
            broker,
            ExchangeRequest(hello=hello),
            core.exchange_up,
            core.exchange_response,
            core.exchange_down,
        )
        self.read = _LogstoreLink(
            node,
            READ,
            broker,
            ReadRequest(hello=hello),
            partial(core.read_up, accepts_ranges=True),
            core.read_response,
            core.read_down,
        )
        self.coordinate = _LogstoreLink(
            node,
            COORDINATE,
            broker,
            CoordinateRequest(hello=hello),
            core.coordinate_up,
            core.coordinate_response,
            core.coordinate_down,
        )

    def close(self) -> None:
        self.exchange.close()
        self.read.close()
        self.coordinate.close()


class _LogstoreLink(Link):
    """One of them, reported to the core that opened it; it ends with that core's process."""

    def __init__(
        self,
        node: GatewayNode,
        kind: StreamKind,
        broker: Broker,
        hello: ExchangeRequest | ReadRequest | CoordinateRequest,
        up: Callable[[int, int], None],
        response: Callable[[int, Any, int], None],
        down: Callable[[int, int], None],
    ) -> None:
        self._node = node
        self._node_id = broker.node_id
        self._tell_up = up
        self._tell_response = response
        self._tell_down = down
        self._files = ReceivedFiles()
        super().__init__(
            node,
            kind,
            broker.data_address,
            hello=hello,
            on_up=self._welcomed,
            on_message=self._answered,
            on_down=self._report_down,
        )

    def _welcomed(self, first: ExchangeResponse | ReadResponse | CoordinateResponse) -> None:
        if first.welcome is None or first.welcome.node_id != self._node_id:
            self.reset("another logstore")
            return
        self._tell_up(self._node_id, self._node.now_ms)
        self._answered(first)

    def _answered(self, response: ExchangeResponse | ReadResponse | CoordinateResponse | WithFiles) -> None:
        if isinstance(response, WithFiles):
            self._files.arrive(response.files)
            response = response.response
        if isinstance(response, ReadResponse):
            self._files.resolve(response)
        self._node.take(self._tell_response, self._node_id, response)

    def _report_down(self, reason: str) -> None:
        self._files.clear()
        self._tell_down(self._node_id, self._node.now_ms)
        self._node.turn_soon()
