"""kill -9 of each process in turn under the supervisor of `barnabas up`: what comes back, how soon, and what is said.

    python -m tests.faults.supervised_kills --times 3

On clusters of its own with one and with three logstores, started as `make up` starts them, with a topic of as many
replicas. No command is run: the supervisor restarts a service, and its parent a child. A process is back when another
has taken its place, a client can produce, all replicas are in sync, and `status` finds no problem. Exit code 0 if
everything came back and `barnabas status` has said so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas_cli.local.cluster import Started
from barnabas_cli.local.readiness import not_ready
from barnabas_cli.local.services import Role
from barnabas_cli.local.supervision import supervisor_identity
from tests.faults.rolling_kills import NotRepairedError, Victim, children_of, victims_of
from tests.integration.running_cluster import RunningCluster

TOPIC, COMPACTED = "supervised", "compacted"
PARTITIONS = 3
REPAIR_SECONDS_MAX = 120.0
GOAL_SECONDS = 3.0
CLEANER = "cleaner"
_OFTEN = {"log.cleaner.backoff.ms": "200"}
_VALUE = b"x" * 10_000
_RECORDS = 150
"""Fill a segment of 1 MiB, so that there is one to clean."""
_ADMIN_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.01

Say = Callable[[str], None]


@dataclass(slots=True, frozen=True)
class Return:
    victim: Victim
    seconds: float
    """From the SIGKILL until it was back."""
    said: str
    """By `status`, of the service or of the child's parent; empty if it said nothing."""


class SupervisedCluster(RunningCluster):
    """Its cleaner looks for work all the time."""

    def __init__(self, directory: Path, logstores: int) -> None:
        super().__init__(directory, logstores, supervised=True)

    def up(self) -> Started:
        self.local.services = [
            replace(service, properties=service.properties | (_OFTEN if service.role is Role.LOGSTORE else {}))
            for service in self.local.services
        ]
        return super().up()


class SupervisedKills:
    """One run on a running cluster."""

    def __init__(self, cluster: RunningCluster, say: Say) -> None:
        self._cluster = cluster
        self._say = say
        self._admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200}
        )
        self._logstores = cluster.local.layout.logstores
        self.returns: list[Return] = []

    def run(self, times: int) -> None:
        """Kill each process so many times. Raises NotRepairedError."""
        compacted = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
        topics = [
            NewTopic(TOPIC, PARTITIONS, self._logstores),
            NewTopic(COMPACTED, self._logstores, 1, config=compacted),
        ]
        for created in self._admin.create_topics(topics).values():
            created.result(timeout=_ADMIN_SECONDS_MAX)
        victims = victims_of(self._cluster)
        victims += [Victim(CLEANER, each.service, CLEANER) for each in victims if each.role == "logstore"]
        for _ in range(times):
            for victim in victims:
                self._wait("all is well", lambda: self._cluster.status().healthy)
                found = self._kill(victim)
                self.returns.append(found)
                self._say(f"{victim.name} killed, back in {found.seconds:.2f} s; status: {found.said or 'nothing'}")

    def _kill(self, victim: Victim) -> Return:
        if victim.role == CLEANER:
            self._dirty()
            self._wait("a cleaner runs", lambda: bool(children_of(self._cluster, victim)))
        before = self._pids(victim)
        killed = before[victim.number]
        began = time.monotonic()
        os.kill(killed, signal.SIGKILL)
        if victim.role == CLEANER:
            self._dirty()  # the next order starts it

        def is_replaced() -> bool:
            now = self._pids(victim)
            return killed not in now and len(now) == len(before)

        self._wait(f"{victim.name} is there again", is_replaced)
        self._wait("a client can produce", lambda: not_ready(self._cluster.local.layout) is None)
        self._wait("all replicas are in sync", self._in_sync)
        self._wait("status finds no problem", lambda: self._cluster.status().healthy)
        seconds = time.monotonic() - began
        self._wait("status says so", lambda: bool(self._said(victim)))
        return Return(victim, seconds, "; ".join(self._said(victim)))

    def _said(self, victim: Victim) -> list[str]:
        return [notice for notice in self._cluster.status().notices if notice.startswith(said_of(victim))]

    def _pids(self, victim: Victim) -> list[int]:
        if victim.child:
            return children_of(self._cluster, victim)
        return [pid for name, pid in self._cluster.pids.items() if name == victim.service]

    def _in_sync(self) -> bool:
        try:
            partitions = self._admin.list_topics(TOPIC, timeout=2.0).topics[TOPIC].partitions.values()
        except KafkaException:
            return False
        return len(partitions) == PARTITIONS and all(len(each.isrs) == self._logstores for each in partitions)

    def _dirty(self) -> None:
        """Write enough for the cleaner of each logstore to have something to do."""
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "linger.ms": 5, "log_level": 0})
        for number in range(_RECORDS):
            for partition in range(self._logstores):
                producer.produce(COMPACTED, _VALUE, b"%d" % (number % 10), partition)
        assert producer.flush(_ADMIN_SECONDS_MAX) == 0

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + REPAIR_SECONDS_MAX
        while not reached():
            if time.monotonic() > deadline:
                status = self._cluster.status()
                raise NotRepairedError(f"not within {REPAIR_SECONDS_MAX:.0f} s: {what}; status: {status}")
            time.sleep(_POLL_SECONDS)


def said_of(victim: Victim) -> str:
    """Return how the notice of its restart begins: of the supervisor for a service, of its parent for a child."""
    match victim.child:
        case "":
            return f"{victim.service} was restarted"
        case "processor":
            return f"gateway {victim.service}: one of its processors was restarted"
        case "control":
            return f"logstore {victim.service.removeprefix('logstore-')}: its control process was restarted"
        case child:
            return f"logstore {victim.service.removeprefix('logstore-')}: its {child} was restarted"


@contextmanager
def supervised_cluster(directory: Path, logstores: int) -> Iterator[RunningCluster]:
    with SupervisedCluster(directory, logstores) as cluster:
        yield cluster


def supervisor_memory_mib(cluster: RunningCluster) -> tuple[float, float]:
    """Return the supervisor's resident memory, and what of it is its own."""
    identity = supervisor_identity(cluster.directory)
    assert identity is not None, "the cluster is supervised"
    lines = Path(f"/proc/{identity.pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.partition(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return sizes["Rss"] / 1024, (sizes["Private_Dirty"] + sizes["Private_Clean"]) / 1024


def table(returns: list[Return]) -> list[str]:
    """In Markdown."""
    lines = ["| killed | times | back, s: max | median | `status` said so |", "|---|---|---|---|---|"]
    for role in dict.fromkeys(each.victim.role for each in returns):
        own = [each for each in returns if each.victim.role == role]
        seconds = [each.seconds for each in own]
        said = sum(bool(each.said) for each in own)
        lines.append(f"| {role} | {len(own)} | {max(seconds):.2f} | {statistics.median(seconds):.2f} | {said} |")
    return lines


def _say(line: str) -> None:
    print(line, flush=True)


def _page(sections: list[str], times: int) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    head = [
        "# Kills under the supervisor",
        f"`python -m tests.faults.supervised_kills --times {times}` at {commit.strip() or 'no commit'}, on "
        f"{os.cpu_count()} cores; the machine's load over the last minute at the end: {os.getloadavg()[0]:.1f} (the "
        "run itself makes about 2). Times are from the SIGKILL until another process has taken the place of the killed "
        "one, a client can produce, all replicas are in sync, and `barnabas status` finds no problem. A cleaner's "
        "includes the writing of 1.5 MB per logstore, since the next order starts it.",
    ]
    return "\n\n".join([*head, *sections]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.supervised_kills", description=__doc__)
    parser.add_argument("--times", type=int, default=3, choices=range(1, 5), help="how often each process is killed")
    parser.add_argument("--save", type=Path, help="write the tables to this file too")
    arguments = parser.parse_args()
    sections, returns = [], []
    for logstores in (1, 3):
        directory = Path(tempfile.mkdtemp(prefix="supervised-kills-"))
        with supervised_cluster(directory / "cluster", logstores) as cluster:
            run = SupervisedKills(cluster, _say)
            run.run(arguments.times)
            resident, own = supervisor_memory_mib(cluster)
        shutil.rmtree(directory)
        sections.append(f"## LOGSTORES={logstores}\n\n" + "\n".join(table(run.returns)))
        sections.append(f"The supervisor at the end: {resident:.1f} MiB resident, {own:.1f} MiB of them its own.")
        returns += run.returns
    late = sum(each.seconds > GOAL_SECONDS for each in returns)
    silent = sum(not each.said for each in returns)
    sections.append(
        f"```\n{len(returns)} kills, all back, {late} later than {GOAL_SECONDS:.0f} s, unsaid by status {silent}\n```"
    )
    if arguments.save is not None:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        arguments.save.write_text(_page(sections, arguments.times))
    for section in sections:
        _say(section)
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
