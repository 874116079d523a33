"""What a cluster consists of, and who works with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas_gateway.core.model.config import AddressPolicy
from tests.sim.clients.consumer import Taste
from tests.sim.clients.producer import Behaviour
from tests.sim.clients.producers.process import Habits
from tests.sim.groups.shape import OFFSETS_PARTITIONS, OFFSETS_REPLICATION_FACTOR, OFFSETS_TOPIC, GroupsShape
from tests.sim.transactions.shape import LEDGER, STATE_PARTITIONS, STATE_REPLICATION_FACTOR, TransactionsShape

REPLICA_LAG_MS_MAX = 30_000
MIN_ISR = "min.insync.replicas"
LEDGER_PARTITIONS = 2
LEDGER_REPLICATION_FACTOR = 3
UNCLEAN = "unclean.leader.election.enable"


@dataclass(slots=True)
class TopicShape:
    """`configs` are the topic's own overrides."""

    partitions: int = 1
    replication_factor: int = 3
    configs: dict[str, str] = field(default_factory=lambda: {MIN_ISR: "2"})

    def __str__(self) -> str:
        words = [f"{self.partitions}×{self.replication_factor}, min ISR {self.configs.get(MIN_ISR, '1')}"]
        words += ["unclean"] * (self.configs.get(UNCLEAN) == "true")
        words += ["flushed"] * (self.configs.get("flush.messages") == "1")
        words += ["compacted"] * (self.configs.get("cleanup.policy") == "compact")
        return ", ".join(words)


@dataclass(slots=True)
class Shape:
    """`replica_lag_ms_max` is `replica.lag.time.max.ms`; with `encode` every message goes through its encoding."""

    logstores: int = 3
    gateways: int = 2
    purgatories: int = 2
    controllers: int = 2
    topics: dict[str, TopicShape] = field(default_factory=lambda: {"orders": TopicShape(2), "payments": TopicShape()})
    producers: list[Behaviour] = field(default_factory=list)
    real_producers: list[Habits] = field(default_factory=list)
    """That act as the clients that people use."""
    consumers: list[Taste] = field(default_factory=list)
    encode: bool = False
    replica_lag_ms_max: int = REPLICA_LAG_MS_MAX
    expendable: list[str] = field(default_factory=list)
    """Topics that an administrator may delete, or have led unclean."""
    administration_us: int = 0
    """How long an administrator rests between two requests; 0: there is none."""
    address_policy: AddressPolicy = AddressPolicy.SHARED
    moving_us: int = 0
    """How often all leaders move; 0: never."""
    groups: GroupsShape = field(default_factory=GroupsShape)
    transactions: TransactionsShape = field(default_factory=TransactionsShape)
    pace: int = 1
    """How many times as long clients and administrators rest, and the run lasts, as in the busiest of its profile."""

    def make_room_for_transactions(self, partitions_max: int, replication_factor_max: int) -> None:
        """A topic that they write to; of the others, what the loop reads. Its offsets are kept by two replicas."""
        transactions = self.transactions
        if not transactions.is_used:
            return
        kept = {topic: each.partitions for topic, each in self.topics.items() if topic not in self.expendable}
        self.topics = {
            **self.topics,
            LEDGER: TopicShape(
                min(LEDGER_PARTITIONS, partitions_max),
                min(LEDGER_REPLICATION_FACTOR, replication_factor_max, self.logstores),
                _without_compaction(self.topics),
            ),
        }
        if transactions.loop is not None:
            transactions.loop.topics = kept
            self.groups.groups.append(transactions.loop)
            self.groups.min_isr = 2

    @property
    def state_topic(self) -> dict[str, TopicShape]:
        """`__transaction_state`, where there are transactions."""
        configs = {MIN_ISR: str(self.transactions.state_min_isr), **self._cleaned, **self._flushed}
        shape = TopicShape(STATE_PARTITIONS, STATE_REPLICATION_FACTOR, configs)
        return {TRANSACTION_STATE_TOPIC: shape} if self.transactions.is_used else {}

    @property
    def _cleaned(self) -> dict[str, str]:
        """Segments are closed as often as those of other topics, and cleaned."""
        known = [each.configs["segment.ms"] for each in self.topics.values() if "segment.ms" in each.configs]
        return {"segment.ms": known[0], "min.cleanable.dirty.ratio": "0"} if known else {}

    @property
    def _flushed(self) -> dict[str, str]:
        """What the other topics say: where no loss of power costs a record, it costs no transaction either."""
        is_flushed = all(each.configs.get("flush.messages") == "1" for each in self.topics.values())
        return {"flush.messages": "1"} if is_flushed else {}

    @property
    def offsets_topic(self) -> dict[str, TopicShape]:
        """`__consumer_offsets`, where groups are."""
        configs = {MIN_ISR: str(self.groups.min_isr)}
        if self.transactions.is_used:
            configs |= self._flushed
        if self.transactions.loop is not None:
            configs |= self._cleaned
        shape = TopicShape(OFFSETS_PARTITIONS, OFFSETS_REPLICATION_FACTOR, configs)
        return {OFFSETS_TOPIC: shape} if self.groups.groups else {}

    def is_compacted(self, topic: str) -> bool:
        return self.topics[topic].configs.get("cleanup.policy") == "compact"

    @property
    def partition_counts(self) -> dict[str, int]:
        return {topic: shape.partitions for topic, shape in self.topics.items()}

    def __str__(self) -> str:
        topics = "; ".join(f"{topic} {shape}" for topic, shape in self.topics.items())
        return (
            f"{self.logstores} logstores, {self.gateways} gateways ({self.address_policy.value}), "
            f"{self.purgatories} purgatory pods, "
            f"{self.controllers} controllers, {len(self.producers)} producers, "
            f"{', '.join(each.kind.value for each in self.real_producers) or 'none that acts as a real one'}, "
            f"{len(self.consumers)} consumers, "
            f"{self.groups}, {self.transactions}, {topics}; lag up to {self.replica_lag_ms_max / 1000:g} s, "
            f"{f'administered every {self.administration_us / 1000:g} ms, ' if self.administration_us else ''}"
            f"{f'leaders move every {self.moving_us / 1000:g} ms, ' if self.moving_us else ''}"
            f"{f'{self.pace} times as slow, ' if self.pace > 1 else ''}"
            f"{'encoded' if self.encode else 'by reference'}"
        )


def _without_compaction(topics: dict[str, TopicShape]) -> dict[str, str]:
    """Aborted records would go, and with them the same batches on all replicas."""
    configs = dict(next(iter(topics.values())).configs) if topics else {}
    for key in ("cleanup.policy", "min.cleanable.dirty.ratio"):
        configs.pop(key, None)
    return configs | {MIN_ISR: "2"}


def random_topics(random: Random, configs: dict[str, str]) -> dict[str, TopicShape]:
    """One whose records outlive any one machine, and one that promises what chance has it promise."""
    promises = {MIN_ISR: random.choice(("1", "2", "2"))}
    if random.random() < 0.3:
        promises[UNCLEAN] = "true"
    return {
        "orders": TopicShape(random.randint(1, 3), 3, configs | {MIN_ISR: "2"}),
        "payments": TopicShape(1, random.choice((1, 2, 3, 3)), configs | promises),
    }


def random_replica_lag_ms(random: Random) -> int:
    """`replica.lag.time.max.ms`: Kafka's default, another that is in use, and a short one."""
    return random.choice((REPLICA_LAG_MS_MAX, 10_000, 1_500))


def random_administration_us(random: Random) -> int:
    """Half of all clusters are left alone."""
    return random.choice((0, 0, 0, 300_000, 1_000_000, 3_000_000))
