"""A whole cluster of real processes, three members of etcd included, to be killed, stopped, cut and started again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

from barnabas_cli.etcd_binary import pick_etcd
from barnabas_cli.local import processes
from barnabas_cli.local.processes import ProcessIdentity
from barnabas_cli.local.services import Role, service_environment
from barnabas_cli.operations import OperationsClient, OperationsError
from barnabas_protos.controller.v1.operations_pb2 import DescribeClusterResponse, Node
from tests.faults.machines import (
    CLIENTS,
    CONTROLLERS,
    ETCD,
    ETCD_CLIENT_PORT,
    LOGSTORES,
    MACHINES,
    OPERATIONS_PORT,
    SERVICES,
    Layout,
    command_of,
    properties_of,
    role_of,
)
from tests.faults.namespaces import NamespacesError, Network
from tests.faults.topics import brokers_known

ROOT: Final = Path(__file__).parents[2]
START_SECONDS_MAX: Final = 90.0
SMALL_DISK_BYTES: Final = 64 * 1024 * 1024

_POLL_SECONDS: Final = 0.1
_PROBE_SECONDS_MAX: Final = 2.0
_LOCK_PORT: Final = 9099

T = TypeVar("T")


class UnhealthyError(Exception):
    """The cluster did not come to where it can serve; the message says what was waited for."""


class FaultCluster:
    """Use it as a context manager. Nothing of it outlives this process, however that ends.

    `network` is None where there can be no namespaces, and `no_network` says why; `small_disk` is the directory of
    logstore-0 that is a small file system of its own, None where nothing can be mounted.
    """

    def __init__(self) -> None:
        self._cleanup = ExitStack()
        self._identities: dict[str, ProcessIdentity] = {}
        self._epochs: dict[str, int] = {}
        """Of the registrations, when all was well the last time."""
        self._past_epochs: dict[str, int] = {}
        """Of those that were started again since then: they have to register again."""
        self.network: Network | None = None
        self.no_network = ""
        self.small_disk: Path | None = None

    def __enter__(self) -> FaultCluster:
        directory = Path(tempfile.mkdtemp(prefix="barnabas-faults-"))
        self._prefix = f"bf{directory.name[-8:]}"
        self._cleanup.enter_context(_reaper(directory, self._prefix))
        try:
            address = self._connect()
            self.layout = Layout(directory, pick_etcd(print).path, address)
            self._mount_small_disk()
            processes.raise_open_files_limit()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def start(self) -> float:
        """Everything that does not run, at once; returns the seconds until it could serve. Raises UnhealthyError."""
        began = time.monotonic()
        for service in SERVICES:
            if not self.is_alive(service):
                self.spawn(service)
        self.wait_until(self.not_ready, START_SECONDS_MAX)
        return time.monotonic() - began

    def repair(self) -> None:
        """Whatever was done to it is taken back: links heal, what sleeps wakes up, what is dead starts. Raises
        UnhealthyError."""
        if self.network is not None:
            self.network.heal()
        if self.small_disk is not None:
            (self.small_disk / "filler").unlink(missing_ok=True)
        for service in SERVICES:
            if self.is_alive(service):
                self.resume(service)
        self.start()

    def start_over(self) -> None:
        """Kill everything, forget all data and start a cluster that knows nothing. Raises UnhealthyError."""
        for service in SERVICES:
            self.kill(service)
        if self.network is not None:
            self.network.heal()
        for path in [*map(self.layout.etcd_directory, ETCD), *self.log_directories()]:
            _empty(path)
        self._epochs.clear()
        self.start()

    def spawn(self, service: str, environment: dict[str, str] | None = None) -> None:
        """Start one process, which finds what the one before it left; nothing is waited for."""
        assert not self.is_alive(service), service
        self._past_epochs[service] = self._epochs.get(service, 0)
        previous = self._identities.get(service)
        if previous is not None:
            processes.signal_session(previous, signal.SIGKILL)
        config_path = self.layout.directory / "conf" / f"{service}.properties"
        argv = self.command(service, config_path)
        if role_of(service) is not Role.ETCD:
            config_path.parent.mkdir(exist_ok=True)
            config = self.properties(service)
            config_path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        lane = {}
        if self.network is not None:
            argv = self.network.command(service, argv)
            lane = {"BARNABAS_LANE": "off"}
        full_environment = {**service_environment(), **lane, **(environment or {})}
        identity = processes.spawn(argv, self.log_path(service), full_environment)
        processes.write_pid_file(self.layout.directory / "run" / f"{service}.pid", identity)
        self._identities[service] = identity

    def properties(self, service: str) -> dict[str, str]:
        """Return the configuration that `spawn` writes for a Python service."""
        return properties_of(self.layout, service)

    def command(self, service: str, config_path: Path) -> list[str]:
        """What `spawn` starts."""
        return command_of(self.layout, service, config_path)

    def is_alive(self, service: str) -> bool:
        identity = self._identities.get(service)
        return identity is not None and processes.is_alive(identity)

    def kill(self, *services: str) -> None:
        """kill -9 of all of them at the same moment, children included; returns when they are gone."""
        identities = [self._identities[service] for service in services if service in self._identities]
        for identity in identities:
            processes.signal_session(identity, signal.SIGKILL)
        for identity in identities:
            while processes.is_alive(identity):
                time.sleep(_POLL_SECONDS / 10)

    def terminate(self, service: str, seconds_max: float) -> float:
        """SIGTERM; the seconds until it had ended by itself. Raises UnhealthyError when it did not."""
        began = time.monotonic()
        killed = processes.stop([self._identities[service]], seconds_max)
        if killed:
            raise UnhealthyError(f"{service} did not stop within {seconds_max:.0f} s of SIGTERM")
        return time.monotonic() - began

    def pause(self, service: str) -> None:
        processes.signal_session(self._identities[service], signal.SIGSTOP)

    def resume(self, service: str) -> None:
        processes.signal_session(self._identities[service], signal.SIGCONT)

    def processes(self, service: str) -> list[int]:
        """The pids of the service, its children included."""
        return processes.session_members(self._identities[service])

    def log_path(self, service: str) -> Path:
        return self.layout.directory / "logs" / f"{service}.log"

    def describe(self) -> DescribeClusterResponse | None:
        """What the active controller says; None while there is none."""
        for controller in CONTROLLERS:
            address = f"{self.layout.address(controller)}:{OPERATIONS_PORT}"
            try:
                with OperationsClient(address, _PROBE_SECONDS_MAX) as operations:
                    return operations.describe_cluster()
            except OperationsError:
                continue
        return None

    def active_controller(self) -> str:
        described = self.wait_for(self.describe, START_SECONDS_MAX, "no active controller")
        return described.controller_id

    def etcd_leader(self) -> str:
        return self.wait_for(self._etcd_leader, START_SECONDS_MAX, "etcd has no leader")

    def not_ready(self) -> str | None:
        """Why the cluster as a whole could not serve now: everything has to run, and know of everything."""
        for service in SERVICES:
            if not self.is_alive(service):
                return f"{service} is dead: {' / '.join(processes.last_lines(self.log_path(service), 3))}"
        described = self.describe()
        if described is None:
            return "there is no active controller"
        if described.problems:
            return described.problems[0]
        epochs = {_service_of(node): node.epoch for node in described.nodes if node.alive and node.connected}
        for service in SERVICES:
            if role_of(service) in (Role.ETCD, Role.CONTROLLER):
                continue
            if service not in epochs:
                return f"the controller has no stream of {service}"
            if epochs[service] <= self._past_epochs.get(service, 0):
                return f"no service has noticed yet that {service} was restarted"
        unready = brokers_known(self.layout, len(LOGSTORES))
        if unready is None:
            self._epochs = epochs
        return unready

    def wait_until(self, reason: Callable[[], str | None], seconds_max: float) -> float:
        """Until there is no reason to wait any more; returns the seconds. Raises UnhealthyError."""
        began = time.monotonic()
        while (why := reason()) is not None:
            if time.monotonic() - began > seconds_max:
                raise UnhealthyError(f"not within {seconds_max:.0f} s: {why}")
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - began

    def wait_for(self, value: Callable[[], T | None], seconds_max: float, why: str) -> T:
        """Until it has a value. Raises UnhealthyError."""
        deadline = time.monotonic() + seconds_max
        while (found := value()) is None:
            if time.monotonic() > deadline:
                raise UnhealthyError(f"not within {seconds_max:.0f} s: {why}")
            time.sleep(_POLL_SECONDS)
        return found

    def _etcd_leader(self) -> str | None:
        for member in ETCD:
            url = f"http://{self.layout.address(member)}:{ETCD_CLIENT_PORT}/metrics"
            try:
                with urllib.request.urlopen(url, timeout=_PROBE_SECONDS_MAX) as answer:
                    if b"\netcd_server_is_leader 1\n" in answer.read():
                        return member
            except OSError:
                continue
        return None

    def log_directories(self) -> list[Path]:
        """Of all logstores."""
        return [path for logstore in LOGSTORES for path in self.layout.log_directories(logstore)]

    def _connect(self) -> Callable[[str], str]:
        """The network, and where each machine is on it. Without one machines are processes of one host, which talk by
        lanes; within one the lanes are off, because a cut does not reach them."""
        try:
            if os.environ.get("BARNABAS_LANE") == "on":
                raise NamespacesError("BARNABAS_LANE=on, and a cut does not reach a lane")
            self.network = self._cleanup.enter_context(Network(self._prefix, MACHINES))
            self.network.enter(CLIENTS)
        except NamespacesError as reason:
            self.network, self.no_network = None, str(reason)
        else:
            return self.network.address
        subnet, lock = _reserve_loopback()
        self._cleanup.enter_context(lock)
        return lambda machine: f"{subnet}.{MACHINES.index(machine) + 1}"

    def _mount_small_disk(self) -> None:
        path = self.layout.log_directories(LOGSTORES[0])[1]
        path.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "none", str(path)]
        try:
            mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            mounted = False
        self.small_disk = path if mounted else None


def _service_of(node: Node) -> str:
    """Logstores are registered by their number alone."""
    return f"{node.role}-{node.id}" if node.role == Role.LOGSTORE else node.id


def _empty(directory: Path) -> None:
    """The directory itself stays: it may be a mount."""
    if directory.exists():
        for path in directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _reserve_loopback() -> tuple[str, socket.socket]:
    """A /24 of the loopback network, and the socket that keeps other runs off it while it is open."""
    while True:
        subnet = f"127.{random.randrange(2, 255)}.{random.randrange(1, 255)}"
        try:
            return subnet, socket.create_server((f"{subnet}.254", _LOCK_PORT))
        except OSError:
            continue


def _reaper(directory: Path, prefix: str) -> ExitStack:
    """The process that cleans up when this one closes the pipe to it, or ends."""
    stack = ExitStack()
    reaper = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.reaper", str(directory), prefix],
        stdin=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert reaper.stdin is not None
    stack.callback(reaper.wait)
    stack.callback(reaper.stdin.close)
    return stack


def signals_end_the_run(numbers: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGHUP)) -> None:
    """From now on these end this process as Ctrl-C does, so that contexts are left and everything is cleaned up."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in numbers:
        signal.signal(number, interrupt)
