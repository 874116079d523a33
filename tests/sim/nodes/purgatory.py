"""A purgatory pod: `PurgatoryCore` between gateways' park streams and logstores' watch streams."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.channel.generated.packing import MalformedMessage
from barnabas.channel.messages import (
    Hello,
    ParkRequest,
    ParkResponse,
    WatchRequest,
    WatchResponse,
)
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import PurgatoryRegistration, Role
from barnabas.cluster.messages import Broker, UpdateMetadata
from barnabas_purgatory.core.meter import MESSAGE
from barnabas_purgatory.core.outputs import Outputs
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.core.waiting import ParkedFetch, ParkedProduce
from tests.sim.links import Link
from tests.sim.network import End
from tests.sim.nodes.etcd import EtcdClient
from tests.sim.nodes.membership import Membership
from tests.sim.nodes.registrar import Registrar
from tests.sim.process import Process
from tests.sim.protocols import WATCH
from tests.sim.scheduler import Event, InvariantViolation


class PurgatoryNode(Process):
    """`parked` sees every request of a gateway, `completed` every turn's outputs, before they leave."""

    core: PurgatoryCore | None = None
    parked: Callable[[PurgatoryNode, int, ParkRequest], None] = staticmethod(lambda node, stream_id, request: None)
    completed: Callable[[PurgatoryNode, Outputs], None] = staticmethod(lambda node, outputs: None)

    def boot(self) -> None:
        self.core = PurgatoryCore(self.now_ms)
        self.image = ClusterImage()
        self._ends: dict[int, End] = {}
        self._last_stream_id = 0
        self._watches: dict[int, tuple[Broker, Link]] = {}
        self.met_a_fault: set[ParkedProduce | ParkedFetch] = set()
        """Entries that waited as an exception ended a message of a logstore."""
        self._timer: Event | None = None
        self.network.listen(f"{self.name}:park", self, self._accept)
        etcd = EtcdClient(self)
        self._membership = Membership(
            self, etcd, Role.PURGATORY, self.name, self._metadata, lambda call_id, answer: None
        )
        Registrar(
            etcd,
            Role.PURGATORY,
            self.name,
            lambda incarnation: PurgatoryRegistration(self.name, incarnation, f"{self.name}:park"),
        )

    def died(self) -> None:
        self.core = None

    # --- gateways ----------------------------------------------------------------------------------------------------

    def _accept(self, end: End) -> _ParkStream:
        self._last_stream_id += 1
        self._ends[self._last_stream_id] = end
        return _ParkStream(self, self._last_stream_id)

    def park(self, stream_id: int, request: ParkRequest) -> None:
        core = self.core
        assert core is not None
        if request.hello is not None:
            self._ends[stream_id].send(ParkResponse(pod_id=self.name))
        self.parked(self, stream_id, request)
        for produce in request.produces:
            core.park_produce(stream_id, produce, self.now_ms)
        for fetch in request.fetches:
            core.park_fetch(stream_id, fetch, self.now_ms)
        for group in request.groups:
            core.park_group(stream_id, group, self.now_ms)
        for entry_id in request.cancels:
            core.cancel(stream_id, entry_id)
        self.turn_soon()

    def message_failed(self, stream_id: int, error: Exception) -> None:
        assert self.core is not None
        self.core.contained.contain(MESSAGE, error, {"stream_id": stream_id})
        self._ends[stream_id].close("an internal error")
        self.stream_closed(stream_id)

    def stream_closed(self, stream_id: int) -> None:
        del self._ends[stream_id]
        assert self.core is not None
        self.core.stream_closed(stream_id)
        self.turn_soon()

    # --- controller and logstores ------------------------------------------------------------------------------------

    def _metadata(self, update: UpdateMetadata) -> None:
        assert self.core is not None
        if self.image.apply(update):
            self._follow_logstores()
            self.core.metadata_applied(self.image)
            self.turn_soon()
        self._membership.acknowledge(self.image.revision)

    def _follow_logstores(self) -> None:
        for node_id, (broker, link) in list(self._watches.items()):
            if self.image.brokers.get(node_id) != broker:
                link.close()
                del self._watches[node_id]
        for node_id, broker in self.image.brokers.items():
            if node_id not in self._watches:
                self._watches[node_id] = (broker, self._watch(broker))

    def _watch(self, broker: Broker) -> Link:
        core = self.core
        assert core is not None
        node_id = broker.node_id

        def up(first: WatchResponse) -> None:
            if first.welcome is None or first.welcome.node_id != node_id:
                link.reset("another logstore")
                return
            core.logstore_up(node_id)
            states(first)

        def states(response: WatchResponse) -> None:
            try:
                core.partition_states(node_id, response.states)
                core.group_states(node_id, response.group_states)
            except Exception as error:
                core.contained.contain(MESSAGE, error, {"peer": f"logstore {node_id}"})
                # What one of them waited for may be lost with the message: it may have to wait its whole time.
                heaps = [heap for watch in core._watches for heap in watch.heaps.values()]
                self.met_a_fault.update(wait.entry for heap in heaps for wait in heap)
                raise MalformedMessage("an internal error") from error
            finally:
                self.turn_soon()

        def down(reason: str) -> None:
            core.logstore_down(node_id)

        link = Link(
            self,
            WATCH,
            broker.data_address,
            hello=WatchRequest(hello=Hello(self.image.cluster_id, self.name)),
            on_up=up,
            on_message=states,
            on_down=down,
        )
        return link

    # --- turns -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        core = self.core
        assert core is not None
        core.expire(self.now_ms)
        outputs = core.take_outputs()
        for each in core.contained.take_reports():
            self.scheduler.contained(self, each.place.name, each.place.scope.value, each.traceback)
        self.completed(self, outputs)
        for node_id, request in outputs.watch_requests():
            if node_id in self._watches:
                self._watches[node_id][1].send(request)
        for stream_id, completions in outputs.completions.items():
            self._ends[stream_id].send(ParkResponse(completions=completions))
        self._timer = self.wake_at_ms(core.next_deadline_ms(), self._timer)


class _ParkStream:
    def __init__(self, node: PurgatoryNode, stream_id: int) -> None:
        self._node = node
        self._stream_id = stream_id

    def on_message(self, message: ParkRequest) -> None:
        try:
            self._node.park(self._stream_id, message)
        except InvariantViolation:
            raise
        except Exception as error:
            self._node.message_failed(self._stream_id, error)

    def on_closed(self, reason: str) -> None:
        self._node.stream_closed(self._stream_id)
