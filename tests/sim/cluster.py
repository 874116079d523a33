"""A whole cluster in one process: who is in it, what its clients do, and what a run of it is.

A run has three acts. The cluster starts and its topics are made. Then clients work while things go wrong: only safety
is asked for. At last everything heals, and the cluster has to answer for itself: every request resolves, every
partition takes a write, everything acknowledged is read back, and nothing is left behind in any process's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.sim.clients.admin import Admin
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.clients.consumer import Consumer
from tests.sim.clients.mover import Mover
from tests.sim.clients.operator import Operator
from tests.sim.clients.producer import Producer
from tests.sim.clients.producers.deliveries import Deliveries
from tests.sim.clients.producers.process import ProducerProcess
from tests.sim.faults import Faults
from tests.sim.fencing import check_isr_answer, check_writer
from tests.sim.groups.cast import Groups
from tests.sim.history import History, Partition
from tests.sim.invariants import Invariants
from tests.sim.last_act import LastAct
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
from tests.sim.transactions.cast import ReadCommitted, Transactions
from tests.sim.transactions.history import TransactionHistory
from tests.sim.transitions import Transitions

SETTLE_US_MAX = 60 * SECOND


class Cluster:
    def __init__(self, scheduler: Scheduler, shape: Shape) -> None:
        self.shape = shape
        self.scheduler = scheduler
        self.network = network = Network(scheduler, shape.encode)
        self.history = History()
        self.deliveries = Deliveries(self.history)
        self.promises = Promises(self.history)
        self.invariants = Invariants(self.promises)
        self.transitions = Transitions()
        self.etcd = EtcdNode(scheduler, network)
        self.controllers = [
            ControllerNode(f"controller-{each}", scheduler, network) for each in range(shape.controllers)
        ]
        self.logstores = [
            LogstoreNode(
                each + 1,
                scheduler,
                network,
                self.promises,
                shape.replica_lag_ms_max,
                shape.groups.initial_rebalance_delay_ms,
            )
            for each in range(shape.logstores)
        ]
        self.purgatories = [PurgatoryNode(f"purgatory-{each}", scheduler, network) for each in range(shape.purgatories)]
        node_ids = [each.node_id for each in self.logstores]
        self.gateways = [
            GatewayNode(f"gateway-{each}", scheduler, network, node_ids, shape.address_policy)
            for each in range(shape.gateways)
        ]
        addresses = [each.address for each in self.gateways]
        self.transactions = Transactions(self, shape.transactions, TransactionHistory(self.history))
        read_committed = ReadCommitted(self.history, self.promises.elections, self.transactions.observer)
        self.client_environment = environment = ClientEnvironment(
            scheduler, network, addresses, self.history, read_committed, self.transactions.history.polled
        )
        topics = shape.partition_counts
        # These are never deleted, nor is an unclean leader elected for them.
        kept_topics = {topic: count for topic, count in topics.items() if topic not in shape.expendable}
        # If nothing else creates the offsets topic, the first request of a group does.
        made = shape.topics | (shape.offsets_topic if shape.groups.min_isr > 1 else {}) | shape.state_topic
        self.admin = Admin("admin", environment, made)
        self.operator = Operator("operator", environment, shape, self.promises.elections, self.controllers)
        self.producers = [
            Producer(f"producer-{index}", environment, topics, behaviour)
            for index, behaviour in enumerate(shape.producers)
        ]
        self.real_producers = [
            ProducerProcess(
                f"{habits.kind.value}-{index}", scheduler, network, addresses, self.deliveries, kept_topics, habits
            )
            for index, habits in enumerate(shape.real_producers)
        ]
        self.mover = Mover("mover", environment, kept_topics, shape.moving_us)
        self.consumers = [
            Consumer(f"consumer-{index}", environment, topics, taste) for index, taste in enumerate(shape.consumers)
        ]
        self.groups = Groups(self)
        self.transactions.create(
            {topic: count for topic, count in kept_topics.items() if not shape.is_compacted(topic)}
        )
        self.groups.add_members(self.transactions.members)
        self._watch()

    @property
    def clients(self) -> list[Client | ProducerProcess]:
        return [
            *self.producers,
            *self.real_producers,
            *self.consumers,
            *self.groups.members,
            *self.transactions.producers,
        ]

    @property
    def processes(self) -> list[Process]:
        """Every process that faults may hit."""
        return [self.etcd, *self.controllers, *self.logstores, *self.purgatories, *self.gateways, *self.clients]

    def _leader_epoch_of(self, partition: Partition) -> int | None:
        record = self.promises.elections.current.get(partition)
        return None if record is None else record.leader_epoch

    def _watch(self) -> None:
        self.history.committed_at = lambda partition, offset: self.promises.of(partition).book.value_at(offset)
        self.history.ids_of = self.promises.elections.ids_of
        self.history.book_of = lambda partition: self.promises.of(partition).book
        self.history.leader_epoch_of = self._leader_epoch_of
        self.history.is_cleaned = lambda partition, begin, end: self.promises.of(partition).book.may_be_gone(begin, end)
        self.etcd.changed = self.promises.elections.etcd_changed
        self.etcd.wrote = partial(check_writer, self.etcd.model)

        def logstore_turned(node: LogstoreNode) -> None:
            self.transitions.logstore_turned(node, self.invariants.logstore_turned(node))
            self.transactions.last_epochs.logstore_turned(node)

        def logstore_opened(node: LogstoreNode) -> None:
            self.deliveries.logstore_opened(self.scheduler.now_us)
            self.invariants.logstore_started(node)
            self.transitions.logstore_started(node)

        for logstore in self.logstores:
            logstore.turned = logstore_turned
            logstore.opened = logstore_opened
        for controller in self.controllers:
            controller.isr_answered = partial(check_isr_answer, self.promises.elections)
        for purgatory in self.purgatories:
            purgatory.parked = self.invariants.parked
            purgatory.completed = self.invariants.completed
        self.transactions.watch()
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
        for client in (*self.producers, *self.real_producers, *self.consumers, self.operator, self.mover):
            client.start()
        self.groups.start()
        self.transactions.start()

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
        LastAct(self).play()

    def wait_until(self, condition: Callable[[], bool], what: str, limit_us: int = SETTLE_US_MAX) -> None:
        if not self.scheduler.run_while(lambda: not condition(), limit_us):
            raise InvariantViolation(f"liveness: not within {limit_us // SECOND} s: {what}")
