"""What scenarios are told with: a small cluster without chance faults, steered by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.clients.consumer import Consumer, Taste
from tests.sim.clients.producer import Behaviour, Producer
from tests.sim.cluster import Cluster, Shape
from tests.sim.history import PartitionHistory
from tests.sim.scheduler import MS, SECOND, Scheduler

TOPIC = "orders"


class Scene:
    """One partition, `orders-0`; a producer that speaks when told to, and a consumer that polls all the time."""

    def __init__(
        self, *, acks: int = -1, idempotent: bool = True, logstores: int = 1, follower_lag_ms: int = 0
    ) -> None:
        shape = Shape(
            logstores=logstores,
            gateways=2,
            purgatories=1,
            controllers=2,
            topics={TOPIC: 1},
            producers=[Behaviour(idempotent, acks, version=9, interval_us=SECOND, records_max=1)],
            consumers=[Taste(version=12, max_wait_ms=500, min_bytes=1, isolation_level=0)],
            follower_lag_us_max=follower_lag_ms * MS,
        )
        self.cluster = Cluster(Scheduler(seed=1), shape)
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

    def produce(self, *values: str) -> None:
        self.producer.produce(TOPIC, 0, [value.encode() for value in values])

    def wait(self, milliseconds: int) -> None:
        self.cluster.run_for(milliseconds * MS)

    def until(self, condition: Callable[[], object], what: str) -> None:
        self.cluster.wait_until(lambda: bool(condition()), what)

    def until_parked(self) -> None:
        """Somebody's acks=all waits in purgatory."""
        (pod,) = self.cluster.purgatories
        parked = self.cluster.invariants.parked_produces
        self.until(lambda: any(key[:2] == (pod.name, pod.incarnation) for key in parked), "a produce is parked")

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

    def read_everything(self) -> list[str]:
        """What the consumer finds in the log from its start, given time to find too much."""
        history = self._history
        self.until(lambda: history.acked.keys() <= history.consumed.keys(), "the consumer reads what is acknowledged")
        self.wait(1_000)
        return [history.consumed[offset].decode() for offset in sorted(history.consumed)]
