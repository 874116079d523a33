"""A rolling restart of every process while a group of ten reads and commits.

    python -m tests.faults.rolling_groups --times 2 [--kill]

On a cluster of three logstores, three members of etcd, two controllers, two purgatories and two gateways, with a topic
of three replicas that idempotent producers write to all the time. Each process in turn is stopped by SIGTERM, or with
--kill by SIGKILL, and started again; one member of the group is replaced with it, so that the group rebalances while
services come and go. No record may be skipped, and read twice only what at-least-once allows. Exit code 0 when it is
so.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from barnabas.cluster.internal_topics import partition_of_group
from barnabas_cli.local.services import Role
from tests.faults import evidence
from tests.faults.checker import Kind, Verdict, check
from tests.faults.cluster import FaultCluster, UnhealthyError, signals_end_the_run
from tests.faults.groups.check import GroupVerdict, check_group
from tests.faults.groups.history import read_group
from tests.faults.groups.members import Members, MembersError
from tests.faults.history import Operation, Type, read
from tests.faults.machines import SERVICES, logstore_of, role_of
from tests.faults.topics import (
    RefusedError,
    committed_offsets,
    create_topic,
    elect_preferred_leaders,
    in_sync,
    leaders_of,
)
from tests.faults.workload import Mix, Workload, WorkloadError, start

TOPIC, GROUP = "rolling-groups", "ten"
PARTITIONS = 15
CONSUMERS = 10
OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 50
MIX = Mix(idempotent=2, acks_all=0, acks_1=0, readers=0, sends_per_second=300, life_seconds=0)

RECORDS_BETWEEN = 10
"""Committed in every partition after the repair of one process and before the next is stopped."""
DOWN_SECONDS_MAX = 3.0
"""What is killed is left dead for up to so long; about half are started again at once."""
STOP_SECONDS_MAX = 60.0
REPAIR_SECONDS_MAX = 90.0
_POLL_SECONDS = 0.1

ONE_OF_EACH = list({role_of(service): service for service in reversed(SERVICES)}.values())[::-1]

Say = Callable[[str], None]


@dataclass(slots=True, frozen=True)
class Restart:
    service: str
    at_ns: int
    """On the clock of the histories."""
    stopped_seconds: float
    """How long it took to end."""
    repaired_seconds: float
    """From its start until all processes know each other and every replica is in sync."""
    over_ns: int
    """When the group had read and committed some more of every partition."""


class RollingGroups:
    """One run on a cluster that has started."""

    def __init__(self, cluster: FaultCluster, directory: Path, seed: int, kills: bool, say: Say) -> None:
        self._cluster = cluster
        self._directory = directory
        self._seed = seed
        self._kills = kills
        self._random = random.Random(seed)
        self._say = say
        self.restarts: list[Restart] = []

    def run(self, services: Sequence[str] | None, times: int) -> tuple[Verdict, GroupVerdict]:
        """Restart each so many times; None: one of each role, of the logstores the one that coordinates the group.

        Raises UnhealthyError, WorkloadError, MembersError, and RefusedError where no logstore coordinates.
        """
        layout = self._cluster.layout
        create_topic(layout, TOPIC, PARTITIONS, {"min.insync.replicas": "2"})
        servers = layout.bootstrap.split(",")
        produced = start(servers, TOPIC, PARTITIONS, directory=self._directory / "produced", seed=self._seed, mix=MIX)
        with produced as workload, Members(self._directory / "read", servers, GROUP, TOPIC) as members:
            for number in range(CONSUMERS):
                members.start(number)
            self._wait_for_progress(members, REPAIR_SECONDS_MAX)
            if services is None:
                services = [self._coordinator() if role_of(each) is Role.LOGSTORE else each for each in ONE_OF_EACH]
            replaced = 0
            for round_number in range(1, times + 1):
                for service in services:
                    self._restart(service, workload, members, replaced % CONSUMERS)
                    replaced += 1
                    done = self.restarts[-1]
                    self._say(
                        f"round {round_number}/{times}: {service} ended in {done.stopped_seconds:.1f} s, "
                        f"back in {done.repaired_seconds:.1f} s; {workload.acknowledged} acknowledged"
                    )
            self._say("reading everything")
            operations = read(workload.stop())
            log = log_of(operations)
            self._wait(members, lambda: self._unread(log), REPAIR_SECONDS_MAX)
            return check(operations), check_group(read_group(members.stop()), log)

    def _coordinator(self) -> str:
        partition = partition_of_group(GROUP, OFFSETS_PARTITIONS)
        leader, _ = leaders_of(self._cluster.layout, OFFSETS_TOPIC)[partition]
        return logstore_of(leader)

    def _restart(self, service: str, workload: Workload, members: Members, number: int) -> None:
        time.sleep(self._random.uniform(0.0, 0.5))
        how = signal.SIGKILL if self._kills else signal.SIGTERM
        workload.nemesis.fault(f"{how.name} {service}, consumer-{number}")
        at_ns = time.monotonic_ns()
        # Now before it, now after: the group rebalances when the service goes, or when it comes.
        replaces_first = self._random.random() < 0.5
        if replaces_first:
            members.replace(number, how)
        self._end(service)
        stopped_seconds = (time.monotonic_ns() - at_ns) / 1e9
        if self._kills and self._random.random() < 0.5:
            time.sleep(self._random.uniform(0.0, DOWN_SECONDS_MAX))
        began = time.monotonic()
        self._cluster.spawn(service)
        if not replaces_first:
            members.replace(number, how)
        self._wait(members, self._unsettled, REPAIR_SECONDS_MAX)
        repaired_seconds = time.monotonic() - began
        self._wait_for_progress(members, REPAIR_SECONDS_MAX)
        self.restarts.append(Restart(service, at_ns, stopped_seconds, repaired_seconds, time.monotonic_ns()))
        self._lead_evenly()

    def _end(self, service: str) -> None:
        if self._kills:
            self._cluster.kill(service)
        else:
            self._cluster.terminate(service, STOP_SECONDS_MAX)

    def _unsettled(self) -> str | None:
        layout = self._cluster.layout
        return (
            self._cluster.not_ready()
            or in_sync(layout, TOPIC, PARTITIONS)
            or in_sync(layout, OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        )

    def _lead_evenly(self) -> None:
        """So that the next logstore leads something, and coordinates."""
        try:
            for topic, partitions in ((TOPIC, PARTITIONS), (OFFSETS_TOPIC, OFFSETS_PARTITIONS)):
                elect_preferred_leaders(self._cluster.layout, topic, range(partitions))
        except RefusedError as refused:
            self._say(f"leaders stay where they are: {refused}")

    def _wait_for_progress(self, members: Members, seconds_max: float) -> None:
        """Until the group has committed some more in every partition."""
        before: dict[int, int] = {}

        def behind() -> str | None:
            try:
                committed = committed_offsets(self._cluster.layout, GROUP, TOPIC, PARTITIONS)
            except RefusedError as refused:
                return f"offsets are not returned: {refused}"
            if not before:
                before.update(committed)
            late = [each for each, offset in committed.items() if offset < before[each] + RECORDS_BETWEEN]
            return f"the group stands still in partitions {late}" if late else None

        self._wait(members, behind, seconds_max)

    def _unread(self, log: dict[int, list[str]]) -> str | None:
        try:
            committed = committed_offsets(self._cluster.layout, GROUP, TOPIC, PARTITIONS)
        except RefusedError as refused:
            return f"offsets are not returned: {refused}"
        late = [partition for partition, records in log.items() if committed[partition] != len(records)]
        return f"partitions {late} are not read to their ends" if late else None

    def _wait(self, members: Members, reason: Callable[[], str | None], seconds_max: float) -> None:
        """Raises UnhealthyError, and MembersError when a member has ended by itself."""

        def checked() -> str | None:
            members.check_alive()
            return reason()

        self._cluster.wait_until(checked, seconds_max)


def log_of(operations: Sequence[Operation]) -> dict[int, list[str]]:
    """By partition, as the final readers found it; whether they agree is looked at by `check`."""
    found: dict[int, dict[int, str]] = {partition: {} for partition in range(PARTITIONS)}
    for operation in operations:
        if operation.f == "poll" and operation.type is Type.OK and operation.proc.startswith("final-"):
            assert operation.partition is not None
            assert isinstance(operation.value, list)
            found[operation.partition].update(operation.value)
    for partition, records in found.items():
        assert sorted(records) == list(range(len(records))), f"partition {partition} was not read as a whole"
    return {partition: [records[offset] for offset in sorted(records)] for partition, records in found.items()}


def table(restarts: Sequence[Restart], verdict: GroupVerdict) -> list[str]:
    """In Markdown: the longest that some partition went without being read, by role restarted."""
    by_role: dict[str, list[Restart]] = {}
    for restart in restarts:
        by_role.setdefault(role_of(restart.service), []).append(restart)
    lines = [
        "| restarted | times | no record read for, ms: max | median | ended in, s: max | back in, s: max | median |",
        "|---|---|---|---|---|---|---|",
    ]
    for role, of_role in by_role.items():
        silences_ms = [longest_silence_ms(restart, verdict) for restart in of_role]
        repairs_seconds = [restart.repaired_seconds for restart in of_role]
        lines.append(
            f"| {role} | {len(of_role)} | {max(silences_ms):.0f} | {statistics.median(silences_ms):.0f} "
            f"| {max(restart.stopped_seconds for restart in of_role):.1f} "
            f"| {max(repairs_seconds):.1f} | {statistics.median(repairs_seconds):.1f} |"
        )
    return lines


def longest_silence_ms(restart: Restart, verdict: GroupVerdict) -> float:
    """Of any partition, from the signal until the group had gone on in all of them."""
    silences = verdict.silences
    return max(silences.longest_ms(each, restart.at_ns, restart.over_ns) for each in silences.acknowledged_ns)


def summary(restarts: int, log: Verdict, group: GroupVerdict) -> str:
    figures = group.figures
    wrong = ", ".join(f"{kind} {count}" for kind, count in group.counts.items())
    return (
        f"{restarts} restarts, {log.figures.acknowledged} acknowledged, lost {log.lost}, duplicated {log.duplicated}; "
        f"read {figures.reads} times in {figures.generations} generations, {figures.again} of them again; {wrong}"
    )


def written_twice(log: Verdict, log_directories: Iterable[Path]) -> Iterator[str]:
    """The batches of what is in the log twice, on each replica: by which producer, in which of its epochs."""
    for example in log.examples.get(Kind.DUPLICATED, []):
        found = re.fullmatch(r"partition (\d+): .* is at offsets (\d+) and (\d+)", example)
        assert found is not None, example
        partition, *offsets = map(int, found.groups())
        for each in log_directories:
            yield from evidence.batch_lines(each, f"{TOPIC}-{partition}", offsets)


def _say(line: str) -> None:
    print(line, flush=True)


def _page(restarts: list[Restart], log: Verdict, group: GroupVerdict, arguments: argparse.Namespace) -> str:
    """The result as it is saved."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    how = " --kill" if arguments.kill else ""
    ends = "by SIGKILL, and half of them left dead for up to 3 s" if arguments.kill else "by SIGTERM"
    return "\n\n".join(
        [
            f"# Rolling restarts under a group of {CONSUMERS}",
            f"`python -m tests.faults.rolling_groups --times {arguments.times} --seed {arguments.seed}{how}` at "
            f"{commit.strip() or 'no commit'}, on {os.cpu_count()} cores; the machine's load over the last 15 minutes: "
            f"{os.getloadavg()[2]:.0f}.",
            f"Every process was ended {ends}, and started again; with each of them one of the ten members was ended in "
            f"the same way and replaced. {PARTITIONS} partitions of three replicas. The times are of the worst "
            "partition, from the signal on, with the rebalances in them that the replaced member makes.",
            "\n".join(table(restarts, group)),
            f"```\n{summary(len(restarts), log, group)}\n\nthe group: {group}\n\nthe log: {log}\n```\n",
        ]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rolling_groups", description=__doc__)
    parser.add_argument("--times", type=int, default=2, help="how often each process is restarted")
    parser.add_argument("--seed", type=int, default=1, help="of the times between restarts, and of the clients")
    parser.add_argument("--kill", action="store_true", help="end processes by SIGKILL instead of SIGTERM")
    parser.add_argument("--short", action="store_true", help="one of each role alone, the logstore that coordinates")
    parser.add_argument("--save", type=Path, help="write the table to this file too")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    signals_end_the_run()
    services = None if arguments.short else SERVICES
    directory = Path(tempfile.mkdtemp(prefix="rolling-groups-"))
    with FaultCluster() as cluster:
        _say(f"started in {cluster.start():.1f} s")
        rolling = RollingGroups(cluster, directory, arguments.seed, arguments.kill, _say)
        try:
            log, group = rolling.run(services, arguments.times)
        except (UnhealthyError, MembersError, WorkloadError) as reason:
            evidence.keep(cluster.layout.directory / "logs", cluster.log_directories(), directory)
            _say(f"{reason}; all that was seen is in {directory}")
            return 1
        is_clean = log.is_clean and group.is_clean
        if not is_clean:
            evidence.keep(cluster.layout.directory / "logs", cluster.log_directories(), directory)
            for line in written_twice(log, cluster.log_directories()):
                _say(line)
    if arguments.save is not None:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        arguments.save.write_text(_page(rolling.restarts, log, group, arguments))
    if is_clean:
        shutil.rmtree(directory)
    else:
        _say(f"all that was seen is in {directory}")
    for line in [*table(rolling.restarts, group), str(group), str(log), summary(len(rolling.restarts), log, group)]:
        _say(line)
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
