"""The supervisor of a local cluster as the commands reach it: begin, hold and end it, and say what it has done."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from barnabas.supervisor import places
from barnabas.supervisor.places import EVENTS, PID_FILE, SOCKET
from barnabas_cli.local import processes
from barnabas_cli.local.layout import ClusterDirectory
from barnabas_cli.local.processes import ProcessIdentity

ANSWER_SECONDS_MAX: Final = 10.0
"""How long the supervisor may take to start a process."""
HOLD_SECONDS_MAX: Final = 10.0
"""How long it may take to answer at all; one that takes longer hangs, and is replaced."""
BEGIN_SECONDS_MAX: Final = 30.0
END_SECONDS_MAX: Final = 2.0
"""After which one that hangs is killed."""
_POLL_SECONDS: Final = 0.02
_RECEIVE_BYTES: Final = 65_536
_MAIN: Final = Path(places.__file__).with_name("__main__.py")


class SupervisorError(Exception):
    """The supervisor can't be begun, or can't do what was asked."""


def supervisor_identity(directory: ClusterDirectory) -> ProcessIdentity | None:
    """Return the supervisor that was begun last, which may have died; None if the cluster is not supervised."""
    return processes.read_pid_file(_run_path(directory) / PID_FILE)


def restart_events_path(directory: ClusterDirectory) -> Path:
    return _run_path(directory) / EVENTS


def _run_path(directory: ClusterDirectory) -> Path:
    return directory.pid_path("any").parent


class Supervision:
    """Use it as a context manager: until it is left, the supervisor restarts nothing. All raise SupervisorError."""

    def __init__(self, directory: ClusterDirectory) -> None:
        self._directory = directory
        self._connected: socket.socket | None = None

    def __enter__(self) -> Supervision:
        identity = supervisor_identity(self._directory)
        if identity is not None and processes.is_alive(identity):
            self._connected = self._connect()
            try:
                self._ask({"do": "hold"}, HOLD_SECONDS_MAX)
            except SupervisorError:
                # It hangs, or has lost its socket.
                self._end_process(identity)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def begin(self) -> bool:
        """Begin one if none is held. Return whether it was begun."""
        if self._connected is not None:
            return False
        run_path = _run_path(self._directory)
        argv = [sys.executable, "-I", "-S", str(_MAIN), str(run_path)]
        try:
            run_path.mkdir(parents=True, exist_ok=True)
            identity = processes.spawn(argv, self._directory.log_path("supervisor"), os.environ)
        except OSError as error:
            raise SupervisorError(f"the supervisor can't be started: {error.strerror}") from None
        deadline = time.monotonic() + BEGIN_SECONDS_MAX
        while (supervisor_identity(self._directory) != identity) or (connected := self._connect()) is None:
            if not processes.is_alive(identity) or time.monotonic() > deadline:
                log_path = self._directory.log_path("supervisor")
                lines = processes.last_lines(log_path, 3)
                raise SupervisorError("\n  ".join([f"the supervisor did not start; the end of {log_path}:", *lines]))
            time.sleep(_POLL_SECONDS)
        self._connected = connected
        self._ask({"do": "hold"})
        return True

    def end(self) -> None:
        """End the one that is held, and say that the cluster is not supervised; the services go on."""
        identity = supervisor_identity(self._directory)
        if self._connected is not None and identity is not None:
            try:
                self._ask({"do": "end"})
            except SupervisorError:
                pass  # what has not ended then is killed
            self._end_process(identity)
        for name in (PID_FILE, SOCKET):
            (_run_path(self._directory) / name).unlink(missing_ok=True)

    def start(self, name: str, argv: list[str], environment: dict[str, str]) -> ProcessIdentity:
        """Start a service and watch it."""
        answer = self._ask({"do": "start", **self._service(name, argv, environment)})
        if "error" in answer:
            raise SupervisorError(f"{name} can't be started: {argv[0]}: {answer['error']}")
        return ProcessIdentity(*answer["identity"])

    def adopt(self, name: str, argv: list[str], environment: dict[str, str], identity: ProcessIdentity) -> None:
        """Watch a service that runs. One that has ended meanwhile is left to the caller, who looks for such."""
        self._ask({"do": "adopt", **self._service(name, argv, environment), "identity": identity})

    def forget(self, name: str) -> None:
        """Watch a service no longer, before it is stopped."""
        if self._connected is not None:
            self._ask({"do": "forget", "name": name})

    def _service(self, name: str, argv: list[str], environment: dict[str, str]) -> dict[str, Any]:
        return {
            "name": name,
            "argv": argv,
            "environment": environment,
            "log_path": str(self._directory.log_path(name)),
            "pid_path": str(self._directory.pid_path(name)),
        }

    def _connect(self) -> socket.socket | None:
        """Connect by way of the directory's descriptor: the path itself may be longer than an address can be."""
        with _opened(_run_path(self._directory)) as descriptor:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connected.settimeout(HOLD_SECONDS_MAX)
            try:
                connected.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
            except OSError:
                connected.close()
                return None
        return connected

    def _ask(self, request: dict[str, Any], seconds_max: float = ANSWER_SECONDS_MAX) -> dict[str, Any]:
        connected, received = self._connected, b""
        if connected is None:
            raise SupervisorError("the supervisor can't be reached")
        connected.settimeout(seconds_max)
        try:
            connected.sendall(json.dumps(request).encode() + b"\n")
            while not received.endswith(b"\n"):
                data = connected.recv(_RECEIVE_BYTES)
                if not data:
                    raise SupervisorError("the supervisor has ended")
                received += data
        except OSError as error:
            raise SupervisorError(f"the supervisor does not answer: {error}") from None
        answer: dict[str, Any] = json.loads(received)
        return answer

    def _end_process(self, identity: ProcessIdentity) -> None:
        self._let_go()
        processes.stop([identity], END_SECONDS_MAX)

    def _let_go(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
