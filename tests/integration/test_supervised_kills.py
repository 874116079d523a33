"""Each process killed in turn under the supervisor of `barnabas up`; `make supervised-kills` takes the times."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from barnabas_cli.local.restarts import Supervised, supervisor_status
from tests.faults.supervised_kills import SupervisedKills, supervised_cluster
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300), pytest.mark.slow, pytest.mark.deep]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with supervised_cluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield running


def test_each_process_comes_back_and_status_says_so(cluster: RunningCluster) -> None:
    run = SupervisedKills(cluster, print)
    run.run(times=1)
    assert [each.victim.role for each in run.returns] == [
        "etcd",
        "controller",
        "logstore",
        "control process",
        "purgatory",
        "gateway acceptor",
        "processor",
        "cleaner",
    ]
    assert [each for each in run.returns if not each.said] == []
    services = {each.name: each for each in cluster.status().services}
    once = (1, "killed by signal 9 (SIGKILL)")
    assert {name: (each.restarts, each.last_death) for name, each in services.items()} == dict.fromkeys(services, once)


def test_history_lists_restarts(cluster: RunningCluster) -> None:
    cluster.kill("purgatory")
    listed = json.loads(cluster.cli("history", "--restarts", "--json").stdout)
    assert {each["what"] for each in listed} == {"died", "restarted"}
    assert all(each["why"] == "killed by signal 9 (SIGKILL)" for each in listed if each["what"] == "died")
    shown = cluster.cli("history")
    assert "CONTROLLER" in shown.stdout
    assert "killed by signal 9 (SIGKILL)" in shown.stdout


def test_down_stops_the_supervisor_too(cluster: RunningCluster) -> None:
    assert cluster.cli("down").returncode == 0
    assert cluster.pids == {}
    assert supervisor_status(cluster.directory).state is Supervised.OFF
    assert cluster.status().supervisor.state is Supervised.OFF


def test_up_supervises_unless_it_is_not_wanted(cluster: RunningCluster) -> None:
    assert cluster.cli("up", "--supervisor").returncode == 0
    before = cluster.pids["purgatory"]
    cluster.kill("purgatory")
    while cluster.pids.get("purgatory", before) == before:
        time.sleep(0.05)
    assert "purgatory was restarted" in cluster.cli("status").stdout
    assert cluster.cli("up").stdout.startswith("already up"), "without a supervisor"
    assert cluster.status().supervisor.state is Supervised.OFF
