"""kill -9 of each process in turn, again and again, under idempotent producers that never stop.

    python -m tests.faults.rolling_kills --times 10

On a cluster of its own, started as `make up LOGSTORES=3` starts one, with a topic of three replicas of which two must
have a write before it is acknowledged. A killed service is started again by `barnabas up`, at once or after some
seconds without it; a killed child (a processor of the gateway, the control process of a logstore) by its parent.
Every acknowledged record must be there, once, in order. Exit code 0 when it is so.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas_cli.local import processes
from barnabas_cli.local.readiness import not_ready
from barnabas_cli.local.services import Role
from tests.faults.checker import Verdict, check
from tests.faults.history import read
from tests.faults.workload import Mix, Workload, start
from tests.integration.running_cluster import RunningCluster

LOGSTORES = 3
PARTITIONS = 6
TOPIC = "rolling"
MIX = Mix(idempotent=3, acks_all=0, acks_1=0, readers=2, life_seconds=0)

RECORDS_BETWEEN = 60
"""Acknowledged after the repair of one process and before the next is killed."""
DOWN_SECONDS_MAX = 3.0
"""A service is left dead for up to so long; about half of them are started again at once."""
REPAIR_SECONDS_MAX = 60.0
_ADMIN_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.05

Say = Callable[[str], None]


@dataclass(slots=True, frozen=True)
class Victim:
    role: str
    service: str
    """What `barnabas` knows it as, or the service that it is a child of."""
    child: str = ""
    """The name of a child's process."""
    number: int = 0
    """Of a child: which of those that run the same."""

    @property
    def name(self) -> str:
        return f"{self.role} of {self.service}" if self.child else self.service


@dataclass(slots=True, frozen=True)
class Kill:
    victim: Victim
    at_ns: int
    """On the history's clock."""
    repaired_seconds: float
    """From the start of the repair until a client can produce and every control channel is up."""
    over_ns: int
    """When writes had resumed and every replica was in sync again."""


class NotRepairedError(Exception):
    """The cluster did not come back by itself."""


def victims_of(cluster: RunningCluster) -> list[Victim]:
    """Every process of the cluster, in the order in which they are killed."""
    found: list[Victim] = []
    for service in cluster.local.services:
        match service.role:
            case Role.LOGSTORE:
                found.append(Victim("logstore", service.name))
                found.append(Victim("control process", service.name, "control"))
            case Role.GATEWAY:
                found.append(Victim("gateway acceptor", service.name))
                processors = len(children_of(cluster, Victim("processor", service.name, "processor")))
                found += [Victim("processor", service.name, "processor", number) for number in range(processors)]
            case Role.ETCD | Role.CONTROLLER | Role.PURGATORY:
                found.append(Victim(service.role, service.name))
    return found


def one_of_each_role(victims: list[Victim]) -> list[Victim]:
    return list({victim.role: victim for victim in victims}.values())


class RollingKills:
    """One run on a running cluster."""

    def __init__(self, cluster: RunningCluster, directory: Path, seed: int, say: Say) -> None:
        self._cluster = cluster
        self._directory = directory
        self._seed = seed
        self._random = random.Random(seed)
        self._say = say
        self._admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500}
        )
        self.kills: list[Kill] = []

    def run(self, victims: list[Victim], times: int) -> Verdict:
        """Kill each victim so many times. Raises NotRepairedError, ClusterError and WorkloadError."""
        self._create_topic()
        bootstrap = [self._cluster.bootstrap]
        with start(bootstrap, TOPIC, PARTITIONS, directory=self._directory, seed=self._seed, mix=MIX) as workload:
            workload.wait_for_more(RECORDS_BETWEEN)
            for round_number in range(1, times + 1):
                for victim in victims:
                    self._kill(victim, workload)
                    self._say(
                        f"round {round_number}/{times}: {victim.name} killed, "
                        f"back in {self.kills[-1].repaired_seconds:.1f} s; {workload.acknowledged} acknowledged"
                    )
            self._say("reading everything")
            return check(read(workload.stop()))

    def _create_topic(self) -> None:
        topic = NewTopic(TOPIC, PARTITIONS, LOGSTORES, config={"min.insync.replicas": "2"})
        self._admin.create_topics([topic])[TOPIC].result(timeout=_ADMIN_SECONDS_MAX)

    def _kill(self, victim: Victim, workload: Workload) -> None:
        time.sleep(self._random.uniform(0.0, 0.3))
        workload.nemesis.fault(f"kill -9 {victim.name}")
        at_ns = time.monotonic_ns()
        began = self._kill_child(victim) if victim.child else self._kill_service(victim)
        repaired_seconds = time.monotonic() - began
        workload.wait_for_more(RECORDS_BETWEEN, REPAIR_SECONDS_MAX)
        self._wait("all replicas are in sync", self._in_sync)
        self.kills.append(Kill(victim, at_ns, repaired_seconds, time.monotonic_ns()))
        self._lead_evenly()

    def _kill_service(self, victim: Victim) -> float:
        """Returns when its repair began."""
        self._cluster.kill(victim.service)
        if self._random.random() < 0.5:
            time.sleep(self._random.uniform(0.0, DOWN_SECONDS_MAX))
        began = time.monotonic()
        self._cluster.up()
        return began

    def _kill_child(self, victim: Victim) -> float:
        children = children_of(self._cluster, victim)
        began = time.monotonic()
        os.kill(children[victim.number], signal.SIGKILL)
        killed = children[victim.number]

        def is_replaced() -> bool:
            now = children_of(self._cluster, victim)
            return killed not in now and len(now) == len(children)

        self._wait(f"{victim.name} is there again", is_replaced)
        self._wait("a client can produce", lambda: not_ready(self._cluster.local.layout) is None)
        return began

    def _in_sync(self) -> bool:
        try:
            partitions = self._admin.list_topics(TOPIC, timeout=2.0).topics[TOPIC].partitions
        except KafkaException:
            return False
        return len(partitions) == PARTITIONS and all(len(each.isrs) == LOGSTORES for each in partitions.values())

    def _lead_evenly(self) -> None:
        """So that the next logstore to be killed leads something."""
        wanted = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        try:
            self._admin.elect_leaders(ElectionType.PREFERRED, wanted).result(timeout=_ADMIN_SECONDS_MAX)
        except KafkaException as refused:
            self._say(f"leaders stay where they are: {refused.args[0].name()}")

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + REPAIR_SECONDS_MAX
        while not reached():
            if time.monotonic() > deadline:
                raise NotRepairedError(f"not within {REPAIR_SECONDS_MAX:.0f} s: {what}")
            time.sleep(_POLL_SECONDS)


def table(kills: list[Kill], verdict: Verdict) -> list[str]:
    """In Markdown: the longest that some partition went without an acknowledged write, by role killed."""
    by_role: dict[str, list[Kill]] = {}
    for kill in kills:
        by_role.setdefault(kill.victim.role, []).append(kill)
    lines = [
        "| killed | times | no write acknowledged for, ms: max | median | back in, s: max | median |",
        "|---|---|---|---|---|---|",
    ]
    for role, of_role in by_role.items():
        silences_ms = [verdict.silences.longest_of_any_ms(kill.at_ns, kill.over_ns) for kill in of_role]
        repairs_seconds = [kill.repaired_seconds for kill in of_role]
        lines.append(
            f"| {role} | {len(of_role)} | {max(silences_ms):.0f} | {statistics.median(silences_ms):.0f} "
            f"| {max(repairs_seconds):.1f} | {statistics.median(repairs_seconds):.1f} |"
        )
    return lines


def children_of(cluster: RunningCluster, victim: Victim) -> list[int]:
    """Pids, ascending, of the children of the service that have the victim's name."""
    identity = cluster.local.identity(cluster.local.service(victim.service))
    assert identity is not None
    found = []
    for pid in processes.session_members(identity):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue  # it has just ended
        if name == victim.child:
            found.append(pid)
    return sorted(found)


def summary(kills: int, verdict: Verdict) -> str:
    return (
        f"{kills} kills, {verdict.figures.acknowledged} acknowledged, "
        f"lost {verdict.lost}, duplicated {verdict.duplicated}, reordered {verdict.reordered}"
    )


def _say(line: str) -> None:
    print(line, flush=True)


def _page(kills: list[Kill], verdict: Verdict, arguments: argparse.Namespace) -> str:
    """The result as it is saved."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    return "\n\n".join(
        [
            "# Rolling kills",
            f"`python -m tests.faults.rolling_kills --times {arguments.times} --seed {arguments.seed}` at "
            f"{commit.strip() or 'no commit'}, on {os.cpu_count()} cores; the machine's load over the last 15 minutes: "
            f"{os.getloadavg()[2]:.0f}.",
            "Half of the services were left dead for up to 3 s before `barnabas up` started them again; a child is "
            "started again by its parent, at once. The times are of the worst partition, with what the load adds to "
            "each start.",
            "\n".join(table(kills, verdict)),
            f"```\n{verdict}\n{summary(len(kills), verdict)}\n```\n",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rolling_kills", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="how often each process is killed")
    parser.add_argument("--seed", type=int, default=1, help="of the times between kills, and of the clients")
    parser.add_argument("--save", type=Path, help="write the table to this file too")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="rolling-kills-"))
    with RunningCluster(directory / "cluster", LOGSTORES) as cluster:
        rolling = RollingKills(cluster, directory / "history", arguments.seed, _say)
        verdict = rolling.run(victims_of(cluster), arguments.times)
    if arguments.save is not None:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        arguments.save.write_text(_page(rolling.kills, verdict, arguments))
    if verdict.is_clean:
        shutil.rmtree(directory)
    else:
        _say(f"all that was seen is in {directory}")
    for line in [*table(rolling.kills, verdict), str(verdict), summary(len(rolling.kills), verdict)]:
        _say(line)
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
