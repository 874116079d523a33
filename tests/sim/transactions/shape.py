"""Which transactions there are in a run, and what their clients are like."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from random import Random

from tests.sim.clients.consumer import Taste
from tests.sim.groups.shape import TODAY, GroupShape, MemberBehaviour
from tests.sim.scheduler import MS, SECOND

LEDGER = "ledger"
"""The topic that transactions write to, besides those that others write to as well."""
STATE_PARTITIONS = 2
STATE_REPLICATION_FACTOR = 3
LOOP_GROUP = "loop-0"
PATIENT_TIMEOUT_MS = 30_000
PATIENT_DELIVERY_TIMEOUT_MS = 15_000
"""Of members whose fetches wait for up to 5 s. A member has one connection, on which a batch waits for up to two
fetches, and so does the end of its transaction: with less time no transaction is committed once nothing new is read.
"""
VERSION_2 = 2


class Kind(Enum):
    JAVA = "java"
    LIBRDKAFKA = "librdkafka"


@dataclass(slots=True)
class TransactionHabits:
    """`version` is that of the transactions (KIP-890). Every `interval_us` or so a transaction begins; it has up to
    `bursts_max` bursts of up to `records_max` records, and each of a burst may go to another partition. `abort_share`
    of them the application aborts; `slow_share` of them it leaves open for longer than `timeout_ms` allows.
    """

    kind: Kind
    version: int
    timeout_ms: int
    delivery_timeout_ms: int
    backoff_ms: int
    interval_us: int
    bursts_max: int
    records_max: int
    abort_share: float = 0.2
    slow_share: float = 0.02


@dataclass(slots=True)
class TransactionsShape:
    """`loop`: a group whose members read, write and commit their offsets within transactions; each by its habits.
    `state_min_isr`: that of `__transaction_state`.
    """

    producers: list[TransactionHabits] = field(default_factory=list)
    loop: GroupShape | None = None
    loop_habits: list[TransactionHabits] = field(default_factory=list)
    first_epochs: dict[str, int] = field(default_factory=dict)
    """By transactional id, where not 0: see `last_epochs`."""
    state_min_isr: int = 2

    @property
    def is_used(self) -> bool:
        return bool(self.producers or self.loop)

    def bound(self, clients: int) -> None:
        """Keep so many producers, and so many members of the loop."""
        self.producers = self.producers[:clients]
        if self.loop is not None:
            self.loop.members = self.loop.members[:clients]
            self.loop_habits = self.loop_habits[:clients]
            if not self.loop.members:
                self.loop = None

    def __str__(self) -> str:
        if not self.is_used:
            return "no transactions"
        producers = "+".join(f"{each.kind.value} v{each.version}" for each in self.producers) or "none"
        members = "+".join(f"{each.kind.value} v{each.version}" for each in self.loop_habits) or "none"
        epochs = ", from epoch " + "+".join(map(str, self.first_epochs.values())) if self.first_epochs else ""
        return f"transactions of {producers}, in a loop of {members}{epochs}, states of min ISR {self.state_min_isr}"


SHARE = 0.5
"""Of the seeds, those with transactions; about three in ten of their clients make them."""


def random_transactions(
    random: Random, *, is_quiet: bool = False, always: bool = False, pace: int = 1
) -> TransactionsShape:
    """Of a busy cluster, or of one that is quiet, `pace` times as slow."""
    if random.random() >= SHARE and not always:
        return TransactionsShape()
    shape = TransactionsShape(
        [_habits(random, is_quiet=is_quiet, pace=pace) for _ in range(random.choice((1, 1, 2)))],
    )
    if random.random() < 0.7:
        members = random.choice((1, 2, 2, 3)) if not is_quiet else random.choice((1, 2))
        shape.loop = _loop(random, members, is_quiet=is_quiet, pace=pace)
        shape.loop_habits = [_habits(random, is_quiet=is_quiet, pace=pace) for _ in range(members)]
        if pace > 1:
            for each in shape.loop_habits:
                each.timeout_ms, each.delivery_timeout_ms = PATIENT_TIMEOUT_MS, PATIENT_DELIVERY_TIMEOUT_MS
    shape.state_min_isr = random.choice((1, 2, 2))
    return shape


def _habits(random: Random, *, is_quiet: bool, pace: int) -> TransactionHabits:
    return TransactionHabits(
        kind=random.choice(list(Kind)),
        version=random.choice((0, VERSION_2)),
        timeout_ms=random.choice((10_000, 30_000)) if is_quiet else random.choice((2_000, 5_000, 10_000)),
        delivery_timeout_ms=random.choice((4_000, 15_000)),
        backoff_ms=random.choice((20, 100)),
        interval_us=(random.choice((2_000, 4_000)) if is_quiet else random.choice((30, 100, 400))) * MS * pace,
        bursts_max=random.choice((1, 2, 3)),
        records_max=2 if is_quiet else random.choice((1, 3, 8)),
    )


def _loop(random: Random, members: int, *, is_quiet: bool, pace: int) -> GroupShape:
    group = GroupShape(
        LOOP_GROUP,
        session_ms=random.choice((6_000, 10_000)) if is_quiet else random.choice((1_500, 3_000)),
        rebalance_ms=random.choice((10_000, 15_000)) if is_quiet else random.choice((800, 3_000, 5_000)),
        heartbeat_us=3 * SECOND if is_quiet else random.choice((150, 400)) * MS,
        commit_us=3 * SECOND * pace if is_quiet else random.choice((100, 300, 1_000)) * MS,
    )
    for _ in range(members):
        taste = Taste(
            version=random.choice((11, 12, 13, 18)),
            max_wait_ms=min(random.choice(_loop_max_wait_ms(pace, is_quiet=is_quiet)), group.fetch_wait_ms_max),
            min_bytes=1,
            isolation_level=1,
            uses_sessions=random.random() < 0.6,
        )
        stay_us = 0 if is_quiet else random.choice((0, 0, 3, 8)) * SECOND
        group.members.append(MemberBehaviour(TODAY, False, stay_us, taste))
    return group


def _loop_max_wait_ms(pace: int, *, is_quiet: bool) -> tuple[int, int]:
    if not is_quiet:
        return (50, 300)
    return (500, 1_000) if pace == 1 else (1_000, 5_000)
