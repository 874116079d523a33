"""`barnabas up`, `down`, `status` and the commands that a person types, as processes of their own."""

from __future__ import annotations

import json
import socket

import pytest

from barnabas_cli.local import processes
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.deep]


def test_up_when_all_is_up(cluster: RunningCluster) -> None:
    before = cluster.pids
    done = cluster.cli("up")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("already up")
    assert cluster.pids == before


def test_status_of_a_healthy_cluster(cluster: RunningCluster) -> None:
    done = cluster.cli("status", "--json")
    assert done.returncode == 0, done.stdout
    status = json.loads(done.stdout)
    assert status["healthy"] is True
    assert status["bootstrap"] == cluster.bootstrap
    assert {service["name"]: service["pid"] for service in status["services"]} == cluster.pids
    assert all(service["addresses"] for service in status["services"])
    assert cluster.cli("status").returncode == 0


def test_lines_in_are_lines_out(cluster: RunningCluster) -> None:
    lines = "".join(f"key-{number}:value {number}\n" for number in range(2500))
    produced = cluster.cli("produce", "lines", "--key-separator", ":", stdin=lines)
    assert produced.returncode == 0, produced.stderr
    consumed = cluster.cli("consume", "lines", "--key-separator", ":", "--exit")
    assert consumed.stdout == lines
    last = cluster.cli("consume", "lines", "--offset", "2499", "--count", "1")
    assert last.stdout == "value 2499\n"


def test_topics(cluster: RunningCluster) -> None:
    assert cluster.cli("topics", "create", "made", "--partitions", "3").returncode == 0
    assert "made" in cluster.cli("topics", "list").stdout
    assert len(cluster.cli("topics", "describe", "made").stdout.splitlines()) == 1 + 1 + 3
    again = cluster.cli("topics", "create", "made")
    assert again.returncode == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert cluster.cli("topics", "delete", "made").returncode == 0
    gone = cluster.cli("topics", "describe", "made")
    assert gone.returncode == 1
    assert gone.stderr.startswith("error: ")


def test_logs(cluster: RunningCluster) -> None:
    shown = cluster.cli("logs", "--lines", "1")
    assert shown.returncode == 0
    assert "gateway" in shown.stdout
    unknown = cluster.cli("logs", "zookeeper")
    assert unknown.returncode == 1
    assert "no service zookeeper" in unknown.stderr


def test_a_larger_cluster_is_refused_its_shrinking(cluster: RunningCluster) -> None:
    refused = cluster.cli("up", "--port", "1999")
    assert refused.returncode == 1
    assert "uses port" in refused.stderr


def test_down_and_up_keeps_every_record(cluster: RunningCluster) -> None:
    lines = "".join(f"{number}\n" for number in range(1000))
    assert cluster.cli("produce", "kept", stdin=lines).returncode == 0
    down = cluster.cli("down")
    assert down.returncode == 0, down.stderr
    assert "had to be killed" not in down.stdout
    assert cluster.pids == {}
    assert cluster.cli("down").stdout == "nothing was running\n"
    status = cluster.cli("status")
    assert status.returncode == 1
    assert "gateway is down: not started" in status.stdout
    up = cluster.cli("up")
    assert up.returncode == 0, up.stderr
    assert cluster.cli("consume", "kept", "--exit").stdout == lines


def test_pid_files_from_before_a_reboot(cluster: RunningCluster) -> None:
    cluster.down()
    own = processes.identify(1)
    assert own is not None
    processes.write_pid_file(cluster.directory.pid_path("gateway"), own._replace(boot_id="another boot"))
    up = cluster.cli("up")
    assert up.returncode == 0, up.stderr
    assert "gateway: its pid file is from before the machine's last start" in up.stdout


def test_a_port_in_use(cluster: RunningCluster) -> None:
    cluster.down()
    host, _, port = cluster.bootstrap.rpartition(":")
    with socket.create_server((host, int(port))):
        up = cluster.cli("up")
        assert up.returncode == 1
        assert up.stderr.startswith(f"error: port {port}, for gateway, is in use by pid")
        assert cluster.pids == {}
        assert cluster.cli("doctor").returncode == 1
    assert cluster.cli("up").returncode == 0


def test_state_that_is_gone(cluster: RunningCluster) -> None:
    cluster.down()
    etcd_path = cluster.directory.etcd_path
    etcd_path.rename(etcd_path.with_suffix(".aside"))
    up = cluster.cli("up")
    assert up.returncode == 1
    assert "the cluster's state is gone" in up.stderr
    etcd_path.with_suffix(".aside").rename(etcd_path)
    assert cluster.cli("up").returncode == 0
