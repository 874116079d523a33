"""The supervisor as a process of its own, with small programs in place of the services."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.supervisor import places
from barnabas.supervisor.places import PID_FILE, SOCKET
from barnabas.supervisor.restart_events import DIED, FAILED, RESTARTED, RestartEvent, read_restart_events
from barnabas_cli.local import cluster as local_cluster
from barnabas_cli.local import processes, supervision
from barnabas_cli.local.cluster import ClusterError
from barnabas_cli.local.processes import ProcessIdentity
from barnabas_cli.local.restarts import Supervised, recent_restarts, supervisor_status
from barnabas_cli.local.services import Service
from barnabas_cli.local.supervision import Supervision, SupervisorError, restart_events_path, supervisor_identity
from barnabas_cli.recovery.etcd_state import local_etcd
from tests.unit.cli.test_local_cluster import ALL, Fake, wait_until_listening

PATIENCE_SECONDS = 60.0
DYING = "import sys; sys.exit('no disk left')"


def eventually(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


class SupervisedFake(Fake):
    """A cluster that is started as `barnabas up` starts it."""

    def start(self) -> list[str]:
        self.said.clear()
        return self.cluster.start(self.said.append, supervised=True).services

    def identity(self, name: str) -> ProcessIdentity:
        found = self.cluster.identity(self.cluster.service(name))
        assert found is not None
        return found

    @property
    def supervisor(self) -> ProcessIdentity:
        found = supervisor_identity(self.cluster.directory)
        assert found is not None
        return found

    @property
    def events(self) -> list[RestartEvent]:
        return read_restart_events(restart_events_path(self.cluster.directory))

    def await_restart(self, name: str, before: ProcessIdentity) -> None:
        """Return when it is back, and its supervisor has said so."""
        service = self.cluster.service(name)

        def is_back() -> bool:
            of_service = [event.what for event in self.events if event.service == name]
            is_said = of_service[-1:] == [RESTARTED]
            return is_said and self.identity(name) != before and self.cluster.is_alive(service)

        eventually(is_back, f"{name} is back")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SupervisedFake]:
    fake = SupervisedFake(tmp_path / "data")
    monkeypatch.setattr(local_cluster, "not_ready", lambda *_: wait_until_listening(fake.cluster))
    yield fake
    fake.cluster.stop()


def dying(service: Service) -> Service:
    return replace(service, argv=[sys.executable, "-c", DYING])


def test_a_killed_service_comes_back_and_its_end_is_known(fake: SupervisedFake) -> None:
    fake.start()
    for name in ALL:
        before = fake.identity(name)
        fake.cluster.kill(fake.cluster.service(name))
        fake.await_restart(name, before)
    assert [(event.service, event.what) for event in fake.events] == [
        (name, what) for name in ALL for what in (DIED, RESTARTED)
    ]
    assert {event.why for event in fake.events if event.what == DIED} == {"killed by signal 9 (SIGKILL)"}
    restarts = recent_restarts(fake.cluster.directory, time.time_ns() // 1_000_000)
    assert {name: (each.count, each.last_why) for name, each in restarts.items()} == dict.fromkeys(
        ALL, (1, "killed by signal 9 (SIGKILL)")
    )


def test_a_second_up_finds_the_supervisor(fake: SupervisedFake) -> None:
    assert fake.start() == ALL
    before = fake.supervisor
    assert fake.start() == []
    assert fake.supervisor == before
    assert supervisor_status(fake.cluster.directory).state is Supervised.UP


def test_up_starts_what_is_down_under_the_supervisor_that_runs(fake: SupervisedFake) -> None:
    fake.start()
    with Supervision(fake.cluster.directory) as held:
        held.forget("gateway")
    fake.cluster.kill(fake.cluster.service("gateway"))
    assert fake.start() == ["gateway"]
    before = fake.identity("gateway")
    fake.cluster.kill(fake.cluster.service("gateway"))
    fake.await_restart("gateway", before)


def test_nothing_is_restarted_while_a_command_is_at_work(fake: SupervisedFake) -> None:
    fake.start()
    before = fake.identity("gateway")
    with Supervision(fake.cluster.directory):
        fake.cluster.kill(fake.cluster.service("gateway"))
        eventually(lambda: fake.events, "the death is recorded")
        time.sleep(0.3)
        assert fake.identity("gateway") == before
    fake.await_restart("gateway", before)


def test_down_in_a_pause_before_a_restart(fake: SupervisedFake) -> None:
    fake.start()
    fake.cluster.kill(fake.cluster.service("gateway"))
    fake.cluster.stop()
    time.sleep(0.3)
    assert [service.name for service in fake.services if fake.cluster.is_alive(service)] == []
    assert supervisor_status(fake.cluster.directory).state is Supervised.OFF


def test_a_service_that_keeps_dying_is_restarted_ever_later(fake: SupervisedFake) -> None:
    index = ALL.index("gateway")
    fake.services[index] = dying(fake.services[index])
    with pytest.raises(ClusterError, match="gateway died"):
        fake.start()
    eventually(lambda: sum(event.what == DIED for event in fake.events) >= 4, "it has died four times")
    deaths = [event for event in fake.events if event.what == DIED]
    assert [event.delay_ms for event in deaths[:4]] == [100, 200, 400, 800]
    assert {(event.service, event.why, event.last_line) for event in deaths} == {
        ("gateway", "exited with code 1", "no disk left")
    }


def test_a_program_that_is_gone_is_tried_again(fake: SupervisedFake, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    index = ALL.index("etcd")
    fake.services[index] = replace(fake.services[index], argv=[str(program), *fake.services[index].argv[1:]])
    fake.start()
    before = fake.identity("etcd")
    program.unlink()
    fake.cluster.kill(fake.services[index])
    eventually(lambda: any(event.what == FAILED for event in fake.events), "the failure is recorded")
    program.symlink_to(sys.executable)
    fake.await_restart("etcd", before)
    failed = next(event for event in fake.events if event.what == FAILED)
    assert "No such file" in failed.why


def test_a_first_start_that_fails_is_said_and_leaves_nothing(fake: SupervisedFake) -> None:
    fake.services[0] = replace(fake.services[0], argv=["/nowhere/etcd"])
    with pytest.raises(ClusterError, match="etcd can't be started: /nowhere/etcd: No such file"):
        fake.start()
    assert supervisor_status(fake.cluster.directory).state is Supervised.OFF


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_services_outlive_the_supervisor_and_the_next_up_starts_another(
    fake: SupervisedFake, number: signal.Signals
) -> None:
    fake.start()
    before, services = fake.supervisor, {name: fake.identity(name) for name in ALL}
    processes.signal_process(before, number)
    eventually(lambda: not processes.is_alive(before), "the supervisor has ended")
    assert supervisor_status(fake.cluster.directory).state is Supervised.DOWN
    assert {name: fake.identity(name) for name in ALL} == services
    assert all(map(processes.is_alive, services.values()))
    assert fake.cluster.start(print, supervised=True).supervisor
    assert {name: fake.identity(name) for name in ALL} == services
    fake.cluster.kill(fake.cluster.service("logstore"))
    fake.await_restart("logstore", services["logstore"])
    assert "only the supervisor knew" in fake.events[0].why


def test_a_supervisor_that_hangs_is_replaced(fake: SupervisedFake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.start()
    before = fake.supervisor
    os.kill(before.pid, signal.SIGSTOP)
    monkeypatch.setattr(supervision, "HOLD_SECONDS_MAX", 0.2)
    assert fake.cluster.start(print, supervised=True).supervisor
    assert not processes.is_alive(before)
    assert fake.supervisor != before


def test_a_supervisor_without_its_socket_is_replaced(fake: SupervisedFake) -> None:
    fake.start()
    before = fake.supervisor
    fake.cluster.directory.pid_path("any").with_name(SOCKET).unlink()
    assert fake.cluster.start(print, supervised=True).supervisor
    assert not processes.is_alive(before)


def test_up_without_a_supervisor_ends_the_one_that_runs(fake: SupervisedFake) -> None:
    fake.start()
    before = fake.supervisor
    assert fake.cluster.start(print).services == []
    assert not processes.is_alive(before)
    assert supervisor_status(fake.cluster.directory).state is Supervised.OFF
    assert all(map(fake.cluster.is_alive, fake.services))


def test_a_pid_that_is_another_process_by_now_is_not_adopted(fake: SupervisedFake) -> None:
    fake.start()
    own = processes.identify(os.getpid())
    assert own is not None
    with Supervision(fake.cluster.directory) as held:
        held.adopt("stranger", ["/bin/true"], {}, own._replace(start_ticks=own.start_ticks - 1))
    fake.cluster.kill(fake.cluster.service("etcd"))
    eventually(lambda: fake.events, "the supervisor goes on")
    assert "stranger" not in {event.service for event in fake.events}


def test_two_supervisors_of_one_directory(fake: SupervisedFake) -> None:
    fake.start()
    before = fake.supervisor
    run_path = fake.cluster.directory.pid_path("any").parent
    main = Path(places.__file__).with_name("__main__.py")
    second = subprocess.run([sys.executable, "-I", "-S", str(main), str(run_path)], check=False, timeout=60)
    assert second.returncode == 0
    assert fake.supervisor == before
    with Supervision(fake.cluster.directory) as held:
        assert not held.begin()


def test_state_is_not_restored_under_a_supervisor_that_would_restart_services(fake: SupervisedFake) -> None:
    fake.start()
    for service in fake.services:
        fake.cluster.kill(service)
    with pytest.raises(ClusterError, match="supervised: stop it first"), local_etcd(fake.cluster.directory):
        pass


def test_it_leads_a_session_so_that_it_outlives_its_terminal(fake: SupervisedFake) -> None:
    fake.start()
    assert os.getsid(fake.supervisor.pid) == fake.supervisor.pid
    assert {os.getsid(fake.identity(name).pid) for name in ALL} == {fake.identity(name).pid for name in ALL}


def test_a_stopped_service_is_reaped(fake: SupervisedFake) -> None:
    fake.start()
    index = ALL.index("purgatory")
    before = fake.identity("purgatory")
    fake.services[index] = replace(fake.services[index], properties={"listeners": "elsewhere"})
    assert fake.start() == ["purgatory"]
    eventually(lambda: not Path(f"/proc/{before.pid}").exists(), "no zombie is left")
    assert fake.events == []


def test_without_its_pid_file_it_ends_at_the_next_death(fake: SupervisedFake) -> None:
    fake.start()
    before = fake.supervisor
    (fake.cluster.directory.pid_path("any").with_name(PID_FILE)).unlink()
    fake.cluster.kill(fake.cluster.service("gateway"))
    eventually(lambda: not processes.is_alive(before), "the supervisor has ended")
    assert not fake.cluster.is_alive(fake.cluster.service("gateway"))


def test_a_request_that_is_none_ends_the_connection_alone(fake: SupervisedFake) -> None:
    fake.start()
    for request in ({"do": "no such thing"}, {}, {"do": "start"}):
        with Supervision(fake.cluster.directory) as held, pytest.raises(SupervisorError, match="has ended"):
            held._ask(request)
    assert processes.is_alive(fake.supervisor)


def test_a_request_that_is_nested_too_deep_ends_the_connection_alone(fake: SupervisedFake) -> None:
    fake.start()
    before = fake.supervisor
    with Supervision(fake.cluster.directory) as held:
        assert held._connected is not None
        held._connected.sendall(b"[" * 100_000 + b"\n")
        assert held._connected.recv(1) == b""
    with Supervision(fake.cluster.directory) as held:
        assert held._connected is not None, "it answers the next one"
    assert fake.supervisor == before


def test_it_loads_little() -> None:
    """Its memory is what it imports."""
    code = (
        "import sys; package = type(sys)('barnabas'); package.__path__ = [sys.argv[1]];"
        "sys.modules['barnabas'] = package; import barnabas.supervisor.supervisor; print(*sys.modules)"
    )
    root = Path(places.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(root)], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "barnabas.supervisor.supervisor" in loaded
    assert not loaded & {"barnabas.cores", "dataclasses", "inspect", "pathlib", "msgspec", "asyncio", "subprocess"}
