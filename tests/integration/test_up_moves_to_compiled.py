"""`barnabas up` on a cluster of plain modules once there is a binary, under idempotent producers and readers.

The cluster is one of a copy of the packages, where the binary appears between two `up`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.cores import INTERPRETED, MANIFEST, VARIABLE, Build, find_build, problem_of
from barnabas_cli.local.cluster import Started
from barnabas_cli.local.cores_in_use import libraries_of
from tests.faults.checker import check
from tests.faults.history import read
from tests.faults.workload import Mix, start
from tests.integration.running_cluster import ROOT, RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600), pytest.mark.slow, pytest.mark.deep]

LOGSTORES = 3
PARTITIONS = 6
RECORDS_BETWEEN = 120
MIX = Mix(idempotent=3, acks_all=0, acks_1=0, readers=2, life_seconds=0)
MOVED = ["controller", *(f"logstore-{number}" for number in range(LOGSTORES)), "purgatory", "gateway"]


class CopiedCluster(RunningCluster):
    """A cluster whose services run the packages of another folder than these tests do."""

    def __init__(self, directory: Path, packages: Path) -> None:
        super().__init__(directory, LOGSTORES)
        self._packages = packages

    def up(self) -> Started:
        self.directory.write_layout(self.local.layout)
        done = self.cli("up")
        assert done.returncode == 0, done.stderr
        return Started([], 0.0)

    def cli(
        self, *arguments: str, stdin: str = "", timeout_seconds: float = 500, cores: str = ""
    ) -> subprocess.CompletedProcess[str]:
        services = (self._packages / "services").iterdir()
        folders = (self._packages, self._packages / "cli", self._packages / "protos", *services)
        supervised = ("--no-supervisor",) if arguments == ("up",) else ()
        return subprocess.run(
            [sys.executable, "-m", "barnabas_cli", *arguments, *supervised, "--data-dir", str(self.directory.path)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            cwd=self._packages,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), VARIABLE: cores},
            check=False,
        )

    def libraries(self) -> dict[str, set[str]]:
        """Return the binaries that each service but etcd has mapped."""
        return {
            name: libraries_of(Path(f"/proc/{pid}/maps").read_text())
            for name, pid in self.pids.items()
            if name != "etcd"
        }


@pytest.fixture(scope="module")
def build() -> Build:
    found = find_build()
    problem = problem_of(found)
    if found is None or problem:
        pytest.skip(f"compiled cores: {problem}; make compiled, where there is a compiler")
    return found


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory, build: Build) -> Path:
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("barnabas", "cli", "protos", "services"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("binaries"))
    return copy


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Iterator[CopiedCluster]:
    with CopiedCluster(tmp_path_factory.mktemp("cluster"), packages) as running:
        yield running


def create_topic(cluster: RunningCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = NewTopic(topic, PARTITIONS, LOGSTORES, config={"min.insync.replicas": "2"})
    admin.create_topics([wanted])[topic].result(timeout=60)


def test_services_move_to_a_binary_that_has_appeared_and_nothing_is_lost_or_doubled(
    cluster: CopiedCluster, packages: Path, build: Build, tmp_path: Path
) -> None:
    assert cluster.libraries() == {name: set() for name in MOVED}
    before = cluster.pids
    assert cluster.cli("up").stdout.startswith("already up")
    assert cluster.pids == before

    create_topic(cluster, "moved")
    place = packages / "build/compiled"
    with start([cluster.bootstrap], "moved", PARTITIONS, directory=tmp_path, seed=1, mix=MIX) as workload:
        workload.wait_for_more(RECORDS_BETWEEN)
        place.mkdir(parents=True)
        shutil.copy(build.library, place)
        shutil.copy(build.library.parent / MANIFEST, place)
        (notice,) = json.loads(cluster.cli("status", "--json").stdout)["notices"]
        assert notice.startswith(f"{', '.join(MOVED)} would run the compiled cores if started now, and do not yet")
        moved = cluster.cli("up")
        workload.wait_for_more(RECORDS_BETWEEN)
        verdict = check(read(workload.stop()))

    assert moved.returncode == 0, moved.stderr
    lines = moved.stdout.splitlines()
    assert [line for line in lines if line.endswith(": moving to the compiled cores")] == [
        f"{name}: moving to the compiled cores" for name in MOVED
    ]
    assert f"moved to the compiled cores, one by one: {', '.join(MOVED)}" in lines
    assert verdict.is_clean, str(verdict)
    assert verdict.figures.acknowledged > 2 * RECORDS_BETWEEN
    assert {name for name, pid in cluster.pids.items() if before[name] == pid} == {"etcd"}
    assert cluster.libraries() == {name: {str((place / build.library.name).resolve())} for name in MOVED}


def test_status_says_what_up_would_move(cluster: CopiedCluster) -> None:
    found = json.loads(cluster.cli("status", "--json").stdout)
    assert (found["cores"], found["notices"]) == ("compiled", [])
    (notice,) = json.loads(cluster.cli("status", "--json", cores=INTERPRETED).stdout)["notices"]
    assert "gateway would run plain modules if started now" in notice
    before = cluster.pids
    assert cluster.cli("up").stdout.startswith("already up")
    assert cluster.pids == before
