"""Programs: what a run does, drawn from its seed before anything happens. A program is data: it can be printed, cut
into pieces and run again.

Each seed has a mixture of its own (a swarm): some operations often, some never, with disks of its own and faults of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from barnabas.ports.disk import DiskErrorKind
from tests.crash.operations import (
    AlterConfigs,
    AppendBatches,
    DeleteRecords,
    DeleteTopic,
    FailDisk,
    FillDisk,
    FreeDisk,
    KillCleaner,
    LookUp,
    MoveReplica,
    NewLeaderEpoch,
    Operation,
    ReadBack,
    RepeatUnanswered,
    Settle,
    Wait,
    Work,
)
from tests.crash.world import End, Shape

CHOICES = 1 << 20
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
COMPACTED = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
POLICIES: tuple[dict[str, str], ...] = (
    KEPT,
    KEPT,
    KEPT | {"retention.ms": "2000"},
    KEPT | {"retention.bytes": "3000"},
    KEPT | {"retention.ms": "5000", "retention.bytes": "10000"},
    COMPACTED,
    COMPACTED | {"delete.retention.ms": "86400000"},
    COMPACTED | {"cleanup.policy": "compact,delete", "retention.bytes": "5000"},
)


@dataclass(slots=True, frozen=True)
class LifePlan:
    """`interrupt_in`: the process ends in the midst of the so-manieth change that it makes on the disk, its start
    included. `chance` is the seed of whatever the disk and the workers leave to chance.
    """

    operations: tuple[Operation, ...]
    end: End
    is_power_cut_after_stop: bool
    interrupt_in: int | None
    chance: int


@dataclass(slots=True, frozen=True)
class Program:
    seed: int
    shape: Shape
    lives: tuple[LifePlan, ...]


def program_of(seed: int) -> Program:
    random = Random(seed)
    shape = _shape(random)
    weights = _weights(random)
    lives = tuple(_life(random, weights) for _ in range(random.randint(12, 45)))
    return Program(seed, shape, lives)


def _shape(random: Random) -> Shape:
    defaults = {
        "segment.index.bytes": random.choice(("24", "40", "120", "10000")),
        "index.interval.bytes": random.choice(("0", "0", "300", "4096")),
        "segment.ms": random.choice(("50", "1000", "1000000000")),
        "file.delete.delay.ms": random.choice(("0", "100")),
    }
    flushing = random.choice(("1", "1", "5", ""))
    if flushing:
        defaults["flush.messages"] = flushing
    if random.random() < 0.4:
        defaults["flush.ms"] = random.choice(("0", "200"))
    defaults |= random.choice(POLICIES)
    options = {
        "retention_check_interval_ms": random.choice((100, 2000)),
        "log_start_checkpoint_interval_ms": random.choice((100, 5000)),
        "recovery_point_checkpoint_interval_ms": random.choice((100, 5000, 60_000)),
        "cleaner_backoff_ms": 100,
    }
    if random.random() < 0.2:
        options["producer_id_expiration_ms"] = 3000
        options["producer_id_expiration_check_interval_ms"] = 100
    topics = (("orders", random.randint(1, 3)), ("payments", 1))[: random.randint(1, 2)]
    directories = ("/data", "/more")[: random.choice((1, 1, 2))]
    return Shape(
        directories,
        topics,
        tuple(sorted(defaults.items())),
        tuple(sorted(options.items())),
        producers=random.randint(0, 3),
        dedupe_buffer_bytes=random.choice((700, 40_000)),
    )


def _life(random: Random, weights: dict[Callable[[Random], Operation], float]) -> LifePlan:
    length = random.choice((0, 3, 10, 30, 60))
    makers = random.choices(list(weights), list(weights.values()), k=length)
    interrupt_in = random.choice((3, 12, 40, 150, 600)) if random.random() < 0.6 else None
    return LifePlan(
        tuple(maker(random) for maker in makers),
        random.choices((End.POWER_CUT, End.KILL, End.CLEAN_STOP), (5, 2, 2))[0],
        random.random() < 0.5,
        None if interrupt_in is None else random.randrange(interrupt_in),
        random.randrange(1 << 32),
    )


def _weights(random: Random) -> dict[Callable[[Random], Operation], float]:
    """How often each operation comes in this run."""
    weights: dict[Callable[[Random], Operation], float] = {
        _append: 8,
        _repeat: 2,
        _work: 8,
        _wait: 2,
        _settle: 0.5,
        _new_epoch: 0.5,
        _delete_topic: 0.1,
        _delete_records: 0.5,
        _alter_configs: 0.1,
        _kill_cleaner: 0.1,
        _move_replica: 0.3,
        _read: 1,
        _look_up: 1,
        _fail_disk: 0.2,
        _fill_disk: 0.1,
        _free_disk: 0.3,
    }
    for maker in list(weights):
        if maker not in (_append, _work):
            weights[maker] *= random.choice((0, 0.3, 1, 1, 3))
    return weights


# --- one operation of each kind ---


def _append(random: Random) -> Operation:
    return AppendBatches(
        partition=random.randrange(CHOICES),
        producer=random.randrange(CHOICES),
        count=random.choice((1, 1, 2, 6)),
        records=random.randint(1, 4),
        value_bytes=random.choice((0, 30, 400, 400, 3000)),
        jitter_ms=random.randint(-30, 30),
        key=random.randrange(CHOICES),
        are_tombstones=random.random() < 0.1,
    )


def _repeat(random: Random) -> Operation:
    return RepeatUnanswered(random.randrange(CHOICES), random.randrange(CHOICES))


def _work(random: Random) -> Operation:
    return Work(random.randrange(CHOICES), random.randint(1, 4))


def _wait(random: Random) -> Operation:
    return Wait(random.choice((1, 10, 100, 6000)))


def _settle(random: Random) -> Operation:
    return Settle()


def _new_epoch(random: Random) -> Operation:
    return NewLeaderEpoch(random.randrange(CHOICES))


def _delete_topic(random: Random) -> Operation:
    return DeleteTopic(random.randrange(CHOICES))


def _delete_records(random: Random) -> Operation:
    return DeleteRecords(random.randrange(CHOICES), random.choice((0, random.randrange(CHOICES))))


def _alter_configs(random: Random) -> Operation:
    settings = random.choice(POLICIES) | {"flush.messages": random.choice(("1", "5", "9223372036854775807"))}
    return AlterConfigs(random.randrange(CHOICES), tuple(sorted(settings.items())))


def _move_replica(random: Random) -> Operation:
    return MoveReplica(random.randrange(CHOICES), random.randrange(CHOICES))


def _kill_cleaner(random: Random) -> Operation:
    return KillCleaner()


def _read(random: Random) -> Operation:
    return ReadBack(random.randrange(CHOICES), random.randrange(CHOICES), random.choice((100, 3000, 1_000_000)))


def _look_up(random: Random) -> Operation:
    return LookUp(random.randrange(CHOICES), random.randrange(CHOICES), random.choice((-1, 0, 0, 1)))


def _fail_disk(random: Random) -> Operation:
    operation, part = random.choice(
        (
            ("write_at", ".log"),
            ("write_at", ".index"),
            ("write_at", ".snapshot"),
            ("write_at", "checkpoint"),
            ("flush", ".log"),
            ("flush", "index"),
            ("flush", ".snapshot"),
            ("flush", "checkpoint"),
            ("flush_directory", ""),
            ("flush_volume", ""),
            ("read_at", ".log"),
            ("open", ".log"),
            ("rename", ""),
            ("truncate", ""),
            ("make_directory", ""),
        )
    )
    kinds = (DiskErrorKind.IO, DiskErrorKind.NO_SPACE) if operation in ("write_at", "open") else (DiskErrorKind.IO,)
    return FailDisk(operation, part, random.choice(kinds), random.choice((0, 0, 2, 10)), random.choice((0, 20, 700)))


def _fill_disk(random: Random) -> Operation:
    return FillDisk(random.choice((0, 100, 1000, 10_000)))


def _free_disk(random: Random) -> Operation:
    return FreeDisk()
