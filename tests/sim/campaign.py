"""Many seeds, on all cores: what they added up to, which failed, and whether what ran was a run.

Seeds are handed out one by one and taken back in their order, so that an interruption leaves all of them up to some
seed done, and the next campaign can go on there. One seed in a hundred is run again, and must leave the same trace.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from tests.sim.drains import DrainStep
from tests.sim.faults import Fault
from tests.sim.run import Options, Outcome
from tests.sim.workers import Workers

RERUN_EVERY = 100
# A campaign of so many seeds has to have hit with every fault there is, and to have had drains come to all they can.
SEEDS_FOR_EVERY_FAULT = 200


@dataclass(slots=True)
class Open:
    """A seed that failed."""

    seed: int
    failure: str


@dataclass(slots=True)
class Totals:
    """What the seeds from `first` to before `next_seed` came to."""

    first: int
    next_seed: int
    seeds: int = 0
    virtual_ms: int = 0
    events: int = 0
    operations: int = 0
    acknowledged: int = 0
    groups: int = 0
    rebalances: int = 0
    commits: int = 0
    transactions: int = 0
    transactional_ms: int = 0
    """Virtual time of the seeds that had transactions."""
    transitions: int = 0
    leader_changes: int = 0
    isr_changes: int = 0
    cpu_s: float = 0
    rerun: int = 0
    hits: Counter[Fault] = field(default_factory=Counter)
    drains: Counter[DrainStep] = field(default_factory=Counter)
    distinct: set[int] = field(default_factory=set)
    open: list[Open] = field(default_factory=list)

    @property
    def virtual_hours(self) -> float:
        return self.virtual_ms / 3_600_000

    @property
    def operations_per_s(self) -> float:
        return self.operations * 1_000 / max(1, self.virtual_ms)

    @property
    def never_hit(self) -> list[Fault | DrainStep]:
        """Faults that the campaign was large enough to hit with, and has not; and the possible results of drains."""
        if self.seeds < SEEDS_FOR_EVERY_FAULT:
            return []
        never = [fault for fault in Fault if not self.hits[fault]]
        return [*never, *[step for step in DrainStep if not self.drains[step]]]

    def add(self, outcome: Outcome) -> None:
        self.next_seed = outcome.seed + 1
        self.seeds += 1
        self.virtual_ms += outcome.virtual_ms
        self.events += outcome.events
        self.operations += outcome.operations
        self.acknowledged += outcome.acknowledged
        self.groups += outcome.groups
        self.rebalances += outcome.rebalances
        self.commits += outcome.commits
        self.transactions += outcome.transactions
        self.transactional_ms += outcome.virtual_ms if outcome.transactions else 0
        self.transitions += outcome.reached.transitions
        self.leader_changes += outcome.reached.leader_changes
        self.isr_changes += outcome.reached.isr_changes
        self.cpu_s += outcome.cpu_s
        self.hits += outcome.hits
        self.drains += outcome.drains
        self.distinct |= outcome.reached.distinct
        if outcome.failure is not None:
            self.open.append(Open(outcome.seed, str(outcome.failure)))

    def __str__(self) -> str:
        return (
            f"{self.seeds:,} seeds, {len(self.open)} open; {self.virtual_hours:.2f} virtual hours, "
            f"{self.operations:,} operations ({self.operations_per_s:.1f}/s), {sum(self.hits.values()):,} faults, "
            f"{self.leader_changes:,} leader changes, {len(self.distinct):,} distinct transitions, "
            f"{self.groups:,} groups, {self.rebalances:,} rebalances, {self.commits:,} commits, "
            f"{self.transactions:,} transactions in {self.transactional_ms / 3_600_000:.2f} hours"
        )


class Campaign:
    """`enough` is asked after every seed; `noticed` hears of every outcome, in the order of the seeds."""

    def __init__(
        self,
        totals: Totals,
        options: Options,
        processes: int | None,
        *,
        enough: Callable[[Totals], bool],
        noticed: Callable[[Outcome], None],
    ) -> None:
        self.totals = totals
        self._options = options
        self._processes = processes
        self._enough = enough
        self._noticed = noticed

    def run(self) -> None:
        """Until it is enough, or interrupted: then what was done is in the totals all the same."""
        workers = Workers(self._processes)
        try:
            for outcome in self._outcomes(workers):
                self.totals.add(outcome)
                self._noticed(outcome)
                if self._enough(self.totals):
                    break
        finally:
            workers.close()

    def _outcomes(self, workers: Workers) -> Iterator[Outcome]:
        under_way: deque[tuple[Future[Outcome], Future[Outcome] | None]] = deque()
        seed = self.totals.next_seed
        while True:
            while len(under_way) < 4 * workers.processes:
                job = seed, self._options
                is_run_twice = (seed - self.totals.first) % RERUN_EVERY == 0
                again = workers.submit(job) if is_run_twice else None
                under_way.append((workers.submit(job), again))
                seed += 1
            once, again = under_way.popleft()
            outcome = once.result()
            if again is not None:
                self.totals.rerun += 1
                if again.result().trace != outcome.trace and outcome.failure is None:
                    self.totals.open.append(Open(outcome.seed, "two runs of the seed are not the same"))
            yield outcome


class Progress:
    """Tells how far it is, now and then, and of every failure at once."""

    EVERY_S = 15

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._began_s = self._reported_s = time.monotonic()

    def noticed(self, outcome: Outcome) -> None:
        if outcome.failure is not None:
            print(f"seed {outcome.seed} FAILED: {outcome.failure}", flush=True)
        now_s = time.monotonic()
        if now_s - self._reported_s >= self.EVERY_S:
            self._reported_s = now_s
            print(f"{now_s - self._began_s:6.0f} s  {self._totals}", flush=True)


def commit() -> str:
    """Which code this is; with `+` when it is not quite that."""
    return _marked(_git("rev-parse", "--short=12", "HEAD"), *PRODUCT, "tests/sim")


def product_commit() -> str:
    """The last commit that has changed the product; with `+` when it is not quite that."""
    return _marked(_git("log", "-1", "--format=%h", "--abbrev=12", "--", *PRODUCT), *PRODUCT)


PRODUCT = ("barnabas", "services")


def _marked(commit: str, *paths: str) -> str:
    changed = _git("status", "--porcelain", "--untracked-files=no", *paths)
    return (commit or "unknown") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    root = Path(__file__).parents[2]
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True).stdout.strip()
