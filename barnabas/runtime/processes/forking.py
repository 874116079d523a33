"""Children that are forked before their parent has threads, and begin when it needs them.

A child that is spawned loads the same code as its siblings and its parent once more: half a second of a core and 30 MB
for each of them. Forked from a parent that has loaded it, a child shares these pages until one of them writes to them.
gRPC's threads do not survive a fork, so a service forks first, before its event loop, and only as many as it starts
with. Those that it starts later or that replace a dead one are spawned (`barnabas.runtime.processes.spawning`).
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn

PARENT_VARIABLE: Final = "BARNABAS_PARENT_SOCKET"
"""What a child knows of its parent: the descriptor of its socket, the parent's pid, and the name it is to have."""

_PR_SET_NAME: Final = 15
_NAME_BYTES_MAX: Final = 15
"""The kernel's limit."""
_SIZE_BYTES: Final = 4


class ForkedProcess:
    """As a `subprocess.Popen`, as far as `ChildProcess` needs one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._exit_code: int | None = None

    def wait(self) -> int:
        """Return the exit code, negative for a signal, when it has ended."""
        if self._exit_code is None:
            _, status = os.waitpid(self.pid, 0)
            self._exit_code = os.waitstatus_to_exitcode(status)
        return self._exit_code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Until it is waited for, its pid is no other process's.
        if self._exit_code is None:
            os.kill(self.pid, number)


class Forked(NamedTuple):
    """A child that has not begun."""

    process: ForkedProcess
    joined: socket.socket
    """The parent's end."""


_waiting: Final[dict[str, list[Forked]]] = {}
"""By module, in the order of their forks."""


def fork_ahead(module: str, main: Callable[[], None], count: int) -> None:
    """Fork `count` children that call `main` of the module once `take_forked` has been called for them.

    Call it when the code of parent and children is loaded, before anything starts a thread; does nothing if one runs.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        return
    # What exists now stays: a collection that looked at it would write to, and so copy, every page that is shared.
    gc.freeze()
    sys.stdout.flush()
    sys.stderr.flush()
    for _ in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        parent_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            _close_ends_of_siblings()
            ours.close()
            _run(module, main, theirs, parent_pid)
        theirs.close()
        _waiting.setdefault(module, []).append(Forked(ForkedProcess(pid), ours))


def take_forked(module: str, arguments: Sequence[str]) -> Forked | None:
    """Let a child of this module begin with these arguments; None if none waits."""
    waiting = _waiting.get(module)
    if not waiting:
        return None
    forked = waiting.pop(0)
    payload = json.dumps(list(arguments)).encode()
    try:
        forked.joined.sendall(len(payload).to_bytes(_SIZE_BYTES, "little") + payload)
    except OSError:
        # It has died while it waited: it is found dead as any other child, and replaced.
        pass
    return forked


def name_process(name: str) -> None:
    """Set the name that `ps -o comm` and `top` show, and `/proc/<pid>/comm`."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:_NAME_BYTES_MAX], 0, 0, 0)


def _close_ends_of_siblings() -> None:
    """A sibling whose parent has died must find that out by the end of its socket."""
    for waiting in _waiting.values():
        for forked in waiting:
            forked.joined.close()
    _waiting.clear()


def _run(module: str, main: Callable[[], None], joined: socket.socket, parent_pid: int) -> NoReturn:
    """Wait for the arguments, then be the child; never return into what the parent was doing."""
    exit_code = 1
    try:
        size = _receive(joined, _SIZE_BYTES)
        arguments = json.loads(_receive(joined, int.from_bytes(size, "little")))
        sys.argv[1:] = arguments
        os.environ[PARENT_VARIABLE] = parent_variable(joined.detach(), parent_pid, module)
        main()
        exit_code = 0
    except SystemExit as end:
        exit_code = _exit_code(end)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def parent_variable(descriptor: int, parent_pid: int, module: str) -> str:
    return f"{descriptor}:{parent_pid}:{module.rpartition('.')[2]}"


def _receive(joined: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        data = joined.recv(count - len(received))
        if not data:
            sys.exit(0)  # the parent is gone, and has never needed this child
        received += data
    return bytes(received)


def _exit_code(end: SystemExit) -> int:
    """What the interpreter makes of it."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1
