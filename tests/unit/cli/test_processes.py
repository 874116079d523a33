from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.supervisor import process_table
from barnabas_cli.local import processes
from barnabas_cli.local.processes import ProcessIdentity

SLEEPER = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(600)",
]
PARENT = [
    sys.executable,
    "-c",
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "print('here', flush=True); time.sleep(600)",
]


class Spawner:
    def __init__(self, directory: Path) -> None:
        self.log_path = directory / "logs" / "service.log"
        self.spawned: list[ProcessIdentity] = []

    def __call__(self, argv: list[str]) -> ProcessIdentity:
        """Returns when the process has printed its first line."""
        identity = processes.spawn(argv, self.log_path, dict(os.environ))
        self.spawned.append(identity)
        while processes.last_lines(self.log_path, 1) != ["here"]:
            assert processes.is_alive(identity)
        return identity


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawner]:
    spawner = Spawner(tmp_path)
    yield spawner
    for identity in spawner.spawned:
        processes.signal_session(identity, signal.SIGKILL)
    processes.stop(spawner.spawned, grace_seconds=0)


def test_a_process_leads_a_session_of_its_own_and_writes_to_its_log(spawn: Spawner) -> None:
    identity = spawn(SLEEPER)
    assert processes.is_alive(identity)
    assert os.getsid(identity.pid) == identity.pid
    assert processes.last_lines(spawn.log_path, 5) == ["here"]


def test_stopped_by_sigterm(spawn: Spawner) -> None:
    identity = spawn(SLEEPER)
    assert processes.stop([identity], grace_seconds=20) == []
    assert not processes.is_alive(identity)


def test_killed_after_the_grace(spawn: Spawner) -> None:
    identity = spawn(STUBBORN)
    assert processes.stop([identity], grace_seconds=0.1) == [identity]
    assert not processes.is_alive(identity)


def test_children_of_a_killed_process_are_stopped_with_it(spawn: Spawner) -> None:
    identity = spawn(PARENT)
    assert len(processes.session_members(identity)) == 2
    os.kill(identity.pid, signal.SIGKILL)
    while processes.is_alive(identity):
        pass
    assert len(processes.session_members(identity)) == 1
    processes.stop([identity], grace_seconds=20)
    assert processes.session_members(identity) == []


def test_a_process_of_the_same_pid_is_another_one(spawn: Spawner) -> None:
    identity = spawn(SLEEPER)
    for stranger in (identity._replace(start_ticks=identity.start_ticks + 1), identity._replace(boot_id="before")):
        assert not processes.is_alive(stranger)
        processes.stop([stranger], grace_seconds=0)
    assert processes.is_alive(identity)


def test_pid_files(tmp_path: Path) -> None:
    path = tmp_path / "run" / "gateway.pid"
    assert processes.read_pid_file(path) is None
    identity = processes.identify(os.getpid())
    assert identity is not None
    processes.write_pid_file(path, identity)
    assert processes.read_pid_file(path) == identity
    path.write_text("12")
    assert processes.read_pid_file(path) is None


def test_a_large_log_is_set_aside(spawn: Spawner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "LOG_BYTES_MAX", 10)
    spawn.log_path.parent.mkdir()
    spawn.log_path.write_text("eleven char\n")
    spawn(SLEEPER)
    assert spawn.log_path.read_text() == "here\n"
    assert spawn.log_path.with_suffix(".log.1").read_text() == "eleven char\n"
