"""Which groups there are in a run, and what their members are like."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.sim.clients.consumer import Taste
from tests.sim.scheduler import MS, SECOND

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 2
OFFSETS_REPLICATION_FACTOR = 3


@dataclass(slots=True, frozen=True)
class Versions:
    """What a client speaks, API by API."""

    find: int
    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int


# Of the time when members were let in at once; of static members' first; of today, but for topic ids.
FIRST = Versions(find=1, join=3, sync=1, heartbeat=1, leave=1, commit=5, fetch=4)
STATIC = Versions(find=3, join=5, sync=3, heartbeat=3, leave=3, commit=7, fetch=7)
SLOW_FETCH_MS = 3_000
TODAY = Versions(find=4, join=9, sync=5, heartbeat=4, leave=5, commit=9, fetch=9)


@dataclass(slots=True)
class MemberBehaviour:
    """`stay_us`: after about so long it leaves, and comes back; 0: never."""

    versions: Versions
    is_static: bool
    stay_us: int
    taste: Taste


@dataclass(slots=True)
class GroupShape:
    group_id: str
    session_ms: int
    rebalance_ms: int
    heartbeat_us: int
    commit_us: int
    members: list[MemberBehaviour] = field(default_factory=list)
    topics: dict[str, int] | None = None
    """Those that it reads, and how many partitions each has; None: all."""

    @property
    def patience_ms(self) -> int:
        """How long a silent member is not expelled."""
        return min(self.session_ms, self.rebalance_ms)

    @property
    def fetch_wait_ms_max(self) -> int:
        """How long a member's fetch may wait. A heartbeat waits behind it, as with clients that have one connection for
        both (Sarama), and at times behind two: within a session one has to arrive nevertheless.
        """
        return (self.session_ms - round(1.5 * self.heartbeat_us / MS)) // 2


@dataclass(slots=True)
class GroupsShape:
    """All groups of a run; `min_isr`: that of `__consumer_offsets`, 1 where the first request of a group makes it."""

    groups: list[GroupShape] = field(default_factory=list)
    min_isr: int = 1
    initial_rebalance_delay_ms: int = 0
    administration_us: int = 0
    """How long an administrator of groups rests between two requests; 0: there is none."""

    def __str__(self) -> str:
        if not self.groups:
            return "no groups"
        members = "+".join(str(len(group.members)) for group in self.groups)
        return f"{len(self.groups)} groups of {members} members, offsets of min ISR {self.min_isr}"


def random_groups(random: Random) -> GroupsShape:
    """Of a busy cluster: sessions of moments; one cluster in five has none."""
    if random.random() < 0.2:
        return GroupsShape()
    shape = GroupsShape(
        min_isr=random.choice((1, 2, 2)),
        initial_rebalance_delay_ms=random.choice((0, 100, 1_000)),
        administration_us=random.choice((0, 100, 400)) * MS,
    )
    for index in range(random.choice((1, 1, 2))):
        session_ms = random.choice((1_500, 3_000))
        group = GroupShape(
            f"group-{index}",
            session_ms,
            rebalance_ms=random.choice((800, 3_000, 5_000)),
            heartbeat_us=random.choice((150, 400)) * MS,
            commit_us=random.choice((100, 300, 1_000)) * MS,
        )
        for _ in range(random.randint(1, 4)):
            stay_us = random.choice((0, 1, 3, 8)) * SECOND
            group.members.append(_member(random, stay_us, max_wait_ms=random.choice((0, 50, 300))))
        shape.groups.append(group)
    return shape


def random_quiet_groups(random: Random, pace: int) -> GroupsShape:
    """Of a cluster that works at a quiet pace, `pace` times as slow; three in ten have none. Heartbeats come as often
    at any pace.
    """
    if random.random() < 0.3:
        return GroupsShape()
    shape = GroupsShape(
        min_isr=random.choice((1, 2, 2)),
        initial_rebalance_delay_ms=random.choice((0, 3_000)),
        administration_us=random.choice((0, 10)) * SECOND * pace,
    )
    group = GroupShape(
        "group-0",
        session_ms=random.choice((6_000, 10_000)),
        rebalance_ms=random.choice((10_000, 15_000)),
        heartbeat_us=3 * SECOND,
        commit_us=5 * SECOND * pace,
    )
    for _ in range(random.choice((2, 2, 3))):
        stay_us = random.choice((0, 0, 60, 120)) * SECOND * pace
        max_wait_ms = min(SLOW_FETCH_MS if pace > 1 else 1_000, group.fetch_wait_ms_max)
        group.members.append(_member(random, stay_us, max_wait_ms))
    shape.groups.append(group)
    return shape


def _member(random: Random, stay_us: int, max_wait_ms: int) -> MemberBehaviour:
    is_static = random.random() < 0.35
    taste = Taste(
        version=random.choice((4, 11, 12, 13, 18)),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        isolation_level=0,
        uses_sessions=random.random() < 0.6,
    )
    versions = random.choice((STATIC, TODAY) if is_static else (FIRST, STATIC, TODAY))
    return MemberBehaviour(versions, is_static, stay_us, taste)
