"""Starting and stopping, with small programs in place of the services."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.cores import INTERPRETED, VARIABLE
from barnabas_cli.local import cluster as local_cluster
from barnabas_cli.local import ports, processes
from barnabas_cli.local.cluster import ClusterError, LocalCluster, sole_command
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas_cli.local.services import Role, Service
from tests.integration.reserved_ports import free_port

LISTENER = (
    "import socket, sys, time\n"
    "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    f"s.bind(('{HOST}', int(sys.argv[1]))); s.listen(); print('listening', flush=True); time.sleep(600)\n"
)


def listening_service(role: Role) -> Service:
    port = free_port()
    properties = {} if role is Role.ETCD else {"listeners": f"{HOST}:{port}"}
    return Service(role, role, [sys.executable, "-c", LISTENER, str(port)], {"data": port}, properties)


class Fake:
    """A cluster of programs that only listen, and what it said."""

    def __init__(self, path: Path) -> None:
        self.services = [listening_service(role) for role in Role]
        self.said: list[str] = []
        layout = ClusterLayout(1, 2, 1)
        self.cluster = LocalCluster(ClusterDirectory(path), layout, Path("etcd"))
        self.cluster.services = self.services
        self.cluster.layout = replace(layout, internal_port=self.services[0].ports["data"])

    def start(self) -> list[str]:
        self.said.clear()
        return self.cluster.start(self.said.append).services


def wait_until_listening(cluster: LocalCluster) -> str | None:
    waiting = [service.name for service in cluster.services if not ports.accepts(service.ports["data"])]
    return f"{waiting} do not listen" if waiting else None


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    fake = Fake(tmp_path / "data")
    monkeypatch.setenv(VARIABLE, INTERPRETED)
    monkeypatch.setattr(local_cluster, "not_ready", lambda *_: wait_until_listening(fake.cluster))
    yield fake
    fake.cluster.stop()


ALL = [str(role) for role in Role]


def test_up_is_idempotent_and_down_stops_everything(fake: Fake) -> None:
    assert fake.start() == ALL
    identities = [fake.cluster.identity(service) for service in fake.services]
    assert fake.start() == []
    assert [fake.cluster.identity(service) for service in fake.services] == identities
    stopped, killed = fake.cluster.stop()
    assert (sorted(stopped), killed) == (sorted(ALL), [])
    assert all(identity is not None and not processes.is_alive(identity) for identity in identities)
    assert fake.cluster.stop() == ([], [])
    assert fake.start() == ALL


def test_up_again_starts_only_what_died(fake: Fake) -> None:
    fake.start()
    fake.cluster.kill(fake.cluster.service("gateway"))
    assert fake.start() == ["gateway"]
    assert len(fake.said) == 1
    assert fake.said[0].startswith("gateway: process ")


def test_a_changed_configuration_restarts_its_service(fake: Fake) -> None:
    fake.start()
    index = ALL.index("purgatory")
    fake.services[index] = replace(fake.services[index], properties={"listeners": "elsewhere"})
    assert fake.start() == ["purgatory"]
    assert fake.said == ["purgatory: its configuration changed; restarting it"]
    assert fake.cluster.directory.config_path("purgatory").read_text() == "listeners=elsewhere\n"


def test_pid_files_from_before_a_reboot_harm_no_process(fake: Fake) -> None:
    own = processes.identify(os.getpid())
    assert own is not None
    processes.write_pid_file(fake.cluster.directory.pid_path("gateway"), own._replace(boot_id="before"))
    assert fake.start() == ALL
    assert fake.said == ["gateway: its pid file is from before the machine's last start; starting it again"]


def test_a_port_in_use_is_named_with_its_holder_and_nothing_is_started(fake: Fake) -> None:
    with socket.socket() as taken:
        port = fake.services[-1].ports["data"]
        taken.bind((HOST, port))
        taken.listen()
        with pytest.raises(ClusterError, match=rf"port {port}, for gateway, is in use by pid {os.getpid()} \("):
            fake.start()
    assert [service.name for service in fake.services if fake.cluster.is_alive(service)] == []


def test_a_port_that_somebody_killed_still_holds_is_waited_for(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, False])
    monkeypatch.setattr(ports, "is_free", lambda port: next(answers, True))
    assert fake.start() == list(Role)
    assert next(answers, None) is None


def test_a_service_that_dies_is_named_with_its_last_words(fake: Fake) -> None:
    dying = [sys.executable, "-c", "import sys; sys.exit('no disk left')"]
    fake.services[-1] = replace(fake.services[-1], argv=dying)
    with pytest.raises(ClusterError, match=r"(?s)gateway died; the end of .*gateway\.log:.*no disk left"):
        fake.start()


def test_a_service_has_its_own_environment_beside_that_of_all(fake: Fake) -> None:
    fake.services[0] = replace(fake.services[0], environment={"OF_THIS_SERVICE": "1"})
    fake.start()
    identity = fake.cluster.identity(fake.services[0])
    assert identity is not None
    environment = Path(f"/proc/{identity.pid}/environ").read_bytes().split(b"\0")
    assert b"OF_THIS_SERVICE=1" in environment
    assert any(variable.startswith(b"PYTHONPATH=") for variable in environment)


def test_a_program_that_is_not_there(fake: Fake) -> None:
    fake.services[0] = replace(fake.services[0], argv=["/nowhere/etcd"])
    with pytest.raises(ClusterError, match="etcd can't be started: /nowhere/etcd: No such file"):
        fake.start()


def test_records_without_the_clusters_state_are_not_put_under_another(fake: Fake) -> None:
    fake.cluster.directory.logstore_path(0).mkdir(parents=True)
    with pytest.raises(ClusterError, match="the cluster's state is gone"):
        fake.start()


def test_only_one_command_at_a_time(fake: Fake) -> None:
    directory = fake.cluster.directory
    with sole_command(directory), pytest.raises(ClusterError, match="another command"), sole_command(directory):
        pass
    with sole_command(directory):
        pass


def test_an_unknown_service(fake: Fake) -> None:
    with pytest.raises(ClusterError, match="no service zookeeper; the services are etcd, controller"):
        fake.cluster.service("zookeeper")


def test_a_service_that_is_stopped_by_a_signal_counts_as_dead(fake: Fake) -> None:
    fake.start()
    identity = fake.cluster.identity(fake.cluster.service("logstore"))
    assert identity is not None
    processes.signal_process(identity, signal.SIGTERM)
    while processes.is_alive(identity):
        pass
    with pytest.raises(ClusterError, match="logstore is not running"):
        fake.cluster.kill(fake.cluster.service("logstore"))
