"""A gateway: one `GatewayCore` between clients' sockets, the streams of logstores and pods, and the controller."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

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
from barnabas.channel.packing import MalformedMessage
from barnabas.channel.range_files import ReceivedFiles
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.keys import GatewayRegistration, Role
from barnabas.cluster.messages import AllocateProducerIdsRequest, Broker, ClusterResponse, Purgatory, UpdateMetadata
from barnabas.runtime.compression import CODECS
from barnabas.runtime.patterns import compile_pattern
from barnabas.wire.file_range import FileRange
from barnabas.wire.primitives import Buffer
from barnabas_gateway.core.model.addresses import broker_port
from barnabas_gateway.core.model.config import AddressPolicy, AuthorizerConfig, GatewayConfig, Listener
from barnabas_gateway.core.model.containment import MESSAGE
from barnabas_gateway.core.model.outputs import (
    Conversion,
    Log,
    LogLevel,
    LogstoreCall,
    Outputs,
    PatternMatching,
    RareOutputs,
)
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.core.processor import GatewayCore
from tests.sim.disk_model import ModelFile
from tests.sim.links import Link
from tests.sim.network import End, Network, StreamKind
from tests.sim.nodes.etcd import EtcdClient
from tests.sim.nodes.membership import Answer, Membership
from tests.sim.nodes.registrar import Registrar
from tests.sim.process import Process
from tests.sim.protocols import ADMINISTRATION, COORDINATE, EXCHANGE, PARK, READ, WithFiles
from tests.sim.scheduler import MS, Event, InvariantViolation, Scheduler

PORT = 9092
LISTENER = "PLAINTEXT"
ALLOCATE_TIMEOUT_MS = 5_000
SLOW_CLIENT_US_MAX = 2_000 * MS


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
        self.authorizer = AuthorizerConfig()
        """Of its next life."""
        self.unexplained_closes = 0
        """Connections of clients that the core has closed so far, without those of which the log says why."""
        self.core: GatewayCore | None = None
        self.turned: Callable[[GatewayNode], None] = lambda node: None

    @property
    def address(self) -> str:
        """The bootstrap address."""
        return f"{self.name}:{PORT}"

    def boot(self) -> None:
        listener = Listener(LISTENER, self.name, PORT, self.name, PORT)
        config = GatewayConfig(self.name, (listener,), address_policy=self._policy, authorizer=self.authorizer)
        scheduler = self.scheduler
        self.core = GatewayCore(
            config,
            lambda: scheduler.random.randint(1, 0x7FFF_FFFF),
            lambda: scheduler.now_us,
            scheduler.random.randbytes,
            lambda: self.wall_ms,
        )
        self._sockets: dict[int, _ClientSocket] = {}
        self._last_connection_id = 0
        self._logstores: dict[int, _LogstoreStreams] = {}
        self._pods: dict[str, tuple[Purgatory, Link]] = {}
        self._calls: dict[int, _LogstoreCall] = {}
        self._timer: Event | None = None
        self.network.listen(self.address, self, lambda end: self._accept(end, ANY_NODE))
        if self._policy is AddressPolicy.PER_BROKER_PORT:
            for node_id in self._node_ids:
                port = broker_port(self._policy, PORT, node_id)
                self.network.listen(f"{self.name}:{port}", self, partial(self._accept, node_id=node_id))
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

    def _accept(self, end: End, node_id: int) -> _ClientSocket:
        self._last_connection_id += 1
        socket = _ClientSocket(self, self._last_connection_id, end)
        self._sockets[self._last_connection_id] = socket
        peer = end.other.process.name
        self.running.connection_opened(self._last_connection_id, LISTENER, peer, self.now_ms, node_id)
        self.turn_soon()
        return socket

    def range_cut(self, connection_id: int) -> None:
        self.running.range_cut(connection_id, self.now_ms)

    def socket_lost(self, connection_id: int) -> None:
        if self._sockets.pop(connection_id, None) is not None:
            self.running.connection_closed(connection_id, self.now_ms)
            self.turn_soon()

    # --- controller --------------------------------------------------------------------------------------------------

    def _metadata(self, update: UpdateMetadata) -> None:
        core = self.running
        core.metadata_updated(update, self.now_ms)
        self._follow_image()
        self._membership.acknowledge(core.image.revision)
        self.turn_soon()

    def _answered(self, call_id: int, answer: Answer | None) -> None:
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
        self._timer = self.wake_at_ms(core.next_deadline_ms(), self._timer)
        self.turned(self)

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
        for connection_id, buffers in outputs.writes:
            if connection_id in self._sockets:
                self._sockets[connection_id].write(buffers)
        for connection_id in rare.closes:
            if connection_id in self._sockets:
                self.unexplained_closes += 1
                self._sockets.pop(connection_id).close()
        for connection_id in rare.aborts:
            if connection_id in self._sockets:
                self.unexplained_closes += 1
                self._sockets.pop(connection_id).end.close("closed by the gateway")
        for connection_id in rare.pauses:
            if connection_id in self._sockets:
                self._sockets[connection_id].is_paused = True
        for connection_id in rare.resumes:
            if connection_id in self._sockets:
                self._sockets[connection_id].resume()

    def _converted(self, conversion: Conversion) -> None:
        conversion.run(CODECS)
        self.running.converted(conversion, 1.0, self.now_ms)
        self.turn_soon()

    def _matched(self, matching: PatternMatching) -> None:
        matching.run(compile_pattern)
        self.running.pattern_matched(matching, self.now_ms)
        self.turn_soon()

    def _look_at(self, line: Log) -> None:
        self.scheduler.note(f"{self.name} logs {line.event}")
        if line.event.startswith("connection closed: "):
            self.unexplained_closes -= 1
        if line.level is LogLevel.ERROR:
            self.scheduler.contained(self, line.event, "stream", str(line.fields))


class _ClientSocket:
    """A client's connection; while it is paused, what arrives stays in the kernel."""

    def __init__(self, node: GatewayNode, connection_id: int, end: End) -> None:
        self._node = node
        self.connection_id = connection_id
        self.end = end
        self.is_paused = False
        self._unread: list[bytes] = []
        self._unsent: deque[list[Buffer | FileRange]] = deque()

    def on_message(self, message: bytes) -> None:
        if self.is_paused:
            self._unread.append(message)
            return
        self._node.running.bytes_received(self.connection_id, message, self._node.now_ms)
        self._node.turn_soon()

    def on_closed(self, reason: str) -> None:
        self._node.socket_lost(self.connection_id)

    def write(self, buffers: list[Buffer | FileRange]) -> None:
        """Ranges of files are read when the client does, which may be much later."""
        for buffer in buffers:
            if isinstance(buffer, FileRange):
                _note_sent(buffer)
        if not self._unsent and not any(isinstance(buffer, FileRange) for buffer in buffers):
            self.end.send(b"".join(map(_bytes_of, buffers)))
            return
        self._unsent.append(buffers)
        if len(self._unsent) == 1:
            self._send_later()

    def _send_later(self) -> None:
        scheduler = self._node.scheduler
        delay_us = scheduler.below(200)
        if scheduler.random.random() < 0.03:
            delay_us = scheduler.below(SLOW_CLIENT_US_MAX)
        self._node.after(delay_us, "sends a range", self._send_first)

    def _send_first(self) -> None:
        if not self._unsent:
            return
        buffers = self._unsent.popleft()
        try:
            self.end.send(b"".join(map(_bytes_of, buffers)))
        except EOFError:
            self._unsent.clear()
            self._node.range_cut(self.connection_id)
            self.end.close("a range is not in its file any more")
            self._node.socket_lost(self.connection_id)
            return
        if self._unsent:
            self._send_later()

    def close(self) -> None:
        """Close it after what was written."""
        while self._unsent:
            self._send_first()
        self.end.close("closed by the gateway")

    def resume(self) -> None:
        self.is_paused = False
        unread, self._unread = self._unread, []
        for message in unread:
            self.on_message(message)


def _note_sent(part: FileRange) -> None:
    """Have the disk hold the file to what a client is being sent of it (ADR 0027)."""
    assert isinstance(part.file, ModelFile)
    if not part.file.machine.is_over:
        node = part.file.node
        node.sent_end = max(node.sent_end, min(part.position + part.length, len(node.content)))


def _bytes_of(buffer: Buffer | FileRange) -> bytes:
    """Return what is in a file now; raises EOFError if it ends before, or if its machine is gone."""
    if not isinstance(buffer, FileRange):
        return bytes(buffer)
    assert isinstance(buffer.file, ModelFile)
    content = bytes(buffer.file.node.content[buffer.position : buffer.position + buffer.length])
    if len(content) < buffer.length or buffer.file.machine.is_over:
        raise EOFError
    return content


class _LogstoreCall:
    """One call on a connection of its own; lost when that is, or when its time is over."""

    def __init__(self, node: GatewayNode, address: str, call: LogstoreCall) -> None:
        self._node = node
        self._call = call
        self.end = node.network.connect(ADMINISTRATION, node, address, self)
        self.end.send(call.request)
        node.after(call.timeout_ms * MS, f"gives up call {call.call_id}", self._give_up)

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
