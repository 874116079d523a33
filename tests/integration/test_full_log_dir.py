"""One of two log directories of a logstore is full under writes: others lead what lies there, and need not wait for it;
when there is room, its replicas are back in the ISRs without a restart, and nothing acknowledged is lost or torn.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.injections.disks import fill
from tests.integration.kafka_clients import Confluent
from tests.integration.test_failed_log_dir import VICTIM, TwoDirectories, until
from tests.integration.test_kill import PARTITIONS, Load

pytestmark = [pytest.mark.integration, pytest.mark.deep]

TOPIC = "on-a-full-disk"


class SmallDisk(TwoDirectories):
    """One of the two is a small file system."""

    @property
    def directories(self) -> tuple[Path, Path]:
        return self.directory.logstore_path(VICTIM) / "large", self.directory.path / "small"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    running = SmallDisk(tmp_path_factory.mktemp("cluster"), logstores=3)
    _, small = running.directories
    small.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with running:
            yield running
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


def test_leaders_move_off_a_full_directory_and_its_replicas_come_back_with_room(cluster: SmallDisk) -> None:
    client = Confluent(cluster.bootstrap)
    options = ["--partitions", str(PARTITIONS), "--replication-factor", "3", "--config", "min.insync.replicas=2"]
    created = cluster.cli("topics", "create", TOPIC, *options)
    assert created.returncode == 0, created.stderr
    _, small = cluster.directories
    load = Load(cluster.bootstrap, TOPIC)
    try:
        load.wait_for_more(500)
        full = {int(each.name.rpartition("-")[2]) for each in small.glob(f"{TOPIC}-*")}
        assert 0 < len(full) < PARTITIONS, "new partitions go to the directory with the fewest"
        kept = {number for number, each in cluster.partitions(TOPIC).items() if each.leader_id == VICTIM} - full
        fill(small / "filler")

        def moved() -> bool:
            states = cluster.partitions(TOPIC)
            return all(VICTIM not in (states[each].leader_id, *states[each].isr_nodes) for each in full)

        until(moved, "not every partition of the full directory has another leader")
        load.wait_for_more(500)
        states = cluster.partitions(TOPIC)
        assert all(states[number].leader_id == VICTIM for number in kept)
        assert all(VICTIM in states[number].isr_nodes for number in range(PARTITIONS) if number not in full)
        assert f"logstore {VICTIM}: log directory {small} is full" in cluster.cli("status").stdout

        (small / "filler").unlink()
        until(
            lambda: all(len(each.isr_nodes) == 3 for each in cluster.partitions(TOPIC).values()),
            "the replicas of the full directory do not come back",
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
