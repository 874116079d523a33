"""All clients that make transactions in a run, and those who read along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC, partition_of_group
from barnabas_logstore.core.coordinator.transactions.transaction import (
    ENDING,
    EPOCH_BUMP_VERSION,
    OVER,
    Transaction,
)
from tests.sim.clients.transactions.loop_member import LoopMember
from tests.sim.clients.transactions.transactional_producer import TransactionalProducer
from tests.sim.history import History
from tests.sim.history import Partition as PartitionKey
from tests.sim.transactions.history import TopicPartition, TransactionHistory
from tests.sim.transactions.last_epochs import LastEpochs
from tests.sim.transactions.observer import TransactionObserver
from tests.sim.transactions.shape import STATE_PARTITIONS, TransactionsShape

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.elections import Elections
    from tests.sim.nodes.logstore import LogstoreNode


class ReadCommitted:
    """Compares what read_committed consumers are given with what is committed."""

    def __init__(self, history: History, elections: Elections, observer: TransactionObserver) -> None:
        self._history = history
        self._elections = elections
        self._observer = observer

    def __call__(self, partition: TopicPartition, offset: int, value: bytes, is_aborted: bool) -> None:
        key = self._key_of(partition, offset, value)
        if key is None:
            return
        if is_aborted:
            self._observer.filtered(partition, key, offset)
        else:
            self._observer.read(partition, key, offset)

    def _key_of(self, partition: TopicPartition, offset: int, value: bytes) -> PartitionKey | None:
        """None: it is lost, as it may be."""
        for topic_id in reversed(self._elections.ids_of(partition[0])):
            if self._history.committed_at((topic_id, partition[1]), offset) == value:
                return topic_id, partition[1]
        return None


class Transactions:
    """`producers` are there from the start, each with a twin that may take its place; `members` are those of the loop's
    group, which is one of the groups of the run.
    """

    def __init__(self, cluster: Cluster, shape: TransactionsShape, history: TransactionHistory) -> None:
        self._cluster = cluster
        self.shape = shape
        self.history = history
        self.observer = TransactionObserver(history, cluster.promises.elections)
        self.producers: list[TransactionalProducer] = []
        self.twins: list[TransactionalProducer] = []
        self.members: list[LoopMember] = []
        self.last_epochs = LastEpochs(shape.first_epochs, lambda each: self.state_of(each) is not None)

    def create(self, topics: dict[str, int]) -> None:
        """The clients, which write to `topics`; the groups of the run are there."""
        cluster, environment = self._cluster, self._cluster.client_environment
        for index, habits in enumerate(self.shape.producers):
            name = f"transactional-{index}"
            pair = [
                TransactionalProducer(each, environment, topics, name, habits, self.history)
                for each in (name, f"{name}-again")
            ]
            pair[0].twin, pair[1].twin = pair[1], pair[0]
            self.producers.append(pair[0])
            self.twins.append(pair[1])
        loop = self.shape.loop
        if loop is not None:
            assert loop.topics is not None
            outputs = {topic: count for topic, count in topics.items() if topic not in loop.topics}
            for index, (behaviour, habits) in enumerate(zip(loop.members, self.shape.loop_habits, strict=True)):
                self.members.append(
                    LoopMember(
                        f"loop-{index}",
                        environment,
                        outputs,
                        loop,
                        behaviour,
                        cluster.groups.history,
                        habits,
                        self.history,
                    )
                )

    def watch(self) -> None:
        cluster = self._cluster
        cluster.promises.committed.append(self.observer.committed)
        cluster.promises.lost.append(self.observer.lost)
        cluster.invariants.replica_changed = self.observer.look_at
        cluster.invariants.turn_looked_at = self.observer.turn_over

    def start(self) -> None:
        for producer in self.producers:
            producer.start()

    # --- coordinators -------------------------------------------------------------------------------------------------

    def coordinators(self) -> list[LogstoreNode]:
        """Those that live, by what etcd says."""
        elections = self._cluster.promises.elections
        topic_ids = elections.ids_of(TRANSACTION_STATE_TOPIC)
        records = (
            [elections.current.get((topic_ids[-1], each)) for each in range(STATE_PARTITIONS)] if topic_ids else []
        )
        leaders = dict.fromkeys(record.leader for record in records if record is not None)
        return [node for node in self._cluster.logstores if node.node_id in leaders and node.alive]

    def state_of(self, transactional_id: str) -> Transaction | None:
        """What is committed of it."""
        partition = partition_of_group(transactional_id, STATE_PARTITIONS)
        return self.observer.state_log(partition).transactions.get(transactional_id)

    def unfinished(self, transactional_ids: list[str]) -> list[str]:
        """Those whose transaction is to end still."""
        states = {each: self.state_of(each) for each in transactional_ids}
        begun = [each for each, state in states.items() if state is not None and state.state not in OVER]
        return [each for each in begun if not self.is_given_up(each)]

    def is_given_up(self, transactional_id: str) -> bool:
        """Whether its coordinator gives up a decided transaction, as Kafka's does: a partition refuses its marker.

        It does so for an epoch that the producer had by records of its state that are lost, as they may be. No client
        gets a producer id of this transactional id any more.
        """
        state = self.state_of(transactional_id)
        if state is None or state.state not in ENDING:
            return False
        log = self.observer.state_log(partition_of_group(transactional_id, STATE_PARTITIONS))
        lost_epoch = log.lost_epoch(transactional_id, state.producer_id)
        return any(self._refuses_marker(*each, state, lost_epoch) for each in state.partitions)

    def _refuses_marker(self, topic: str, partition: int, state: Transaction, lost_epoch: int) -> bool:
        """Whether that is for an epoch up to `lost_epoch`, as `check_marker` of a log has it."""
        promises = self._cluster.promises
        topic_ids = promises.elections.ids_of(topic)
        newest = promises.of((topic_ids[-1], partition)).book.newest_of(state.producer_id) if topic_ids else None
        if newest is None or newest.producer_epoch > lost_epoch:
            return False
        is_next_open = newest.producer_epoch == state.producer_epoch and not newest.is_control
        return newest.producer_epoch > state.producer_epoch or (state.version >= EPOCH_BUMP_VERSION and is_next_open)

    def readable_end(self, key: PartitionKey, end: int) -> int:
        """Return how far read_committed consumers get in a partition that is committed up to `end`: to its end, unless
        a transaction hangs.

        None may, except one whose coordinator has lost, as it may, that it was begun: where one replica in sync is
        enough for the states, it may be the one whose host loses power. No timeout ends such a transaction, an
        administrator has to abort it (KIP-664). So the exception is made only if no known transaction is to end still.
        """
        ids = [each.transactional_id for each in self.producers] + [each.name for each in self.members]
        if not self.history.has_lost_states or self.unfinished(ids):
            return end
        stable_offsets = [
            partition.last_stable_offset
            for node in self._cluster.logstores
            for partition in node.partitions
            if partition.key == key and partition.leading
        ]
        return min([end, *stable_offsets])
