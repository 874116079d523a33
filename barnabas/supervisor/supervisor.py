"""Watch the processes of a cluster, and start again those that end.

Commands connect to a socket in the cluster's directory and send a line of JSON per request. While one is connected
nothing is restarted: `up` and `down` start and stop the same processes, and a command that dies lets go. `serve`
returns when a command says `end`, at SIGTERM, and when the pid file of this process is gone, which means that nothing
is to be supervised here any more. The services go on in each case.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import time
from typing import Any

from barnabas.supervisor.places import EVENTS, LOCK, PID_FILE, SOCKET
from barnabas.supervisor.process_table import (
    ProcessIdentity,
    identify,
    is_running,
    last_lines,
    read_pid_file,
    session_members,
    signal_session,
    spawn,
    write_pid_file,
)
from barnabas.supervisor.restart_events import DIED, FAILED, RESTARTED, RestartEvent, RestartEvents
from barnabas.supervisor.watched import Watched, reason_of_end

REQUEST_BYTES_MAX = 8 * 1024 * 1024
"""A service's command line and environment; the kernel's own limit is 2 MiB by default."""
COMMANDS_MAX = 8
_RECEIVE_BYTES = 65_536
_REWRITE_MS = 5_000
"""How often to try to write events that a full disk did not take."""
_LEFT_BEHIND_SECONDS_MAX = 2.0
_SILENT_SIGNALS = ("killed by signal 9 ", "killed by signal 15 ")
"""Of these the log's last line says nothing: they come from outside."""


class AlreadySupervised(Exception):  # noqa: N818 - not an error for who finds it
    """Another supervisor holds this directory."""


class Supervisor:
    """`run_path`: the directory of the pid files. Raises AlreadySupervised, OSError."""

    def __init__(self, run_path: str) -> None:
        self._run_path = run_path
        self._lock = open(os.path.join(run_path, LOCK), "w")  # noqa: SIM115 - held until the process ends
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadySupervised(run_path) from None
        own = identify(os.getpid())
        assert own is not None, "this process runs"
        self._own = own
        self._pid_path = os.path.join(run_path, PID_FILE)
        self._events = RestartEvents(os.path.join(run_path, EVENTS))
        self._watched: dict[str, Watched] = {}
        self._forgotten: set[int] = set()
        """Descriptors of processes that commands stop: these are reaped, and nothing else."""
        self._commands: dict[int, tuple[socket.socket, bytearray]] = {}
        self._is_ending = False
        self._poll = select.poll()
        self._listener = self._listen()
        self._woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll.register(self._woken, select.POLLIN)
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        write_pid_file(self._pid_path, own)

    def _listen(self) -> socket.socket:
        """Bind by way of the directory's descriptor: the path itself may be longer than an address can be."""
        directory = os.open(self._run_path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                os.unlink(SOCKET, dir_fd=directory)
            except FileNotFoundError:
                pass
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = os.umask(0o177)
            try:
                listener.bind(f"/proc/self/fd/{directory}/{SOCKET}")
            finally:
                os.umask(before)
        finally:
            os.close(directory)
        listener.listen(COMMANDS_MAX)
        listener.setblocking(False)
        self._poll.register(listener, select.POLLIN)
        return listener

    def _end(self, _number: int, _frame: object) -> None:
        self._is_ending = True

    def serve(self) -> None:
        while not self._is_ending:
            for descriptor, _ in self._poll.poll(self._wait_ms()):
                if descriptor == self._woken:
                    os.read(self._woken, _RECEIVE_BYTES)
                elif descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor in self._commands:
                    self._receive(descriptor)
                elif descriptor in self._forgotten:
                    self._reap(descriptor)
                else:
                    self._ended(descriptor)
            if not self._commands and not self._is_ending:
                self._restart_what_is_due()
            if self._events.has_unwritten:
                self._events.write()

    def _wait_ms(self) -> int | None:
        due = [] if self._commands else [each.due_ms for each in self._watched.values() if not each.is_running]
        if self._events.has_unwritten:
            due.append(_now_ms() + _REWRITE_MS)
        return max(0, min(due) - _now_ms()) if due else None

    # --- processes ---------------------------------------------------------------------------------------------------

    def _ended(self, pidfd: int) -> None:
        watched = next(each for each in self._watched.values() if each.pidfd == pidfd)
        assert watched.identity is not None
        self._poll.unregister(pidfd)
        why = watched.end(_now_ms())
        if read_pid_file(self._pid_path) != self._own:
            self._is_ending = True
        elif read_pid_file(watched.pid_path) != watched.identity:
            # A command that could not reach this process has stopped or replaced it.
            del self._watched[watched.name]
        else:
            lines = [] if why.startswith(_SILENT_SIGNALS) else last_lines(watched.log_path, 1)
            self._record(watched, DIED, why, "".join(lines), watched.identity.pid)

    def _reap(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        self._forgotten.discard(pidfd)
        reason_of_end(pidfd)
        os.close(pidfd)

    def _restart_what_is_due(self) -> None:
        for watched in list(self._watched.values()):
            if not watched.is_running and watched.due_ms <= _now_ms():
                try:
                    identity = self._start(watched)
                except OSError as error:
                    watched.put_off(_now_ms())
                    self._record(watched, FAILED, _reason_of(error))
                else:
                    self._record(watched, RESTARTED, "", pid=identity.pid)

    def _start(self, watched: Watched) -> ProcessIdentity:
        """Start it where nothing of it runs, and write its pid file. Raises OSError."""
        if watched.identity is not None:
            _kill_what_is_left(watched.identity)
        identity = spawn(watched.argv, watched.log_path, watched.environment)
        watched.begin(identity, _now_ms())
        try:
            write_pid_file(watched.pid_path, identity)
        except OSError:
            # No command would find it.
            signal_session(identity, signal.SIGKILL)
            os.waitid(os.P_PIDFD, watched.pidfd, os.WEXITED)
            os.close(watched.pidfd)
            watched.pidfd = -1
            raise
        self._poll.register(watched.pidfd, select.POLLIN)
        return identity

    def _record(self, watched: Watched, what: str, why: str, last_line: str = "", pid: int = 0) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._events.add(RestartEvent(now_ms, watched.name, what, why, last_line, pid, watched.delay_ms))

    # --- commands ----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        connected, _ = self._listener.accept()
        if len(self._commands) >= COMMANDS_MAX:
            connected.close()
            return
        self._commands[connected.fileno()] = connected, bytearray()
        self._poll.register(connected, select.POLLIN)

    def _receive(self, descriptor: int) -> None:
        connected, received = self._commands[descriptor]
        try:
            data = connected.recv(_RECEIVE_BYTES)
        except ConnectionError:
            data = b""
        received += data
        if not data or len(received) > REQUEST_BYTES_MAX:
            self._let_go(descriptor)
            return
        while b"\n" in received:
            line, _, rest = received.partition(b"\n")
            received[:] = rest
            try:
                connected.sendall(json.dumps(self._answer(json.loads(line))).encode() + b"\n")
            except (ConnectionError, ValueError, KeyError, TypeError, RecursionError):
                self._let_go(descriptor)
                return

    def _let_go(self, descriptor: int) -> None:
        connected, _ = self._commands.pop(descriptor)
        self._poll.unregister(descriptor)
        connected.close()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "hold":
                pass
            case "start":
                return self._start_for_command(_watched_of(request))
            case "adopt":
                return self._adopt(_watched_of(request), ProcessIdentity(*request["identity"]))
            case "forget":
                self._forget(request["name"])
            case "end":
                self._is_ending = True
            case unknown:
                raise ValueError(f"unknown request {unknown}")
        return {}

    def _start_for_command(self, watched: Watched) -> dict[str, Any]:
        self._forget(watched.name)
        try:
            identity = self._start(watched)
        except OSError as error:
            return {"error": error.strerror or str(error)}
        self._watched[watched.name] = watched
        return {"identity": identity}

    def _adopt(self, watched: Watched, identity: ProcessIdentity) -> dict[str, Any]:
        """Watch a process that already runs; one that is watched is started from now on as the command says."""
        known = self._watched.get(watched.name)
        if known is not None and known.is_running and known.identity == identity:
            known.argv, known.environment = watched.argv, watched.environment
            return {}
        try:
            watched.begin(identity, _now_ms())
        except OSError as error:
            return {"error": _reason_of(error)}
        if not is_running(identity):
            # The pid may be another process's by now.
            os.close(watched.pidfd)
            return {"error": "it has ended"}
        self._forget(watched.name)
        self._watched[watched.name] = watched
        self._poll.register(watched.pidfd, select.POLLIN)
        return {}

    def _forget(self, name: str) -> None:
        watched = self._watched.pop(name, None)
        if watched is not None and watched.is_running:
            self._forgotten.add(watched.pidfd)


def _watched_of(request: dict[str, Any]) -> Watched:
    return Watched(request["name"], request["argv"], request["environment"], request["log_path"], request["pid_path"])


def _kill_what_is_left(identity: ProcessIdentity) -> None:
    """End the children of a process that died: they hold its ports. Raises OSError if they don't end."""
    deadline = time.monotonic() + _LEFT_BEHIND_SECONDS_MAX
    while session_members(identity):
        if time.monotonic() > deadline:
            raise TimeoutError(f"children of process {identity.pid} do not end")
        signal_session(identity, signal.SIGKILL)
        time.sleep(0.005)


def _reason_of(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
