"""The means of scenarios: a small cluster without random faults, controlled by name."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.cluster.keys import PartitionRecord
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import ProduceResponse
from barnabas_logstore.core.replica.partition import Partition
from tests.sim.clients.consumer import Consumer, Taste
from tests.sim.clients.producer import Batch, Behaviour, Producer
from tests.sim.cluster import Cluster
from tests.sim.history import PartitionHistory
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.process import Process
from tests.sim.scheduler import MS, SECOND, Scheduler
from tests.sim.topology import MIN_ISR, REPLICA_LAG_MS_MAX, Shape, TopicShape

TOPIC = "orders"


class Scene:
    """One partition, `orders-0`, of which every logstore has a replica; a producer that sends on request, and a
    consumer that polls all the time.
    """

    def __init__(
        self,
        *,
        acks: int = -1,
        idempotent: bool = True,
        logstores: int = 3,
        configs: dict[str, str] | None = None,
        replica_lag_ms_max: int = REPLICA_LAG_MS_MAX,
        seed: int = 1,
    ) -> None:
        """`configs` are the topic's own; by default two replicas must be in sync, if there are two."""
        if configs is None:
            configs = {MIN_ISR: str(min(logstores, 2))}
        shape = Shape(
            logstores=logstores,
            gateways=2,
            purgatories=1,
            controllers=2,
            topics={TOPIC: TopicShape(1, logstores, configs)},
            producers=[Behaviour(idempotent, acks, version=9, interval_us=SECOND, records_max=1)],
            consumers=[Taste(version=12, max_wait_ms=500, min_bytes=1, isolation_level=0)],
            replica_lag_ms_max=replica_lag_ms_max,
        )
        self.cluster = Cluster(Scheduler(seed=seed), shape)
        self.producer: Producer = self.cluster.producers[0]
        self.consumer: Consumer = self.cluster.consumers[0]
        # It produces when the scenario says so, and then only.
        self.producer.is_stopping = True

    def begin(self) -> Scene:
        """The cluster is up, the topic is there, the producer is ready."""
        self.cluster.start()
        self.cluster.start_clients()
        self.until(lambda: self.producer.is_ready or not self.producer.behaviour.idempotent, "the producer is ready")
        self.wait(1_000)
        return self

    # --- who is what -------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> LogstoreNode:
        """The leader as etcd has it."""
        record = self.record
        return self.cluster.logstores[record.leader - 1]

    @property
    def followers(self) -> list[LogstoreNode]:
        return [each for each in self.cluster.logstores if each is not self.leader]

    @property
    def record(self) -> PartitionRecord:
        """The partition in etcd."""
        return self.cluster.promises.elections.current[self.producer.topic_ids[TOPIC], 0]

    @property
    def in_sync(self) -> list[LogstoreNode]:
        return [self.cluster.logstores[node_id - 1] for node_id in self.record.in_sync_replicas]

    def partition_at(self, node: LogstoreNode) -> Partition:
        (partition,) = node.partitions
        return partition

    def slow_down(self, follower: LogstoreNode, delay_ms: int) -> None:
        """What it says to the leader takes so long from now on, or about twice that."""
        self.cluster.network.set_delay(follower.name, self.leader.name, delay_ms * MS)

    def cut_off(self, node: LogstoreNode, *others: Process) -> None:
        """Nothing passes between a logstore and these; by default all logstores."""
        for other in others or [each for each in self.cluster.logstores if each is not node]:
            self.cluster.network.cut(node.name, other.name)
            self.cluster.network.cut(other.name, node.name)

    def reconnect(self) -> None:
        self.cluster.network.heal_all()

    # --- what happens ------------------------------------------------------------------------------------------------

    def produce(self, *values: str) -> None:
        self.producer.produce(TOPIC, 0, [value.encode() for value in values])

    def wait(self, milliseconds: int) -> None:
        self.cluster.run_for(milliseconds * MS)

    def until(self, condition: Callable[[], object], what: str) -> None:
        self.cluster.wait_until(lambda: bool(condition()), what)

    def until_parked(self) -> None:
        """A produce with acks=all waits in purgatory."""
        (pod,) = self.cluster.purgatories
        parked = self.cluster.invariants.parked_produces
        self.until(lambda: any(key[:2] == (pod.name, pod.incarnation) for key in parked), "a produce is parked")

    def listen_to_refusals(self, reported: list[ErrorCode]) -> None:
        """From now on errors of produce requests are written down there, too."""
        answered = self.producer._answered

        def listen(batch: Batch, response: ProduceResponse | None) -> None:
            if response is not None and (code := response.responses[0].partition_responses[0].error_code):
                reported.append(ErrorCode(code))
            answered(batch, response)

        self.producer._answered = listen  # type: ignore[method-assign]

    def until_acknowledged(self) -> None:
        self.until(
            lambda: not self.producer.has_open_batches and not self.producer.unanswered, "the produce is answered"
        )

    @property
    def _history(self) -> PartitionHistory:
        return self.cluster.history.of((self.producer.topic_ids[TOPIC], 0))

    @property
    def acknowledged(self) -> list[str]:
        """In the order of their offsets."""
        history = self._history
        return [history.acked[offset].decode() for offset in sorted(history.acked)]

    def everything_consumed(self) -> list[str]:
        """What the consumer has seen so far, in the order of the offsets."""
        consumed = self._history.consumed
        return [consumed[offset].decode() for offset in sorted(consumed)]

    def read_everything(self) -> list[str]:
        """What the consumer finds in the log from its start, given time to find too much."""
        history = self._history
        self.until(lambda: history.acked.keys() <= history.consumed.keys(), "the consumer reads what is acknowledged")
        self.wait(1_000)
        return [history.consumed[offset].decode() for offset in sorted(history.consumed)]
