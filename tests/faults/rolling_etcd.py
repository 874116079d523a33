"""A rolling restart of etcd: each of three members ended and started again in turn, under producers that never stop.

    python -m tests.faults.rolling_etcd --times 2            # by SIGTERM, as an upgrade does it
    python -m tests.faults.rolling_etcd --times 2 --kill     # by SIGKILL

The cluster is that of the fault grid: three members of etcd, two controllers, three logstores, two gateways. The member
that leads comes last in its round, so that every round has an election of etcd's in it. Every acknowledged record must
be there, once, in order: exit code 0 when it is so. The silences are figures, and no judgement.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.faults import evidence
from tests.faults.checker import Verdict, check
from tests.faults.cluster import FaultCluster, UnhealthyError, signals_end_the_run
from tests.faults.history import read
from tests.faults.machines import ETCD
from tests.faults.measured_runs import (
    MIX,
    PARTITIONS,
    RECORDS_BETWEEN,
    REPAIR_SECONDS_MAX,
    MeasuredRun,
    fields_of_run,
    say,
)
from tests.faults.topics import create_topic, in_sync
from tests.faults.workload import Workload, WorkloadError, start

TOPIC = "rolling-etcd"

STOP_SECONDS_MAX = 30.0

Say = Callable[[str], None]


@dataclass(slots=True, frozen=True)
class Restart:
    """Times are time.monotonic_ns()."""

    member: str
    was_leader: bool
    at_ns: int
    over_ns: int
    """When writes went on, and every process had all its streams and every replica was in sync."""
    controller_epochs: int
    """How often another controller became active meanwhile, or the same one again."""


class Silence(msgspec.Struct, frozen=True):
    """What is saved of a restart."""

    member: str
    was_leader: bool
    silence_ms: int
    """The longest that a partition went without an acknowledged write."""
    settled_ms: int
    controller_epochs: int


class RollingEtcd:
    """One run on a running cluster."""

    def __init__(self, cluster: FaultCluster, directory: Path, seed: int, kills: bool, say: Say) -> None:
        self._cluster = cluster
        self._directory = directory
        self._seed = seed
        self._kills = kills
        self._say = say
        self.restarts: list[Restart] = []

    def run(self, times: int) -> Verdict:
        """Restart each member so many times. Raises UnhealthyError, RefusedError and WorkloadError."""
        layout = self._cluster.layout
        create_topic(layout, TOPIC, PARTITIONS, {"min.insync.replicas": "2"})
        servers = layout.bootstrap.split(",")
        with start(servers, TOPIC, PARTITIONS, directory=self._directory, seed=self._seed, mix=MIX) as workload:
            workload.wait_for_more(RECORDS_BETWEEN)
            for round_number in range(1, times + 1):
                leader = self._cluster.etcd_leader()
                for member in sorted(ETCD, key=lambda each: (each == leader, each)):
                    self._restart(member, workload)
                    done = self.restarts[-1]
                    self._say(
                        f"round {round_number}/{times}: {member} restarted{' as leader' if done.was_leader else ''}, "
                        f"settled in {(done.over_ns - done.at_ns) / 1e9:.1f} s; {workload.acknowledged} acknowledged"
                    )
            self._say("reading everything")
            return check(read(workload.stop()))

    def _restart(self, member: str, workload: Workload) -> None:
        was_leader = self._cluster.etcd_leader() == member
        epoch = self._controller_epoch()
        workload.nemesis.fault(f"restart of {member}")
        at_ns = time.monotonic_ns()
        if self._kills:
            self._cluster.kill(member)
        else:
            self._cluster.terminate(member, STOP_SECONDS_MAX)
        self._cluster.spawn(member)
        workload.wait_for_more(RECORDS_BETWEEN, REPAIR_SECONDS_MAX)
        self._cluster.wait_until(self._unsettled, REPAIR_SECONDS_MAX)
        over_ns = time.monotonic_ns()
        self.restarts.append(Restart(member, was_leader, at_ns, over_ns, self._controller_epoch() - epoch))

    def _controller_epoch(self) -> int:
        described = self._cluster.wait_for(self._cluster.describe, REPAIR_SECONDS_MAX, "no active controller")
        return described.controller_epoch

    def _unsettled(self) -> str | None:
        return self._cluster.not_ready() or in_sync(self._cluster.layout, TOPIC, PARTITIONS)


def silences(restarts: Sequence[Restart], verdict: Verdict) -> list[Silence]:
    return [
        Silence(
            each.member,
            each.was_leader,
            round(verdict.silences.longest_of_any_ms(each.at_ns, each.over_ns)),
            round((each.over_ns - each.at_ns) / 1e6),
            each.controller_epochs,
        )
        for each in restarts
    ]


def table(found: Sequence[Silence]) -> list[str]:
    """In Markdown, a row per restart."""
    return [
        "| restarted | led etcd | no write acknowledged for, ms | settled in, ms | new controller epochs |",
        "|---|---|---|---|---|",
        *(
            f"| {each.member} | {'yes' if each.was_leader else 'no'} | {each.silence_ms} | {each.settled_ms} "
            f"| {each.controller_epochs} |"
            for each in found
        ),
    ]


def summary(found: Sequence[Silence], verdict: Verdict) -> str:
    return (
        f"{len(found)} restarts of etcd members, {verdict.figures.acknowledged} acknowledged, lost {verdict.lost}, "
        f"duplicated {verdict.duplicated}, reordered {verdict.reordered}; longest silence "
        f"{max(each.silence_ms for each in found)} ms, {sum(each.controller_epochs for each in found)} new controller "
        "epochs"
    )


class MeasuredRestarts(MeasuredRun, frozen=True, kw_only=True):
    restarts: list[Silence]


def _page(result: MeasuredRestarts, verdict: Verdict) -> str:
    return "\n\n".join(
        [
            "# Rolling restarts of etcd",
            result.where,
            "Each of three members was ended and started again in turn, the one that led etcd last. A restart is over "
            "when writes have gone on and every process has all its streams again.",
            "\n".join(table(result.restarts)),
            f"```\n{verdict}\n{summary(result.restarts, verdict)}\n```\n",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rolling_etcd", description=__doc__)
    parser.add_argument("--times", type=int, default=2, help="how often each member is restarted")
    parser.add_argument("--seed", type=int, default=1, help="of the clients")
    parser.add_argument("--kill", action="store_true", help="end members by SIGKILL instead of SIGTERM")
    parser.add_argument("--save", type=Path, help="write the page to this file too, and a JSON file beside it")
    arguments = parser.parse_args()
    signals_end_the_run()
    load = os.getloadavg()[0]
    directory = Path(tempfile.mkdtemp(prefix="rolling-etcd-"))
    with FaultCluster() as cluster:
        say(f"started in {cluster.start():.1f} s")
        rolling = RollingEtcd(cluster, directory / "history", arguments.seed, arguments.kill, say)
        try:
            verdict = rolling.run(arguments.times)
        except (UnhealthyError, WorkloadError) as reason:
            evidence.keep(cluster.layout.directory / "logs", cluster.log_directories(), directory)
            say(f"{reason}; all that was seen is in {directory}")
            return 1
        if not verdict.is_clean:
            evidence.keep(cluster.layout.directory / "logs", cluster.log_directories(), directory)
    found = silences(rolling.restarts, verdict)
    if arguments.save is not None:
        how = " --kill" if arguments.kill else ""
        command = f"python -m tests.faults.rolling_etcd --times {arguments.times} --seed {arguments.seed}{how}"
        result = MeasuredRestarts(restarts=found, **fields_of_run(command, load, verdict))
        result.save(_page(result, verdict), arguments.save)
    for line in [*table(found), str(verdict), summary(found, verdict)]:
        say(line)
    if verdict.is_clean:
        shutil.rmtree(directory)
    else:
        say(f"all that was seen is in {directory}")
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
