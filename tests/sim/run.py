"""One run from one seed: a cluster and a mixture of faults by chance, its three acts, and what came of it."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.sim.clients.consumer import Taste
from tests.sim.clients.producer import Behaviour
from tests.sim.cluster import Cluster, Shape
from tests.sim.faults import Fault, Faults
from tests.sim.scheduler import MS, SECOND, Scheduler, StepsUsedUp

ENCODED_SHARE = 0.1
# A run of the default length has some hundred thousand.
EVENTS_MAX = 5_000_000
FAULT_INTERVALS_US = (150 * MS, 400 * MS, 1_000 * MS, 3_000 * MS)


@dataclass(slots=True)
class Options:
    """`seconds` of virtual time with faults; `steps` ends a run after so many events, wherever it is then."""

    seconds: int = 20
    steps: int | None = None
    lines_max: int = 0
    faults: list[Fault] | None = None


@dataclass(slots=True)
class Outcome:
    """What a run has to tell; `failure` is empty when everything held."""

    seed: int
    trace: str
    events: int
    virtual_ms: int
    operations: str
    network: str
    shape: str
    hits: Counter[Fault] = field(default_factory=Counter)
    failure: str = ""
    remembered: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{hits} × {fault.value}" for fault, hits in sorted(self.hits.items(), key=_by_name))
        lines = [
            f"seed {self.seed}: {self.shape}",
            f"  {self.virtual_ms / 1000:.1f} virtual seconds, {self.events} events",
            f"  {self.operations}",
            f"  {self.network}",
            f"  faults: {faults or 'none'}",
        ]
        if self.failure:
            lines += ["  the last events:", *(f"    {line}" for line in self.remembered), f"  FAILED: {self.failure}"]
        return "\n".join(lines)


def _by_name(item: tuple[Fault, int]) -> str:
    return item[0].name


def random_shape(random: Random) -> Shape:
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
    configs = {
        "segment.ms": random.choice(("200", "2000", "600000")),
        "index.interval.bytes": random.choice(("0", "4096")),
    }
    if random.random() < 0.3:
        # Every key is there once: nothing goes, and everything is moved.
        configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    if random.random() < 0.3:
        configs["flush.messages"] = "1"
    return Shape(
        logstores=random.randint(1, 3),
        gateways=random.randint(1, 3),
        purgatories=random.randint(1, 2),
        controllers=random.randint(1, 2),
        topics={"orders": random.randint(1, 3), "payments": 1},
        topic_configs=configs,
        producers=behaviours,
        consumers=tastes,
        encode=random.random() < ENCODED_SHARE,
        follower_lag_us_max=random.choice((0, 2 * MS, 20 * MS, 200 * MS)),
    )


def random_faults(random: Random) -> list[Fault]:
    """A swarm: some kinds in this run, none of the others."""
    kinds = list(Fault)
    return random.sample(kinds, random.randint(0, len(kinds)))


def simulate(seed: int, options: Options | None = None) -> Outcome:
    options = options or Options()
    scheduler = Scheduler(seed, options.steps or EVENTS_MAX, options.lines_max)
    random = scheduler.random
    shape = random_shape(random)
    cluster = Cluster(scheduler, shape)
    kinds = random_faults(random)
    faults = Faults(cluster, kinds if options.faults is None else options.faults, random.choice(FAULT_INTERVALS_US))
    failure = ""
    try:
        cluster.start()
        cluster.start_clients()
        faults.start()
        cluster.run_for(options.seconds * SECOND)
        cluster.settle(faults)
    except StepsUsedUp:
        if options.steps is None:
            failure = f"liveness: no rest after {EVENTS_MAX} events"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
    return Outcome(
        seed=seed,
        trace=scheduler.trace,
        events=scheduler.events,
        virtual_ms=scheduler.now_us // MS,
        operations=f"{cluster.history.counts}, {sum(each.passes for each in cluster.logstores)} logs cleaned",
        network=str(cluster.network),
        shape=str(shape),
        hits=faults.hits,
        failure=failure,
        remembered=list(scheduler.remembered),
    )


def simulate_job(job: tuple[int, Options]) -> Outcome:
    """For pools of processes."""
    return simulate(*job)
