"""A blackout: every process of a cluster, etcd included, killed at the same moment under load, and started again.

    python -m tests.faults.blackout --rounds 5

On a cluster of its own, started as `make up LOGSTORES=3` starts one, with a topic of three replicas of which two must
have a write before it is acknowledged, under idempotent producers that never stop. `barnabas up` begins when the last
process is gone. Every acknowledged record must be there, once, in order: exit code 0 when it is so. The times are
figures, and no judgement: they are as good as the machine is idle.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas_cli.local import processes
from barnabas_cli.local.layout import HOST
from tests.faults import evidence
from tests.faults.checker import Silences, Verdict, check
from tests.faults.cluster import signals_end_the_run
from tests.faults.etcd_timeline import EtcdTimeline, Event, read_state
from tests.faults.history import read
from tests.faults.measured_runs import (
    MIX,
    PARTITIONS,
    RECORDS_BETWEEN,
    REPAIR_SECONDS_MAX,
    MeasuredRun,
    fields_of_run,
    say,
)
from tests.faults.workload import Workload, WorkloadError, start
from tests.integration.running_cluster import RunningCluster

LOGSTORES = 3
TOPIC = "blackout"

UP_SECONDS_MAX = 120.0
_ADMIN_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.05

PROCESSES_GONE = "the last process is gone, `up` begins"
UP_RETURNS = "`up` returns"
FIRST_WRITE = "a write is acknowledged, first partition"
LAST_WRITE = "a write is acknowledged, last partition"

Say = Callable[[str], None]


@dataclass(slots=True, frozen=True)
class Blackout:
    """Times are time.monotonic_ns()."""

    at_ns: int
    up_began_ns: int
    up_returned_ns: int
    events: list[Event]
    """As etcd has them."""


class RoundTimes(msgspec.Struct, frozen=True):
    """Milliseconds since the SIGKILL, in order of time."""

    phases: list[tuple[str, int]]

    def at_ms(self, what: str) -> int | None:
        return next((at_ms for phase, at_ms in self.phases if phase == what), None)


class NotRepairedError(Exception):
    """The cluster did not come back."""


class Blackouts:
    """One run on a running cluster."""

    def __init__(self, cluster: RunningCluster, directory: Path, seed: int, say: Say) -> None:
        self._cluster = cluster
        self._directory = directory
        self._seed = seed
        self._say = say
        self._admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500}
        )
        self._etcd = f"{HOST}:{cluster.local.layout.etcd_client_port}"
        self.blackouts: list[Blackout] = []

    def run(self, rounds: int) -> Verdict:
        """Raises NotRepairedError and WorkloadError."""
        topic = NewTopic(TOPIC, PARTITIONS, LOGSTORES, config={"min.insync.replicas": "2"})
        self._admin.create_topics([topic])[TOPIC].result(timeout=_ADMIN_SECONDS_MAX)
        bootstrap = [self._cluster.bootstrap]
        with start(bootstrap, TOPIC, PARTITIONS, directory=self._directory, seed=self._seed, mix=MIX) as workload:
            workload.wait_for_more(RECORDS_BETWEEN)
            for number in range(1, rounds + 1):
                blackout = self._black_out(workload)
                self.blackouts.append(blackout)
                took_s = (blackout.up_returned_ns - blackout.up_began_ns) / 1e9
                self._say(f"blackout {number}/{rounds}: `up` took {took_s:.1f} s; {workload.acknowledged} acknowledged")
            self._say("reading everything")
            return check(read(workload.stop()))

    def _black_out(self, workload: Workload) -> Blackout:
        before = read_state(self._etcd)
        workload.nemesis.fault("blackout")
        at_ns = time.monotonic_ns()
        self.kill_everything()
        up_began_ns = time.monotonic_ns()
        with EtcdTimeline(self._etcd, before) as timeline:
            up = self._cluster.cli("up", timeout_seconds=UP_SECONDS_MAX)
            up_returned_ns = time.monotonic_ns()
            if up.returncode:
                raise NotRepairedError(f"`up` failed:\n{up.stdout}{up.stderr}\n{self._cluster.last_words()}")
            workload.wait_for_more(RECORDS_BETWEEN, REPAIR_SECONDS_MAX)
            self._wait("all replicas are in sync", self._in_sync)
        return Blackout(at_ns, up_began_ns, up_returned_ns, timeline.events())

    def kill_everything(self) -> None:
        """SIGKILL to every process of every service, children included, one right after the other."""
        services = [self._cluster.local.identity(service) for service in self._cluster.local.services]
        identities = [identity for identity in services if identity is not None]
        for pid in [pid for identity in identities for pid in processes.session_members(identity)]:
            os.kill(pid, signal.SIGKILL)
        while any(processes.session_members(identity) for identity in identities):
            time.sleep(_POLL_SECONDS / 10)

    def _in_sync(self) -> bool:
        try:
            partitions = self._admin.list_topics(TOPIC, timeout=2.0).topics[TOPIC].partitions
        except KafkaException:
            return False
        return len(partitions) == PARTITIONS and all(len(each.isrs) == LOGSTORES for each in partitions.values())

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + REPAIR_SECONDS_MAX
        while not reached():
            if time.monotonic() > deadline:
                raise NotRepairedError(f"not within {REPAIR_SECONDS_MAX:.0f} s: {what}\n{self._cluster.last_words()}")
            time.sleep(_POLL_SECONDS)


def round_times(blackout: Blackout, silences: Silences) -> RoundTimes:
    """The phases of one blackout, with the first acknowledgement of each partition after `up` began."""
    first_ns = [
        times[bisect_left(times, blackout.up_began_ns)] if times[-1] >= blackout.up_began_ns else sys.maxsize
        for times in silences.acknowledged_ns.values()
    ]
    events = [
        Event(blackout.up_began_ns, PROCESSES_GONE),
        *blackout.events,
        Event(blackout.up_returned_ns, UP_RETURNS),
        Event(min(first_ns), FIRST_WRITE),
        Event(max(first_ns), LAST_WRITE),
    ]
    phases = [(event.what, round((event.at_ns - blackout.at_ns) / 1e6)) for event in events]
    return RoundTimes(sorted(phases, key=lambda phase: phase[1]))


def timeline_table(rounds: Sequence[RoundTimes]) -> list[str]:
    """In Markdown: milliseconds since the SIGKILL, phases in the order of their medians."""
    by_phase: dict[str, list[int]] = {}
    for each in rounds:
        for what, at_ms in each.phases:
            by_phase.setdefault(what, []).append(at_ms)
    rows = sorted(by_phase.items(), key=lambda row: statistics.median(row[1]))
    return [
        "| phase | ms since the SIGKILL: median | max |",
        "|---|---|---|",
        *(f"| {what} | {statistics.median(times):.0f} | {max(times)} |" for what, times in rows),
    ]


def summary(rounds: Sequence[RoundTimes], verdict: Verdict) -> str:
    first = [each.at_ms(FIRST_WRITE) or 0 for each in rounds]
    last = [each.at_ms(LAST_WRITE) or 0 for each in rounds]
    after_up = [max(0, (each.at_ms(LAST_WRITE) or 0) - (each.at_ms(UP_RETURNS) or 0)) for each in rounds]
    return (
        f"{len(rounds)} blackouts, {verdict.figures.acknowledged} acknowledged, lost {verdict.lost}, "
        f"duplicated {verdict.duplicated}, reordered {verdict.reordered}; first acknowledged write at most "
        f"{max(first)} ms after the SIGKILL, in the last partition {max(last)} ms, {max(after_up)} ms after `up`"
    )


class MeasuredBlackouts(MeasuredRun, frozen=True, kw_only=True):
    rounds: list[RoundTimes]


def page(result: MeasuredBlackouts, verdict: Verdict) -> str:
    """The result as it is saved."""
    return "\n\n".join(
        [
            "# Blackouts",
            result.where,
            f"All processes of a cluster of {LOGSTORES} logstores, etcd included, were killed by SIGKILL at the same "
            "moment under load, and `barnabas up` was run as soon as they were gone.",
            "\n".join(timeline_table(result.rounds)),
            f"```\n{verdict}\n{summary(result.rounds, verdict)}\n```\n",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.blackout", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how many blackouts")
    parser.add_argument("--seed", type=int, default=1, help="of the clients")
    parser.add_argument("--keep", action="store_true", help="keep the cluster's logs and the history")
    parser.add_argument("--save", type=Path, help="write the page to this file too, and a JSON file beside it")
    arguments = parser.parse_args()
    signals_end_the_run()
    load = os.getloadavg()[0]
    directory = Path(tempfile.mkdtemp(prefix="blackout-"))
    with RunningCluster(directory / "cluster", LOGSTORES) as cluster:
        blackouts = Blackouts(cluster, directory / "history", arguments.seed, say)
        try:
            verdict = blackouts.run(arguments.rounds)
        except (NotRepairedError, WorkloadError) as reason:
            say(f"{reason}; all that was seen is in {directory}")
            return 1
        if not verdict.is_clean:
            cluster_directory = cluster.directory
            log_directories = [cluster_directory.logstore_path(each) for each in range(LOGSTORES)]
            evidence.keep(cluster_directory.path / "logs", log_directories, directory / "evidence")
    rounds = [round_times(each, verdict.silences) for each in blackouts.blackouts]
    if arguments.save is not None:
        command = f"python -m tests.faults.blackout --rounds {arguments.rounds} --seed {arguments.seed}"
        result = MeasuredBlackouts(rounds=rounds, **fields_of_run(command, load, verdict))
        result.save(page(result, verdict), arguments.save)
    for line in [*timeline_table(rounds), str(verdict), summary(rounds, verdict)]:
        say(line)
    if verdict.is_clean and not arguments.keep:
        shutil.rmtree(directory)
    else:
        say(f"all that was seen is in {directory}")
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
