"""Plays cells one after another on one cluster, and has their histories checked."""

from __future__ import annotations

import random
import shutil
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.faults.cells import Cell, Need
from tests.faults.checker.check import check
from tests.faults.checker.verdict import Verdict
from tests.faults.cluster import FaultCluster, UnhealthyError
from tests.faults.history import Operation, Type, read
from tests.faults.injections.disks import has_compiler
from tests.faults.stage import SETTLE_SECONDS_MAX, AnomalyError, Injection, Stage
from tests.faults.topics import RefusedError, create_topic, delete_topic, in_sync
from tests.faults.workload import Workload, WorkloadError, start

WARM_UP_RECORDS = 300
"""Acknowledged before the first fault."""
WARM_UP_SECONDS_MAX = 60.0
_MIN_IN_SYNC = {"min.insync.replicas": "2"}


@dataclass(slots=True)
class Outcome:
    """What became of a cell."""

    cell: Cell
    verdict: Verdict | None = None
    """None when it came to none: `failures` says why."""
    failures: list[str] = field(default_factory=list)
    """What went wrong beside the records: a cluster that did not come back, clients that stopped."""
    skipped: str = ""
    """Why it was not played."""
    injections: list[Injection] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures and (bool(self.skipped) or (self.verdict is not None and self.verdict.is_clean))

    @property
    def failover_ms(self) -> float:
        """The longest time that any partition waited for an acknowledged write, of those that began in a fault."""
        return self._longest_ms(lambda injection: (injection.began_ns, injection.ended_ns))

    @property
    def return_ms(self) -> float:
        """The same for what began as the fault was taken back, and until everything had settled."""
        return self._longest_ms(lambda injection: (injection.ended_ns, injection.settled_ns))

    @property
    def settle_seconds(self) -> float:
        """The longest time from where a fault was taken back until every ISR was full again."""
        return max((injection.settle_seconds for injection in self.injections if injection.settled_ns), default=0.0)

    @property
    def meets_goal(self) -> bool:
        return self.cell.goal_ms is None or self.failover_ms <= self.cell.goal_ms

    def _longest_ms(self, span: Callable[[Injection], tuple[int, int]]) -> float:
        if self.verdict is None:
            return 0.0
        silences = self.verdict.silences.acknowledged_ns.values()
        done = [span(injection) for injection in self.injections if injection.settled_ns]
        return max((_longest_begun_ms(times, *each) for each in done for times in silences), default=0.0)


def _longest_begun_ms(acknowledged_ns: list[int], from_ns: int, to_ns: int) -> float:
    """The longest wait for an acknowledgement that began between the two times, to its end even after them.

    One that was under way at `from_ns` counts from there.
    """
    longest = 0
    for earlier, later in pairwise([from_ns, *acknowledged_ns[bisect_left(acknowledged_ns, from_ns) :]]):
        if earlier >= to_ns:
            break
        longest = max(longest, later - earlier)
    return longest / 1e6


def _unread(history: Iterable[Operation]) -> list[str]:
    """What a final reader did not get: the cluster is whole, so every gateway serves every partition."""
    return [
        f"{operation.proc}, partition {operation.partition}: {operation.error}"
        for operation in history
        if operation.f == "final" and operation.type is Type.INFO
    ]


class Grid:
    """The cells of one run on one cluster, which has been started."""

    def __init__(
        self, cluster: FaultCluster, seconds: float, seed: int, keep: Path | None, lacking: Mapping[Need, str]
    ) -> None:
        """Cells last so many seconds; `keep` is where the histories and logs of failed ones go, `lacking` why there are
        no such clients here."""
        self._cluster = cluster
        self._seconds = seconds
        self._seed = seed
        self._keep = keep
        self._lacking_clients = lacking
        self._played = 0

    def play(self, cell: Cell) -> Outcome:
        """One cell, and the cluster whole again after it."""
        outcome = Outcome(cell, skipped=self._lacking(cell))
        if outcome.skipped:
            return outcome
        began = time.monotonic()
        self._played += 1
        topic = f"{cell.name}-{self._played}"
        directory = self._cluster.layout.directory / "histories" / topic
        try:
            self._prepare(cell, topic)
            with self._start_clients(cell, topic, directory) as workload:
                self._play(cell, topic, directory, workload, outcome)
        except (UnhealthyError, RefusedError, WorkloadError) as reason:
            outcome.failures.append(str(reason))
        outcome.seconds = time.monotonic() - began
        if not outcome.passed:
            self._keep_traces(topic, directory)
        self._clean_up(topic, directory, outcome)
        return outcome

    def _lacking(self, cell: Cell) -> str:
        lacking = {
            Need.NETWORK: self._cluster.no_network,
            Need.SMALL_DISK: "" if self._cluster.small_disk else "no file system can be mounted here",
            Need.COMPILER: "" if has_compiler() else "there is no gcc here",
            **self._lacking_clients,
        }
        return "; ".join(lacking[need] for need in Need if need in cell.needs and lacking.get(need))

    def _prepare(self, cell: Cell, topic: str) -> None:
        layout = self._cluster.layout
        create_topic(layout, topic, cell.partitions, {**_MIN_IN_SYNC, **cell.configs})
        self._cluster.wait_until(lambda: in_sync(layout, topic, cell.partitions), SETTLE_SECONDS_MAX)

    def _start_clients(self, cell: Cell, topic: str, directory: Path) -> Workload:
        servers = self._cluster.layout.bootstrap.split(",")
        return start(servers, topic, cell.partitions, directory=directory, seed=self._seed, mix=cell.mix)

    def _play(self, cell: Cell, topic: str, directory: Path, workload: Workload, outcome: Outcome) -> None:
        """Rounds of the fault until the time is over; the clients' histories are checked even when one went wrong."""
        chance = random.Random(f"{self._seed} {cell.name}")
        stage = Stage(self._cluster, topic, cell.partitions, chance, workload.nemesis, directory, outcome.injections)
        workload.wait_for_more(WARM_UP_RECORDS, WARM_UP_SECONDS_MAX)
        deadline = time.monotonic() + self._seconds
        try:
            while time.monotonic() < deadline:
                began = time.monotonic()
                # Faults come at any phase of the leases, heartbeats and checkpoints.
                stage.hold(chance.uniform(0.5, 2.0))
                cell.fault(stage)
                if time.monotonic() + (time.monotonic() - began) > deadline:
                    break
            stage.hold(max(0.0, deadline - time.monotonic()))
        except (UnhealthyError, RefusedError, AnomalyError) as reason:
            outcome.failures.append(f"{outcome.injections[-1].what if outcome.injections else cell.name}: {reason}")
            self._make_whole(outcome)
        history = read(workload.stop())
        outcome.verdict = check(history)
        for kind, count in stage.found.items():
            outcome.verdict.counts[kind] += count
        outcome.failures += _unread(history)

    def _make_whole(self, outcome: Outcome) -> None:
        """Take back whatever a fault that was broken off left behind, so that what was acknowledged can be read."""
        try:
            self._cluster.repair()
        except UnhealthyError as reason:
            outcome.failures.append(str(reason))

    def _keep_traces(self, topic: str, directory: Path) -> None:
        """The history, what the services said, and every replica of the topic."""
        if self._keep is None:
            return
        kept = self._keep / topic
        shutil.copytree(directory, kept / "history", dirs_exist_ok=True)
        shutil.copytree(self._cluster.layout.directory / "logs", kept / "logs", dirs_exist_ok=True)
        for path in self._cluster.layout.directory.glob(f"logstore-*/{topic}-*"):
            shutil.copytree(path, kept / path.parent.name / path.name, dirs_exist_ok=True)

    def _clean_up(self, topic: str, directory: Path, outcome: Outcome) -> None:
        """The next cell finds a cluster that is well and has no topic; one that can't be repaired is recreated."""
        shutil.rmtree(directory, ignore_errors=True)
        try:
            self._cluster.repair()
            delete_topic(self._cluster.layout, topic)
        except (UnhealthyError, RefusedError) as reason:
            outcome.failures.append(f"the cluster does not come back: {reason}")
            self._cluster.start_over()
