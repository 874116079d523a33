"""One of two log directories of a logstore fails under writes: others lead what lay there, nothing acknowledged is
lost, and what is sound is led on; once the directory is sound again a restart brings its replicas back into the ISRs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.wire.messages.metadata import MetadataResponsePartition
from barnabas_cli.local.cluster import Started
from barnabas_cli.local.layout import HOST
from barnabas_cli.record_client import RecordClient
from tests.integration.kafka_clients import Confluent
from tests.integration.running_cluster import RunningCluster
from tests.integration.test_kill import PARTITIONS, Load

pytestmark = [pytest.mark.integration, pytest.mark.deep]

TOPIC = "on-a-failing-disk"
VICTIM = 1
SECONDS_MAX = 120.0


class TwoDirectories(RunningCluster):
    """The victim keeps its logs in two directories."""

    @property
    def directories(self) -> tuple[Path, Path]:
        path = self.directory.logstore_path(VICTIM)
        return path / "sound", path / "failing"

    def up(self) -> Started:
        log_dirs = ",".join(str(each) for each in self.directories)
        self.local.services = [
            replace(each, properties=each.properties | {"log.dirs": log_dirs})
            if each.name == f"logstore-{VICTIM}"
            else each
            for each in self.local.services
        ]
        return super().up()

    def partitions(self, topic: str = TOPIC) -> dict[int, MetadataResponsePartition]:
        with RecordClient(HOST, self.local.layout.kafka_port) as client:
            return {each.partition_index: each for each in client.topic(topic, create=False).partitions}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoDirectories]:
    running = TwoDirectories(tmp_path_factory.mktemp("cluster"), logstores=3)
    with running:
        yield running


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_leaders_move_off_a_failed_directory_and_come_back(cluster: TwoDirectories) -> None:
    client = Confluent(cluster.bootstrap)
    options = ["--partitions", str(PARTITIONS), "--replication-factor", "3", "--config", "min.insync.replicas=2"]
    created = cluster.cli("topics", "create", TOPIC, *options)
    assert created.returncode == 0, created.stderr
    _, failing = cluster.directories
    load = Load(cluster.bootstrap, TOPIC)
    try:
        load.wait_for_more(500)
        lost = {int(each.name.rpartition("-")[2]) for each in failing.glob(f"{TOPIC}-*")}
        assert 0 < len(lost) < PARTITIONS, "new partitions go to the directory with the fewest"
        kept = {number for number, each in cluster.partitions().items() if each.leader_id == VICTIM} - lost
        # Files that are open can still be written; no checkpoint can be.
        aside = failing.with_name("aside")
        failing.rename(aside)
        failing.touch()

        def moved() -> bool:
            states = cluster.partitions()
            return all(VICTIM not in (states[each].leader_id, *states[each].isr_nodes) for each in lost)

        until(moved, "not every partition of the failed directory has another leader")
        load.wait_for_more(500)
        states = cluster.partitions()
        assert all(states[number].leader_id == VICTIM for number in kept)
        assert all(VICTIM in states[number].isr_nodes for number in range(PARTITIONS) if number not in lost)
        status = cluster.cli("status").stdout
        assert f"logstore {VICTIM}: log directory {failing} is offline" in status

        cluster.kill(f"logstore-{VICTIM}")
        failing.unlink()
        aside.rename(failing)
        cluster.up()
        until(
            lambda: all(len(each.isr_nodes) == 3 for each in cluster.partitions().values()),
            "the replicas of the failed directory do not come back",
        )
        load.wait_for_more(500)
    finally:
        load.stop()
    assert load.failures == []
    for partition in range(PARTITIONS):
        acknowledged = [value for at, value in load.acknowledged if at == partition]
        read = client.consume(TOPIC, partition, len(acknowledged))
        assert read == sorted(acknowledged, key=int), "in the order in which they were sent"
        assert max(Counter(read).values()) == 1
