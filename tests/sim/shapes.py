"""What a seed plays: which cluster, who works with it, how long, and how often something goes wrong.

BUSY is dense: seconds, thousands of events each, a fault every moment; it finds most. LONG is hours: minutes of a
cluster that works at a quiet pace, with a fault now and then, as a cluster lives; it finds what needs time to go wrong,
and what goes wrong after something else has healed. Half of these runs are slower still, four or ten times, and last as
many times as long: they find what only happens between two acts. SPARSE is BUSY with few records: where only the faults
matter. UNCLEAN is SPARSE with topics that any replica may lead, whatever it lacks: leaders are elected unclean all the
time.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from random import Random

from barnabas_gateway.core.model.config import AddressPolicy
from tests.sim.clients.consumer import Taste
from tests.sim.clients.producer import Behaviour
from tests.sim.clients.producers.calls import ProducerConfig
from tests.sim.clients.producers.process import Habits, Kind
from tests.sim.faults import Fault
from tests.sim.groups.shape import GroupsShape, random_groups, random_quiet_groups
from tests.sim.scheduler import MS, SECOND
from tests.sim.topology import (
    MIN_ISR,
    UNCLEAN,
    Shape,
    TopicShape,
    random_administration_us,
    random_replica_lag_ms,
    random_topics,
)
from tests.sim.transactions.last_epochs import begin_at_last_epochs
from tests.sim.transactions.shape import random_transactions

ENCODED_SHARE = 0.1
PACES = (1, 1, 1, 4, 4, 10)
"""Of LONG: how many times as long clients and administrators rest, faults stay away, and the run lasts."""
SLOW_MAX_WAIT_MS = (1_000, 5_000)
"""`fetch.max.wait.ms` of consumers where little is written."""


class Profile(Enum):
    BUSY = "busy"
    SPARSE = "sparse"
    LONG = "long"
    MOVING = "moving"
    UNCLEAN = "unclean"


@dataclass(slots=True)
class AtMost:
    """Bounds that make a case smaller. They count after everything is drawn, so that nothing else is drawn by them."""

    logstores: int = 99
    gateways: int = 99
    purgatories: int = 99
    controllers: int = 99
    producers: int = 99
    consumers: int = 99
    topics: int = 99
    partitions: int = 99
    replication_factor: int = 99
    groups: int = 99
    members: int = 99
    transactional: int = 99

    def bound(self, shape: Shape) -> None:
        shape.logstores = min(shape.logstores, self.logstores)
        shape.gateways = min(shape.gateways, self.gateways)
        shape.purgatories = min(shape.purgatories, self.purgatories)
        shape.controllers = min(shape.controllers, self.controllers)
        shape.producers = shape.producers[: self.producers]
        shape.real_producers = shape.real_producers[: self.producers]
        shape.consumers = shape.consumers[: self.consumers]
        shape.groups.groups = shape.groups.groups[: self.groups]
        for group in shape.groups.groups:
            group.members = group.members[: self.members]
        shape.transactions.bound(self.transactional)
        kept = list(shape.topics.items())[: self.topics]
        shape.topics = {
            topic: TopicShape(
                min(each.partitions, self.partitions),
                min(each.replication_factor, self.replication_factor, shape.logstores),
                each.configs,
            )
            for topic, each in kept
        }
        shape.make_room_for_transactions(self.partitions, self.replication_factor)

    def __str__(self) -> str:
        """As the command line has it."""
        bounds = {each.name: getattr(self, each.name) for each in fields(self)}
        return ",".join(f"{name}={bound}" for name, bound in bounds.items() if bound < 99)


def random_shape(
    random: Random,
    profile: Profile = Profile.BUSY,
    *,
    is_transactional: bool = False,
    has_last_epochs: bool = False,
) -> Shape:
    """`is_transactional`: some clients make transactions in any case, in the profiles that have such clients;
    `has_last_epochs`: near the last epoch of their producer ids.
    """
    shape = _random_shape(random, profile)
    if profile in (Profile.BUSY, Profile.SPARSE, Profile.LONG):
        is_quiet = profile is Profile.LONG
        always = is_transactional or has_last_epochs
        shape.transactions = random_transactions(random, is_quiet=is_quiet, always=always, pace=shape.pace)
        if has_last_epochs:
            begin_at_last_epochs(random, shape.transactions, is_quiet=is_quiet)
    return shape


def _random_shape(random: Random, profile: Profile) -> Shape:
    match profile:
        case Profile.BUSY:
            return _busy(random)
        case Profile.SPARSE:
            return _sparse(random)
        case Profile.LONG:
            return _long(random)
        case Profile.MOVING:
            return _moving(random)
        case Profile.UNCLEAN:
            return _unclean(random)


def random_seconds(random: Random, profile: Profile, pace: int) -> int:
    """How long things go wrong, in virtual seconds."""
    return random.choice((300, 600, 900)) * pace if profile is Profile.LONG else 20


def random_fault_interval_us(random: Random, profile: Profile, pace: int) -> int:
    """One fault about every so many microseconds."""
    if profile is Profile.LONG:
        return random.choice((10 * SECOND, 15 * SECOND, 30 * SECOND)) * pace
    return random.choice((150 * MS, 400 * MS, 1_000 * MS, 3_000 * MS))


def random_faults(random: Random) -> list[Fault]:
    """A swarm: some kinds in this run, none of the others."""
    kinds = list(Fault)
    return random.sample(kinds, random.randint(0, len(kinds)))


def _busy(random: Random) -> Shape:
    behaviours = [
        Behaviour(
            idempotent=idempotent,
            acks=-1 if idempotent else random.choice((-1, 0, 1)),
            version=random.choice((3, 7, 9, 12, 13)),
            interval_us=random.choice((10, 40, 150)) * MS,
            records_max=random.choice((1, 3, 20)),
        )
        for idempotent in (True, random.random() < 0.5, False)[: random.randint(1, 3)]
    ]
    tastes = [
        Taste(
            version=random.choice((4, 7, 11, 12, 13, 18)),
            max_wait_ms=random.choice((0, 20, 500)),
            min_bytes=random.choice((1, 1, 500, 20_000)),
            isolation_level=random.choice((0, 1)),
            uses_sessions=random.random() < 0.6,
        )
        for _ in range(random.randint(1, 3))
    ]
    return Shape(
        logstores=random.choice((3, 3, 3, 3, 4, 5)),
        gateways=random.randint(1, 3),
        purgatories=random.randint(1, 2),
        controllers=random.randint(1, 3),
        topics=random_topics(random, _topic_configs(random)),
        producers=behaviours,
        consumers=tastes,
        encode=random.random() < ENCODED_SHARE,
        replica_lag_ms_max=random_replica_lag_ms(random),
        expendable=["payments"],
        administration_us=random_administration_us(random),
        groups=random_groups(random),
        real_producers=[_habits(random, 30) for _ in range(random.choice((0, 1, 1, 2)))],
        moving_us=random.choice((0, 0, 600, 2_000)) * MS,
        address_policy=random.choice(list(AddressPolicy)),
    )


def _sparse(random: Random) -> Shape:
    shape = _busy(random)
    for behaviour in shape.producers:
        behaviour.interval_us = random.choice((60, 120)) * MS
        behaviour.records_max = 3
    for taste in shape.consumers:
        taste.max_wait_ms = 500
    shape.replica_lag_ms_max = random.choice((1_500, 1_500, shape.replica_lag_ms_max))
    return shape


def _unclean(random: Random) -> Shape:
    shape = _sparse(random)
    configs = _topic_configs(random) | {MIN_ISR: "1", UNCLEAN: "true"}
    shape.topics = {
        "orders": TopicShape(random.randint(1, 3), 2, configs),
        "payments": TopicShape(1, random.choice((2, 3)), configs),
    }
    shape.replica_lag_ms_max = 1_500
    return shape


def _topic_configs(random: Random) -> dict[str, str]:
    configs = {
        "segment.ms": random.choice(("200", "2000", "600000")),
        "index.interval.bytes": random.choice(("0", "4096")),
    }
    if random.random() < 0.3:
        # Every key is there once: nothing goes, and everything is moved.
        configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    if random.random() < 0.3:
        configs["flush.messages"] = "1"
    return configs


def _long(random: Random) -> Shape:
    """Three logstores or more, and at the first pace between five and six operations a second: what is produced, and
    what is read.
    """
    pace = random.choice(PACES)
    producers = [
        Behaviour(
            idempotent=idempotent,
            acks=-1 if idempotent else random.choice((-1, 1)),
            version=random.choice((3, 7, 9, 12, 13)),
            interval_us=interval_ms * MS * pace,
            records_max=random.choice((1, 3)),
        )
        for idempotent, interval_ms in ((True, 560), (random.random() < 0.7, 1_100))
    ]
    consumers = [
        Taste(
            version=random.choice((4, 7, 11, 12, 13, 18)),
            max_wait_ms=random.choice((500, 1_000) if pace == 1 else SLOW_MAX_WAIT_MS),
            min_bytes=random.choice((1, 1, 200)),
            isolation_level=random.choice((0, 1)),
            uses_sessions=random.random() < 0.6,
        )
        for _ in range(random.choice((1, 1, 1, 1, 2)))
    ]
    return Shape(
        logstores=random.choice((3, 3, 3, 3, 3, 4)),
        gateways=2,
        purgatories=random.randint(1, 2),
        controllers=2,
        topics=random_topics(
            random, _topic_configs(random) | {"segment.ms": random.choice(("10000", "60000", "600000"))}
        ),
        producers=producers,
        consumers=consumers,
        encode=random.random() < ENCODED_SHARE,
        replica_lag_ms_max=random_replica_lag_ms(random),
        expendable=["payments"],
        administration_us=random.choice((0, 5, 10, 20)) * SECOND * pace,
        groups=random_quiet_groups(random, pace),
        real_producers=[_habits(random, 1_000 * pace, records_max=1) for _ in range(random.choice((0, 1, 1)))],
        moving_us=random.choice((0, 0, 10, 30)) * SECOND * pace,
        address_policy=random.choice(list(AddressPolicy)),
        pace=pace,
    )


def _moving(random: Random) -> Shape:
    """Leaders move all the time, and nothing else goes wrong in it but what `random_faults` has. Some applications open
    a producer for a few records at a time: each has a first batch for every partition, which a leader takes at any
    sequence.
    """
    habits = [_habits(random, random.choice((5, 10, 30))) for _ in range(random.randint(1, 2))]
    for each in habits:
        each.records_per_life = random.choice((0, 30, 200))
    return Shape(
        logstores=3,
        gateways=random.randint(1, 2),
        purgatories=random.randint(1, 2),
        controllers=1,
        topics={"orders": TopicShape(random.choice((3, 6, 9)), 3, {MIN_ISR: "2"})},
        real_producers=habits,
        consumers=[Taste(version=13, max_wait_ms=500, min_bytes=1, isolation_level=0, uses_sessions=True)],
        encode=random.random() < ENCODED_SHARE,
        moving_us=random.choice((200, 300, 600)) * MS,
        address_policy=random.choice(list(AddressPolicy)),
        groups=GroupsShape(),
    )


def _habits(random: Random, interval_ms: int, records_max: int = 12) -> Habits:
    """Of a client that sends up to `records_max` records every `interval_ms` or so."""
    kind = random.choice(list(Kind))
    return Habits(
        kind,
        ProducerConfig(
            batch_records_max=random.choice((1, 3, 10)),
            linger_ms=random.choice((0, 1, 5)),
            retry_backoff_ms=random.choice((20, 100)),
            request_timeout_ms=12_000,
            delivery_timeout_ms=random.choice((20_000, 120_000, 120_000)),
        ),
        version=random.choice((9, 10, 13) if kind is Kind.JAVA else (7, 9, 10)),
        interval_us=interval_ms * MS,
        burst_max=random.randint(1, records_max),
    )
