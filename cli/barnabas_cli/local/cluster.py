"""Start and stop the services of a local cluster."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.cores import INTERPRETED, VARIABLE
from barnabas_cli.etcd_binary import find_etcd, pick_etcd
from barnabas_cli.etcd_build import Say
from barnabas_cli.local import ports, processes
from barnabas_cli.local.cores_in_use import library_to_take, name_of, runs_other_cores
from barnabas_cli.local.etcd import end_etcd_limits, limit_etcd_users, root_password_path
from barnabas_cli.local.layout import ClusterDirectory, ClusterLayout
from barnabas_cli.local.private_files import make_private, private_files
from barnabas_cli.local.processes import ProcessIdentity
from barnabas_cli.local.readiness import not_ready
from barnabas_cli.local.secrets import create_user, ensure_secrets, local_access, local_security
from barnabas_cli.local.services import Role, Service, service_environment, services_of
from barnabas_cli.local.supervision import Supervision, SupervisorError

STOP_SECONDS_MAX = 30.0
"""How long each kind of service may take to stop after SIGTERM."""
READY_SECONDS_MAX = 300.0
"""Where other work takes the processors, services need minutes to load their code. One that dies ends the wait."""
SAY_SECONDS = 20.0
"""How often to say what is waited for."""
PORT_SECONDS_MAX = 2.0
"""How long to wait for ports in use to become free, for all ports together."""
ETCD_RENEWAL_SECONDS = 2.5
"""A service that kept running without etcd finds out whether its lease is still valid when it next renews it, three
times per TTL of 6 s; until then it may look ready although it is not."""

_POLL_SECONDS = 0.05
_DEAD_LOG_LINES = 8


class ClusterError(Exception):
    """The cluster can't be started or stopped. The message says what to do, and may include log lines."""


@dataclass(slots=True, frozen=True)
class Started:
    """The result of `up`."""

    services: list[str]
    """The services that were started; empty if all were running."""
    seconds: float
    supervisor: bool = False
    """Whether a supervisor was started."""
    moved: dict[str, str] = field(default_factory=dict)
    """The services that ran other cores than a process that starts now, and what they run since."""


class LocalCluster:
    """The cluster of one directory. Its methods raise ClusterError."""

    def __init__(self, directory: ClusterDirectory, layout: ClusterLayout, etcd: Path) -> None:
        self.directory = directory
        self.layout = layout
        self.services = services_of(directory, layout, etcd)

    def service(self, name: str) -> Service:
        found = next((service for service in self.services if service.name == name), None)
        if found is None:
            raise ClusterError(
                f"no service {name}; the services are {', '.join(service.name for service in self.services)}"
            )
        return found

    def identity(self, service: Service) -> ProcessIdentity | None:
        """Return the identity of the process that was started last; it may have died since."""
        return processes.read_pid_file(self.directory.pid_path(service.name))

    def is_alive(self, service: Service) -> bool:
        identity = self.identity(service)
        return identity is not None and processes.is_alive(identity)

    def start(self, say: Say, *, supervised: bool = False) -> Started:
        """Start services that don't run, restart those whose configuration changed, and wait until a client can
        produce. Then restart, one after the other, those that run other cores than a process that starts now. With
        `supervised`, a supervisor restarts what dies; else none runs.
        """
        began = time.monotonic()
        self._check_etcd_and_logstores_belong_together()
        try:
            with private_files(), Supervision(self.directory) as supervision:
                try:
                    stopped, has_begun = self._start_under(supervision, say, supervised)
                    moved = self._move_to_other_cores(supervision, say, supervision if supervised else None)
                except (ClusterError, SupervisorError):
                    if not any(map(self.is_alive, self.services)):
                        supervision.end()  # it has nothing to watch
                    raise
        except SupervisorError as error:
            raise ClusterError(str(error)) from None
        return Started([service.name for service in stopped], time.monotonic() - began, has_begun, moved)

    def _start_under(self, supervision: Supervision, say: Say, supervised: bool) -> tuple[list[Service], bool]:
        """Return the services that were started, and whether a supervisor was begun."""
        stopped = [service for service in self.services if not self._runs_as_configured(service)]
        for service in reversed(stopped):
            self._clear_away(service, say, supervision)
        self._check_ports(stopped)
        if self.layout.secure:
            make_private(self.directory.path)
            self._ensure_secrets()
        self.directory.write_layout(self.layout)
        processes.raise_open_files_limit()
        has_begun = self._supervise(stopped, supervision, supervised)
        watched = supervision if supervised else None
        limits = self._limits_of_etcd() if stopped else None
        for service in stopped:
            # None waits for etcd, which takes as long to elect itself as the others to load their code; but its users
            # are there before a service that has to be one.
            if limits is not None and service.role is not Role.ETCD:
                self._wait(limits, say)
                limits = None
            self.spawn(service, watched)
        self._wait_until_ready(stopped, say)
        return stopped, has_begun

    def on_other_cores(self) -> list[tuple[Service, Path | None]]:
        """Return the services that run other cores than if they were started now, each with the binary that it would
        take, in the order in which they start.
        """
        libraries: dict[str, Path | None] = {}
        found = []
        for service in self.services:
            identity = self.identity(service)
            if service.role is Role.ETCD or identity is None or not processes.is_alive(identity):
                continue
            wanted = service.environment.get(VARIABLE, os.environ.get(VARIABLE, ""))
            if wanted not in libraries:
                libraries[wanted] = library_to_take(wanted)
            if runs_other_cores(identity.pid, libraries[wanted]):
                found.append((service, libraries[wanted]))
        return found

    def _move_to_other_cores(self, supervision: Supervision, say: Say, watched: Supervision | None) -> dict[str, str]:
        """Restart services that run other cores than if they were started now: each when the one before is ready and
        its replicas are in sync. Return what each runs since, by its name.
        """
        moved = {}
        for service, library in self.on_other_cores():
            moved[service.name] = cores = name_of(library)
            say(f"{service.name}: moving to {cores}")
            try:
                self._restart(service, supervision, say, watched)
            except (ClusterError, SupervisorError) as error:
                advice = f"with {VARIABLE}={INTERPRETED}, `make up` or `barnabas up` starts it on {name_of(None)}"
                why = f"{service.name} did not come up on {cores}: {error}"
                raise ClusterError(why if library is None else f"{why}\n{advice}") from None
        return moved

    def _restart(self, service: Service, supervision: Supervision, say: Say, watched: Supervision | None) -> None:
        """Stop one service and start it again, and wait until a client can produce and no replica lags behind."""
        identity = self.identity(service)
        supervision.forget(service.name)
        if identity is not None:
            processes.stop([identity], STOP_SECONDS_MAX)
        self.directory.pid_path(service.name).unlink(missing_ok=True)
        self._check_ports([service])
        self.spawn(service, watched)
        security = local_security(self.directory, self.layout)
        access = local_access(self.directory, self.layout)
        self._wait(lambda: _does_not_listen(service) or not_ready(self.layout, security, access), say)

    def _limits_of_etcd(self) -> Callable[[], str | None] | None:
        """Return what sets who may do what in etcd; None if all may do all and always could."""
        if self.layout.secure:
            return lambda: limit_etcd_users(self.directory, self.layout)
        if root_password_path(self.directory).exists():
            return lambda: end_etcd_limits(self.directory, self.layout)
        return None

    def _supervise(self, stopped: list[Service], supervision: Supervision, supervised: bool) -> bool:
        """Have the services supervised that run already, or none. Return whether a supervisor was begun."""
        if not supervised:
            supervision.end()
            return False
        has_begun = supervision.begin()
        for service in self.services:
            identity = self.identity(service)
            if service not in stopped and identity is not None:
                supervision.adopt(service.name, service.argv, _environment(service), identity)
        return has_begun

    def _wait_until_ready(self, started: list[Service], say: Say) -> None:
        ran_without_etcd = started[:1] == self.services[:1] and len(started) < len(self.services)
        if self.layout.secure and started:
            self._wait(lambda: create_user(self.directory, self.layout), say)
        security = local_security(self.directory, self.layout)
        access = local_access(self.directory, self.layout)
        held_seconds = ETCD_RENEWAL_SECONDS if ran_without_etcd else 0.0
        self._wait(lambda: not_ready(self.layout, security, access), say, held_seconds)

    def _ensure_secrets(self) -> None:
        try:
            ensure_secrets(self.directory, self.layout)
        except (OSError, ValueError) as error:
            raise ClusterError(f"the secrets in {self.directory.secrets_path} can't be used: {error}") from None

    def spawn(self, service: Service, supervision: Supervision | None = None) -> ProcessIdentity:
        """Start one process and record its identity, without waiting for it. Raises SupervisorError if it is
        supervised.
        """
        if service.properties:
            config_path = self.directory.config_path(service.name)
            config_path.parent.mkdir(parents=True, exist_ok=True)
            config_path.write_text(service.properties_text)
        if supervision is not None:
            return supervision.start(service.name, service.argv, _environment(service))
        try:
            identity = processes.spawn(service.argv, self.directory.log_path(service.name), _environment(service))
        except OSError as error:
            raise ClusterError(f"{service.name} can't be started: {service.argv[0]}: {error.strerror}") from None
        processes.write_pid_file(self.directory.pid_path(service.name), identity)
        return identity

    def stop(self) -> tuple[list[str], list[str]]:
        """Stop the supervisor, then all services from the gateway to etcd. Returns the services that ran and those that
        had to be killed.
        """
        with Supervision(self.directory) as supervision:
            supervision.end()
        stopped, killed = [], []
        for role in reversed(Role):
            identities: dict[ProcessIdentity, str] = {}
            for service in self.services:
                identity = self.identity(service)
                if service.role is role and identity is not None:
                    identities[identity] = service.name
            stopped += [name for identity, name in identities.items() if processes.is_alive(identity)]
            killed += [identities[identity] for identity in processes.stop(identities, STOP_SECONDS_MAX)]
            for name in identities.values():
                self.directory.pid_path(name).unlink(missing_ok=True)
        return stopped, killed

    def kill(self, service: Service) -> None:
        """Send SIGKILL to the one process, and not to its children."""
        identity = self.identity(service)
        if identity is None or not processes.is_alive(identity):
            raise ClusterError(f"{service.name} is not running")
        processes.signal_process(identity, signal.SIGKILL)
        while processes.is_alive(identity):
            time.sleep(_POLL_SECONDS)

    def _runs_as_configured(self, service: Service) -> bool:
        identity = self.identity(service)
        if identity is None or not processes.is_alive(identity):
            return False
        if not service.properties:
            return processes.runs_with(identity, service.argv[1:])
        config_path = self.directory.config_path(service.name)
        return config_path.exists() and config_path.read_text() == service.properties_text

    def _clear_away(self, service: Service, say: Say, supervision: Supervision) -> None:
        """Stop what an earlier start left of this service: the whole service, or the children of a killed process."""
        identity = self.identity(service)
        if identity is None:
            return
        if identity.boot_id != processes.boot_id():
            say(f"{service.name}: its pid file is from before the machine's last start; starting it again")
        elif processes.is_alive(identity):
            say(f"{service.name}: its configuration changed; restarting it")
        else:
            say(f"{service.name}: process {identity.pid} had died; starting it again")
        supervision.forget(service.name)
        processes.stop([identity], STOP_SECONDS_MAX)
        self.directory.pid_path(service.name).unlink(missing_ok=True)

    def _check_etcd_and_logstores_belong_together(self) -> None:
        if self.directory.etcd_path.exists():
            return
        kept = [each for each in self.layout.logstore_ids if self.directory.logstore_path(each).exists()]
        if kept:
            raise ClusterError(
                f"{self.directory.logstore_path(kept[0])} has records, but {self.directory.etcd_path} with the "
                "cluster's state is gone: restore a backup with `barnabas restore`, rebuild the state from the records "
                "with `barnabas rebuild`, or delete the data with `make clean`"
            )

    def _check_ports(self, services: list[Service]) -> None:
        """Check that the ports are free. A process that was just killed may hold its ports a little longer."""
        deadline = time.monotonic() + PORT_SECONDS_MAX
        for service in services:
            for port in service.ports.values():
                while not ports.is_free(port) and time.monotonic() < deadline:
                    time.sleep(_POLL_SECONDS)
                if not ports.is_free(port):
                    raise ClusterError(
                        f"port {port}, for {service.name}, is in use by {ports.holder(port)}: stop it, "
                        "or start a cluster elsewhere (make up PORT=… DATA=…)"
                    )

    def _wait(self, reason: Callable[[], str | None], say: Say, hold_seconds: float = 0.0) -> None:
        """Wait until there has been no reason to wait for long enough."""
        began = said = time.monotonic()
        deadline = began + READY_SECONDS_MAX
        ready_since: float | None = None
        while True:
            waits_for = reason()
            now = time.monotonic()
            if waits_for is not None:
                ready_since = None
            elif ready_since is None:
                ready_since = now
            if ready_since is not None and now - ready_since >= hold_seconds:
                break
            self._check_alive()
            if now > deadline:
                raise ClusterError(
                    f"not ready after {READY_SECONDS_MAX:.0f} s: {waits_for}; "
                    f"the logs are in {self.directory.path / 'logs'}"
                )
            if waits_for is not None and now - said >= SAY_SECONDS:
                said = now
                say(f"waiting for {now - began:.0f} s: {waits_for}")
            time.sleep(_POLL_SECONDS)
        self._check_alive()

    def _check_alive(self) -> None:
        for service in self.services:
            if self.identity(service) is not None and not self.is_alive(service):
                log_path = self.directory.log_path(service.name)
                lines = processes.last_lines(log_path, _DEAD_LOG_LINES)
                raise ClusterError("\n  ".join([f"{service.name} died; the end of {log_path}:", *lines]))


def _does_not_listen(service: Service) -> str | None:
    """A new process may not have registered, while the controller still knows the one before."""
    silent = [name for name, port in service.ports.items() if not ports.accepts(port)]
    return f"{service.name} does not listen on {silent[0]} port {service.ports[silent[0]]} yet" if silent else None


def _environment(service: Service) -> dict[str, str]:
    return service_environment() | service.environment


def existing_cluster(directory: ClusterDirectory) -> LocalCluster:
    """Return the cluster of this directory. Raises LayoutError."""
    etcd = find_etcd()
    return LocalCluster(directory, directory.require_layout(), Path("etcd") if etcd is None else etcd.path)


def cluster_to_start(directory: ClusterDirectory, layout: ClusterLayout, say: Say) -> LocalCluster:
    """Return the cluster to start. Raises EtcdMissingError."""
    return LocalCluster(directory, layout, pick_etcd(say).path)


@contextmanager
def sole_command(directory: ClusterDirectory) -> Iterator[None]:
    """Hold a lock so that no two commands start or stop the same cluster at once. Raises ClusterError."""
    try:
        directory.path.mkdir(parents=True, exist_ok=True)
        lock_file = (directory.path / ".lock").open("w")
    except OSError as error:
        raise ClusterError(f"{directory.path} can't hold a cluster: {error.strerror}") from None
    with lock_file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(f"another command is starting or stopping the cluster in {directory.path}") from None
        yield
