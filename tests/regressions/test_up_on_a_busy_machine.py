"""`barnabas up` gave up after 60 s on a busy machine, though its services were still loading their code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from barnabas_cli.local import cluster as local_cluster
from barnabas_cli.local import ports
from barnabas_cli.local.cluster import ClusterError, LocalCluster
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout


class Clock:
    """Time that passes by sleeping, and 0.4 s for each question whether the cluster is ready."""

    def __init__(self, ready_after_s: float) -> None:
        self.now = 1000.0
        self.ready_at = self.now + ready_after_s

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def not_ready(self, *_: object) -> str | None:
        self.now += 0.4
        return None if self.now >= self.ready_at else "the gateway does not listen yet"


def started(directory: Path, monkeypatch: pytest.MonkeyPatch, ready_after_s: float) -> list[str]:
    """Return what `up` said while it waited for a cluster without services."""
    clock = Clock(ready_after_s)
    monkeypatch.setattr(local_cluster, "time", clock)
    monkeypatch.setattr(local_cluster, "not_ready", clock.not_ready)
    cluster = LocalCluster(ClusterDirectory(directory), ClusterLayout(1, 2, 1), Path("etcd"))
    cluster.services = []
    said: list[str] = []
    cluster.start(said.append)
    return said


def test_services_that_live_are_waited_for_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = started(tmp_path, monkeypatch, ready_after_s=90)
    assert [line.split(": ")[1] for line in said] == ["the gateway does not listen yet"] * 4
    assert said[0].startswith("waiting for 20 s")


def test_a_cluster_that_is_never_ready_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="not ready after 300 s: the gateway does not listen yet"):
        started(tmp_path, monkeypatch, ready_after_s=1000)


def test_a_port_that_a_client_has_is_said_to_be_a_connection() -> None:
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = client.getsockname()[1]
        assert not ports.is_free(port)
        assert ports.holder(port).startswith("a connection of pid ")
        assert "as clients use ports from " in ports.holder(port)
        assert ports.holder(server.getsockname()[1]).startswith("pid ")
