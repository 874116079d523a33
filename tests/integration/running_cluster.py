"""A cluster for tests, started by the same code as `barnabas up`, on unused ports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from barnabas_cli.local import processes
from barnabas_cli.local.cluster import STOP_SECONDS_MAX, LocalCluster, Started, cluster_to_start
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas_cli.local.status import ClusterStatus, inspect
from barnabas_cli.local.supervision import Supervision
from tests.integration.reserved_ports import reserve_ports

ROOT = Path(__file__).parents[2]

_INTERNAL_PORTS_AT = 40
_SECURED_PORTS_AT = 80
"""Between the internal ports of a few logstores and their metrics."""


class RunningCluster:
    """Use it as a context manager. Whatever becomes of the tests, none of its processes outlives them."""

    def __init__(
        self,
        directory: Path,
        logstores: int,
        security: Callable[[int], dict[str, str]] | None = None,
        *,
        secure: bool = False,
        supervised: bool = False,
    ) -> None:
        """`security` returns properties of the gateway beside its own, given the first of 50 unused ports. Most tests
        want what they kill to stay dead, and so no supervisor.
        """
        self.directory = ClusterDirectory(directory)
        self._logstores = logstores
        self._security = security
        self._secure = secure
        self._supervised = supervised
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        block, lock = reserve_ports()
        self._cleanup.enter_context(lock)
        self._cleanup.enter_context(reaper_of(self.directory.path))
        layout = self._layout(ClusterLayout(block, block + _INTERNAL_PORTS_AT, self._logstores, secure=self._secure))
        self.local: LocalCluster = cluster_to_start(self.directory, layout, print)
        if self._security is not None:
            self.local.service("gateway").properties.update(self._security(block + _SECURED_PORTS_AT))
        self._cleanup.callback(self._kill_everything)
        try:
            self.up()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _layout(self, usual: ClusterLayout) -> ClusterLayout:
        """Return the layout to start, on the same ports: that of `barnabas up`, unless a subclass has another."""
        return usual

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.local.layout.kafka_port}"

    @property
    def ops_address(self) -> str:
        return f"{HOST}:{self.local.layout.operations_port}"

    @property
    def pids(self) -> dict[str, int]:
        """Of the services that are alive."""
        alive = {}
        for service in self.local.services:
            identity = self.local.identity(service)
            if identity is not None and processes.is_alive(identity):
                alive[service.name] = identity.pid
        return alive

    def up(self) -> Started:
        """As `barnabas up`: start what is down, and wait until a client can produce."""
        return self.local.start(print, supervised=self._supervised)

    def down(self) -> None:
        self.local.stop()

    def stop(self, service: str) -> None:
        """SIGTERM; returns when it has ended by itself."""
        identity = self.local.identity(self.local.service(service))
        assert identity is not None
        assert not processes.stop([identity], STOP_SECONDS_MAX), f"{service} had to be killed"

    def kill(self, service: str) -> None:
        """kill -9 of the one process that was started; returns when it is gone."""
        self.local.kill(self.local.service(service))

    def start(self, service: str) -> None:
        """Start one service and wait for nothing."""
        self.local.spawn(self.local.service(service))

    def status(self) -> ClusterStatus:
        return inspect(self.local)

    def cli(self, *arguments: str, stdin: str = "", timeout_seconds: float = 90) -> subprocess.CompletedProcess[str]:
        """Run `barnabas` on this cluster as its own process; `up` has what dies stay dead, unless it says otherwise."""
        if arguments[:1] == ("up",) and "--supervisor" not in arguments:
            arguments = (*arguments, "--no-supervisor")
        return subprocess.run(
            [sys.executable, "-m", "barnabas_cli", *arguments, "--data-dir", str(self.directory.path)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            cwd=ROOT,
            check=False,
        )

    def status_json(self) -> Any:
        return msgspec.json.decode(self.cli("status", "--json").stdout)

    def _kill_everything(self) -> None:
        """What its tests have not stopped has nothing left to show."""
        with Supervision(self.directory) as supervision:
            supervision.end()
        identities = [found for service in self.local.services if (found := self.local.identity(service)) is not None]
        for identity in identities:
            processes.signal_session(identity, signal.SIGKILL)
        processes.stop(identities, STOP_SECONDS_MAX)

    def last_words(self) -> str:
        """The ends of all logs."""
        parts = []
        for service in self.local.services:
            lines = processes.last_lines(self.directory.log_path(service.name), 15)
            parts.append("\n".join([f"--- {service.name}", *lines]))
        return "\n".join(parts)


def reaper_of(directory: Path) -> ExitStack:
    """A process that kills what is left of the cluster when this one ends, however it ends."""
    stack = ExitStack()
    reaper = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.reaper", str(directory)],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
    )
    assert reaper.stdin is not None
    stack.callback(reaper.stdin.close)
    return stack
