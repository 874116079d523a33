"""One run from one seed: a cluster and a mixture of faults by chance, its three acts, and what came of it."""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import Enum

from tests.sim.cluster import Cluster
from tests.sim.drains import DrainStep
from tests.sim.exceptions.account import Ended
from tests.sim.exceptions.exceptions import ExceptionRun, Exceptions
from tests.sim.faults import Fault, Faults
from tests.sim.replayed_states import check_replayed_states
from tests.sim.scheduler import MS, SECOND, InvariantViolation, Scheduler, StepsUsedUp
from tests.sim.shapes import AtMost, Profile, random_fault_interval_us, random_faults, random_seconds, random_shape
from tests.sim.story import Failure, short_story
from tests.sim.transitions import Reached

# A run of the default length has some hundred thousand.
EVENTS_MAX = 8_000_000
"""The longest runs, of two and a half hours, have five million."""


@dataclass(slots=True)
class Options:
    """What is not left to the seed: `seconds` of virtual time with faults, which kinds, and how large a cluster at
    most. `steps` ends a run after so many events, wherever it is then; the last `lines_max` are described in words.
    """

    seconds: int | None = None
    steps: int | None = None
    lines_max: int = 0
    faults: list[Fault] | None = None
    profile: Profile = Profile.BUSY
    at_most: AtMost = field(default_factory=AtMost)
    is_transactional: bool = False
    """Some clients make transactions in any case."""
    has_last_epochs: bool = False
    """These begin near the last epoch, and many time out."""
    exceptions: Exceptions | None = None


@dataclass(slots=True)
class Outcome:
    """What a run has to tell; without a `failure` everything held. `operations` are requests of clients that were
    answered: produces, and fetches that brought records.
    """

    seed: int
    trace: str
    events: int
    virtual_ms: int
    cpu_s: float
    operations: int
    acknowledged: int
    groups: int
    rebalances: int
    commits: int
    transactions: int
    """Completed by their coordinators."""
    replayed_shards: int
    """Shards of coordinators whose logs were replayed at the end, and compared with what they have stored."""
    reported: str
    shape: str
    hits: Counter[Fault]
    kinds: list[Fault]
    drains: Counter[DrainStep]
    reached: Reached
    thrown: list[Ended]
    failure: Failure | None
    remembered: list[str]

    def __str__(self) -> str:
        faults = ", ".join(f"{hits} × {fault.value}" for fault, hits in sorted(self.hits.items(), key=_by_name))
        drains = ", ".join(
            f"{count} × {step.value}" for step, count in sorted(self.drains.items(), key=_by_name) if count
        )
        lines = [
            f"seed {self.seed}: {self.shape}",
            f"  {self.virtual_ms / 1000:.1f} virtual seconds, {self.events:,} events, {self.operations:,} operations",
            f"  {self.reported}",
            f"  {self.reached.leader_changes} leader changes, {self.reached.isr_changes} changes of an ISR, "
            f"{len(self.reached.distinct)} distinct transitions",
            f"  drains: {drains or 'none'}",
            f"  faults: {faults or 'none'}",
        ]
        if self.thrown:
            lines.append(f"  exceptions: {len(self.thrown)} thrown")
        if self.failure is not None:
            lines += [f"    {line}" for line in short_story(self.failure, self.remembered)]
            lines.append(f"  FAILED: {self.failure}")
        return "\n".join(lines)


def _by_name(item: tuple[Enum, int]) -> str:
    return item[0].name


def simulate(seed: int, options: Options | None = None) -> Outcome:
    began_s = time.process_time()
    options = options or Options()
    scheduler = Scheduler(seed, options.steps or EVENTS_MAX, options.lines_max)
    random = scheduler.random
    shape = random_shape(
        random,
        options.profile,
        is_transactional=options.is_transactional,
        has_last_epochs=options.has_last_epochs,
    )
    seconds = random_seconds(random, options.profile, shape.pace)
    seconds = seconds if options.seconds is None else options.seconds
    options.at_most.bound(shape)
    thrown = None if options.exceptions is None else ExceptionRun(seed, options.exceptions, seconds * SECOND)
    with nullcontext() if thrown is None else thrown.thrower.planted():
        cluster = Cluster(scheduler, shape)
        kinds = random_faults(random)
        if options.faults is not None:
            kinds = options.faults
        if thrown is not None:
            thrown.prepare(cluster, has_faults=bool(kinds))
        faults = Faults(cluster, kinds, random_fault_interval_us(random, options.profile, shape.pace))
        cluster.deliveries.is_disturbed = lambda: bool(faults.hits) or (thrown is not None and thrown.is_disturbing)
        failure = _play(cluster, faults, seconds, thrown, has_steps=options.steps is not None)
    replayed_shards = 0
    if failure is None and options.steps is None:
        # Outside of what is thrown: what the cores have stored is looked at, and nothing of it runs.
        try:
            replayed_shards = check_replayed_states(cluster)
        except InvariantViolation as violation:
            failure = _failure(violation, cluster)
    counts, grouped = cluster.history.counts, cluster.groups.history.counts
    transacted = cluster.transactions.history.counts
    cleaned = sum(each.passes for each in cluster.logstores)
    return Outcome(
        seed=seed,
        trace=scheduler.trace,
        events=scheduler.events,
        virtual_ms=scheduler.now_us // MS,
        cpu_s=time.process_time() - began_s,
        operations=counts.operations,
        acknowledged=counts.acked,
        groups=grouped.groups,
        rebalances=grouped.rebalances,
        commits=grouped.commits,
        transactions=transacted.completed,
        replayed_shards=replayed_shards,
        reported=f"{counts}, {grouped}; {transacted}; {cleaned} logs cleaned; {cluster.network}",
        shape=str(shape),
        hits=faults.hits,
        kinds=kinds,
        drains=cluster.promises.elections.drains.reached,
        reached=cluster.transitions.reached,
        thrown=[] if thrown is None else thrown.account.ended(),
        failure=failure,
        remembered=list(scheduler.remembered),
    )


def _play(
    cluster: Cluster, faults: Faults, seconds: int, thrown: ExceptionRun | None, *, has_steps: bool
) -> Failure | None:
    """Play the acts of a run; return what has not held."""
    try:
        cluster.start()
        cluster.start_clients()
        faults.start()
        if thrown is not None:
            thrown.begin(cluster, has_faults=bool(faults.kinds))
        cluster.run_for(seconds * SECOND)
        if thrown is not None:
            thrown.end()
        cluster.settle(faults)
        if thrown is not None:
            thrown.account.check_that_all_are_reported()
    except StepsUsedUp:
        if not has_steps:
            return Failure(f"liveness: no rest after {EVENTS_MAX} events", "", cluster.scheduler.now_us, [], [])
    except Exception as error:
        return _failure(error, cluster)
    return None


def _failure(error: Exception, cluster: Cluster) -> Failure:
    message = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)[-2:]
    place = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))
    processes = [each.name for each in cluster.processes if re.search(rf"\b{each.name}\b", message)]
    partitions = []
    topic_ids = {topic: topic_id for client in cluster.clients for topic, topic_id in client.topic_ids.items()}
    for topic, topic_id in topic_ids.items():
        for partition in range(cluster.shape.topics[topic].partitions):
            reported = f"{topic_id.hex()[:8]}-{partition}"
            if reported in message or f"{topic}-{partition}" in message:
                # As messages on connections have it, and as directories of logs do.
                partitions += [f"{reported[:4]}-{partition}", f"{topic}-{partition}"]
    return Failure(message, place, cluster.scheduler.now_us, processes, partitions)


def simulate_job(job: tuple[int, Options]) -> Outcome:
    """For pools of processes."""
    return simulate(*job)
