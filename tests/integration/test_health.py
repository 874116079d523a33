"""What is broken is named by `status`, here and from afar in the same words, and counted by a metric."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas_cli.local.cluster import Started
from barnabas_cli.local.services import Role
from tests.faults.rolling_kills import Victim, children_of
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300), pytest.mark.deep]

SECONDS_MAX = 60.0
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
CHILDREN = (
    Victim("processor", "gateway", "processor"),
    Victim("control process", "logstore-0", "control"),
    Victim("cleaner", "logstore-0", "cleaner"),
)


class TwoDirectories(RunningCluster):
    """A logstore with two log directories, whose cleaner looks for work all the time."""

    @property
    def log_dirs(self) -> tuple[Path, Path]:
        return self.directory.logstore_path(0), self.directory.path / "other-disk"

    def up(self) -> Started:
        own = {"log.cleaner.backoff.ms": "200", "log.dirs": ",".join(map(str, self.log_dirs))}
        self.local.services = [
            replace(service, properties=service.properties | (own if service.role is Role.LOGSTORE else {}))
            for service in self.local.services
        ]
        return super().up()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoDirectories]:
    with TwoDirectories(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield running


def create(cluster: TwoDirectories, topic: str, partitions: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(SECONDS_MAX)


def fill(cluster: TwoDirectories, topic: str, partition: int = 0) -> None:
    """More than a segment, of few keys."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(150):
        producer.produce(topic, b"x" * 10_000, b"%d" % (number % 10), partition)
    assert producer.flush(SECONDS_MAX) == 0


def eventually(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def statuses(cluster: TwoDirectories) -> tuple[Any, Any]:
    """Of the cluster on this machine, and of the one at its controller's address."""
    there = cluster.cli("status", "--json", "--address", cluster.ops_address)
    return cluster.status_json(), json.loads(there.stdout)


def metric(cluster: TwoDirectories, service: str, kind: str) -> float:
    address = cluster.local.service(service).addresses["metrics"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=SECONDS_MAX) as answer:
        lines = answer.read().decode().splitlines()
    name = f'barnabas_health_conditions{{kind="{kind}"}} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_a_process_that_a_service_restarted(cluster: TwoDirectories) -> None:
    create(cluster, "compacted", 1, **COMPACTED)
    for victim in CHILDREN:
        if victim.child == "cleaner":
            fill(cluster, "compacted")
        (pid, *_) = eventually(lambda victim=victim: children_of(cluster, victim), f"{victim.name} runs")
        os.kill(pid, signal.SIGKILL)
    fill(cluster, "compacted")  # the next order starts a cleaner

    def all_are_said() -> Any:
        here, there = statuses(cluster)
        is_healthy = here["healthy"] and there["healthy"]
        # The controller is asked before this machine is, and hears of it later.
        are_all = len(here["notices"]) == len(there["conditions"]) == len(CHILDREN)
        return (here, there) if is_healthy and are_all else None

    here, there = eventually(all_are_said, "the cluster is healthy, and says what was restarted")
    told = {f"{each['role']} {each['id']}: {each['text']} ({each['kind']})" for each in there["conditions"]}
    assert set(here["notices"]) == told
    for subject in ("gateway gateway: one of its processors", "logstore 0: its control", "logstore 0: its cleaner"):
        (line,) = [each for each in told if each.startswith(subject)]
        assert line.endswith("killed by signal 9 (process-restarted)")
    assert metric(cluster, "gateway", "process-restarted") == 1
    assert metric(cluster, "logstore-0", "process-restarted") == 2


def test_a_log_that_is_not_compacted(cluster: TwoDirectories) -> None:
    create(cluster, "damaged", 1, **(COMPACTED | {"min.cleanable.dirty.ratio": "1"}))
    fill(cluster, "damaged")
    (path,) = [found for log_dir in cluster.log_dirs for found in log_dir.glob(f"damaged-0/{0:020d}.log")]
    with path.open("r+b") as log:
        log.seek(1000)
        log.write(b"rotten")
    assert cluster.cli("topics", "alter", "damaged", "--config", "min.cleanable.dirty.ratio=0.01").returncode == 0
    fill(cluster, "damaged")
    here, there = eventually(
        lambda: (found := statuses(cluster)) and found[0]["problems"] and found[1]["problems"] and found,
        "status names the partition",
    )
    assert here["problems"] == there["problems"]
    (problem,) = here["problems"]
    assert problem.startswith("logstore 0: damaged-0 is not compacted: the batch at offset 0: its CRC is wrong")
    assert problem.endswith("(uncleanable-partition)")
    assert not here["healthy"]
    assert cluster.cli("status").returncode == 1
    assert metric(cluster, "logstore-0", "uncleanable-partition") == 1
    assert cluster.cli("topics", "delete", "damaged").returncode == 0
    eventually(lambda: cluster.status().healthy, "it goes away with the topic")


def test_a_directory_and_its_partitions_are_offline(cluster: TwoDirectories) -> None:
    create(cluster, "spread", 4)
    other = cluster.log_dirs[1]
    lost = sorted(path.name for path in other.glob("spread-*"))
    assert lost
    shutil.rmtree(other)
    other.touch()
    for number in range(2):
        # New partitions go to the directory with the fewest, which fails then; they get another one.
        cluster.cli("topics", "create", f"another-{number}")

    def all_are_named() -> Any:
        here, there = statuses(cluster)
        names = [each["text"].split()[0] for each in there["conditions"] if each["kind"] == "offline-partition"]
        return (here, there) if set(lost) <= set(names) else None

    here, there = eventually(all_are_named, f"status names {lost}")
    assert here["problems"] == there["problems"]
    assert any(f"log directory {other} is offline" in each for each in here["problems"])
    assert metric(cluster, "logstore-0", "offline-partition") >= len(lost)
