"""Ten members of a group, each a process of its own, to be stopped, killed and replaced."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from barnabas_cli.local.services import service_environment
from tests.faults.groups.consumer import Plan

ROOT = Path(__file__).parents[3]
END_SECONDS_MAX = 60.0


class MembersError(Exception):
    """A member ended by itself, or not when it should; the message has its last words."""


class Members:
    """Use it as a context manager: members that still run at its end are killed."""

    def __init__(self, directory: Path, bootstrap_servers: Sequence[str], group_id: str, topic: str) -> None:
        self._directory = directory
        self._bootstrap_servers = list(bootstrap_servers)
        self._group_id = group_id
        self._topic = topic
        self._lives: dict[int, int] = {}
        """By number of the member: how many it has had."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._leaving: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Members:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self._processes.values(), *self._leaving):
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, number: int) -> None:
        """The next life of that member."""
        life = self._lives[number] = self._lives.get(number, 0) + 1
        name = f"consumer-{number}/{life}"
        plan = Plan(
            bootstrap_servers=self._bootstrap_servers,
            group_id=self._group_id,
            topic=self._topic,
            consumer=name,
            history=str(self._directory / f"consumer-{number}-{life}.jsonl"),
        )
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._log_path(number).open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.groups.consumer", msgspec.json.encode(plan).decode()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=service_environment(),
                start_new_session=True,
            )

    def replace(self, number: int, how: signal.Signals) -> None:
        """End it, and begin its next life without waiting for that end."""
        process = self._processes[number]
        process.send_signal(how)
        self._leaving.append(process)
        self.start(number)

    def check_alive(self) -> None:
        """Raises MembersError when one has ended by itself."""
        for number, process in self._processes.items():
            if process.poll() is not None:
                raise MembersError(f"consumer-{number} ended with {process.returncode}:\n{self._last_words(number)}")

    def stop(self) -> list[Path]:
        """Have all of them leave; returns the paths of their histories. Raises MembersError."""
        self.check_alive()
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for number, process in self._processes.items():
            try:
                code = process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                raise MembersError(f"consumer-{number} did not end within {END_SECONDS_MAX:.0f} s") from None
            if code != 0:
                raise MembersError(f"consumer-{number} ended with {code}:\n{self._last_words(number)}")
        return sorted(self._directory.glob("consumer-*.jsonl"))

    def _log_path(self, number: int) -> Path:
        return self._directory / f"consumer-{number}.log"

    def _last_words(self, number: int) -> str:
        return "\n".join(self._log_path(number).read_text(errors="replace").splitlines()[-20:])
