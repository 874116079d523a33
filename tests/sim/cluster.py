"""A whole cluster in one process: who is in it, what its clients do, and what a run of it is.

A run has three acts. The cluster starts and its topics are made. Then clients work while things go wrong: only safety
is asked for. At last everything heals, and the cluster has to answer for itself: every request resolves, every
partition takes a write, everything acknowledged is read back, and nothing is left behind in anybody's memory.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.clients.admin import Admin
from tests.sim.clients.client import Client
from tests.sim.clients.consumer import Consumer, Taste
from tests.sim.clients.producer import Behaviour, Producer
from tests.sim.faults import Faults
from tests.sim.history import History, name
from tests.sim.invariants import Invariants
from tests.sim.network import Network
from tests.sim.nodes.controller import ControllerNode
from tests.sim.nodes.etcd import EtcdNode
from tests.sim.nodes.gateway import GatewayNode
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.nodes.purgatory import PurgatoryNode
from tests.sim.process import Process
from tests.sim.promises import Promises
from tests.sim.scheduler import SECOND, InvariantViolation, Scheduler
from tests.sim.topology import Shape
from tests.sim.transitions import Transitions

SETTLE_US_MAX = 60 * SECOND


class Cluster:
    def __init__(self, scheduler: Scheduler, shape: Shape) -> None:
        self.shape = shape
        self.scheduler = scheduler
        self.network = network = Network(scheduler, shape.encode)
        self.history = History()
        self.promises = Promises(self.history)
        self.invariants = Invariants(self.promises)
        self.transitions = Transitions()
        self.etcd = EtcdNode(scheduler, network)
        self.controllers = [
            ControllerNode(f"controller-{each}", scheduler, network) for each in range(shape.controllers)
        ]
        self.logstores = [
            LogstoreNode(each + 1, scheduler, network, self.promises, shape.replica_lag_ms_max)
            for each in range(shape.logstores)
        ]
        self.purgatories = [PurgatoryNode(f"purgatory-{each}", scheduler, network) for each in range(shape.purgatories)]
        self.gateways = [GatewayNode(f"gateway-{each}", scheduler, network) for each in range(shape.gateways)]
        addresses = [each.address for each in self.gateways]
        common = (scheduler, network, addresses, self.history)
        topics = shape.partition_counts
        self.admin = Admin("admin", *common, shape.topics)
        self.producers = [
            Producer(f"producer-{index}", *common, topics, behaviour)
            for index, behaviour in enumerate(shape.producers)
        ]
        self.consumers = [
            Consumer(f"consumer-{index}", *common, topics, taste) for index, taste in enumerate(shape.consumers)
        ]
        self._addresses = addresses
        self._watch()

    @property
    def clients(self) -> list[Client]:
        return [*self.producers, *self.consumers]

    @property
    def processes(self) -> list[Process]:
        """Everybody whom something may happen to."""
        return [self.etcd, *self.controllers, *self.logstores, *self.purgatories, *self.gateways, *self.clients]

    def _watch(self) -> None:
        self.history.committed_at = lambda partition, offset: self.promises.of(partition).book.value_at(offset)
        self.etcd.changed = self.promises.elections.etcd_changed

        def logstore_turned(node: LogstoreNode) -> None:
            self.invariants.logstore_turned(node)
            self.transitions.logstore_turned(node)

        for logstore in self.logstores:
            logstore.turned = logstore_turned
            logstore.opened = self.transitions.logstore_started
        for purgatory in self.purgatories:
            purgatory.parked = self.invariants.parked
            purgatory.completed = self.invariants.completed
        for gateway in self.gateways:
            gateway.turned = self.invariants.gateway_turned

    # --- a run, act by act
    # ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Up to the moment at which every topic exists and has a leader that takes writes."""
        for process in self.processes:
            if process not in self.clients:
                process.start()
        self.admin.start()
        self.wait_until(lambda: self.admin.is_done, "the topics are made")

    def start_clients(self) -> None:
        for client in self.clients:
            client.start()

    def run_for(self, duration_us: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + duration_us)

    def lose_power(self, node: LogstoreNode) -> None:
        """A power cut at the machine of a logstore."""
        self.promises.power_lost(node)
        node.lose_power()

    def settle(self, faults: Faults | None = None) -> None:
        """Heal, and let everything that is under way come to its end."""
        if faults is not None:
            faults.heal()
        for producer in self.producers:
            producer.is_stopping = True
        self.wait_until(
            lambda: not any(each.has_open_batches or each.unanswered for each in self.producers),
            "every produce resolves",
        )
        self._check_that_all_partitions_take_writes()
        self._check_that_everything_is_read()
        self._check_that_nothing_is_left()

    def wait_until(self, condition: Callable[[], bool], what: str, limit_us: int = SETTLE_US_MAX) -> None:
        if not self.scheduler.run_while(lambda: not condition(), limit_us):
            raise InvariantViolation(f"liveness: not within {limit_us // SECOND} s: {what}")

    # --- the last act
    # --------------------------------------------------------------------------------------------------

    def _check_that_all_partitions_take_writes(self) -> None:
        behaviour = Behaviour(idempotent=True, acks=-1, version=9, interval_us=SECOND, records_max=1)
        probe = Producer(
            "probe", self.scheduler, self.network, self._addresses, self.history, self.shape.partition_counts, behaviour
        )
        probe.is_stopping = True
        probe.start()
        self.wait_until(lambda: probe.is_ready, "a new producer is served")
        for topic, count in self.shape.partition_counts.items():
            for partition in range(count):
                probe.produce(topic, partition, [f"probe {topic} {partition}".encode()])
        self.wait_until(lambda: not probe.has_open_batches, "every partition takes a write")
        probe.kill()

    def _check_that_everything_is_read(self) -> None:
        reader = Consumer(
            "reader",
            self.scheduler,
            self.network,
            self._addresses,
            self.history,
            self.shape.partition_counts,
            Taste(12, 100, 1, 0, uses_sessions=self.scheduler.random.random() < 0.5),
        )
        reader.start()
        self.wait_until(reader.has_caught_up, "a new consumer reads everything")
        reader.is_stopping = True
        reader.kill()
        for partition, history in self.history.partitions.items():
            lost = [offset for offset in history.acked if history.consumed.get(offset) != history.acked[offset]]
            lost_values = [value for value in history.acked_without_offset if value not in history.offset_of]
            if lost or lost_values:
                raise InvariantViolation(
                    f"I8: {name(partition)} has lost offsets {lost[:5]} and values {lost_values[:5]}"
                )
            self._check_order(partition)

    def _check_order(self, partition: tuple[bytes, int]) -> None:
        """The values of one life of an idempotent producer are in the order in which it sent them."""
        idempotent = {each.name for each in self.producers if each.behaviour.idempotent}
        newest: dict[bytes, int] = {}
        consumed = self.history.of(partition).consumed
        for offset in sorted(consumed):
            life, number, *_ = consumed[offset].split(b" ")
            if life.split(b".")[0].decode() in idempotent:
                if int(number) <= newest.get(life, -1):
                    raise InvariantViolation(
                        f"{name(partition)} offset {offset}: {number!r} of {life!r} comes too late"
                    )
                newest[life] = int(number)

    def _check_that_nothing_is_left(self) -> None:
        """No waiter, no watch, no request and no byte is held for anybody when nobody wants anything."""
        for client in (*self.clients, self.admin):
            client.kill()
        self.run_for(15 * SECOND)
        for purgatory in self.purgatories:
            core = purgatory.core
            assert core is not None
            if core.entries or core.watched_partitions:
                raise InvariantViolation(
                    f"{purgatory.name} still holds {core.entries} entries, {core.watched_partitions} watches"
                )
        for gateway in self.gateways:
            held = gateway.running.request_memory.held_bytes
            if held:
                raise InvariantViolation(f"{gateway.name} still holds {held} bytes of requests")
        for logstore in self.logstores:
            core_of_logstore = logstore.core
            assert core_of_logstore is not None
            if core_of_logstore._watches._streams:
                raise InvariantViolation(f"{logstore.name} is still watched")
            # What a pass over one log takes, at most.
            self.wait_until(lambda core=core_of_logstore: core.is_idle, f"{logstore.name} is idle")  # type: ignore[misc]
