"""Child processes that live and die with their parent, connected by one socket pair.

A gateway's acceptor passes accepted connections to its processors; a logstore's control listener passes commands to its
data process. Both need the same: start `python -m module`, or let one begin that was forked before this process had
threads (`barnabas.runtime.processes.forking`), exchange framed messages with file descriptors, and notice each other's
death at once. The parent sees the child's end by its pidfd; the child sees the parent's by the socket's
end, and the kernel kills it if it does not react (PR_SET_PDEATHSIG). A child that lives but sends nothing, not even
heartbeats, is skipped after 3 s and killed after 30 s, because a short pause is no reason to drop its work. Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.event_loop import new_event_loop
from barnabas.runtime.processes.forking import PARENT_VARIABLE, name_process, parent_variable, take_forked
from barnabas.runtime.processes.messages import HEARTBEAT_MS, MessageSocket

_PR_SET_PDEATHSIG: Final = 1

SILENT_MS_MAX: Final = 3_000
KILL_SILENT_MS: Final = 30_000
# A child that has closed its end, or was cut off for not reading, has this long to end on its own.
_CLOSED_GRACE_S: Final = 5.0

_log = get_logger("processes")


class Process(Protocol):
    """A `subprocess.Popen`, or one that was forked."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class ChildProcess:
    """A child as its parent sees it. Everything here runs on the event loop."""

    def __init__(
        self,
        process: Process,
        joined: socket.socket,
        on_message: Callable[[bytes, bytes, list[int]], None],
        on_exit: Callable[[int], None],
        on_silence: Callable[[bool], None],
    ) -> None:
        # First, since it may fail: nothing else is begun then.
        self._pidfd = os.pidfd_open(process.pid)
        self.messages = MessageSocket(joined, on_message, self._cut_off, self._beat)
        self.is_silent = False
        """Nothing has been received from it for SILENT_MS_MAX: it may not be running at all."""
        self._process = process
        self._on_exit = on_exit
        self._on_silence = on_silence
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        exit_code = self._process.wait()
        self.messages.read_to_end()
        if not self.exited.done():
            self.exited.set_result(exit_code)
        self._on_exit(exit_code)

    def _beat(self) -> None:
        silent_ms = self.messages.silent_beats * HEARTBEAT_MS
        is_silent = silent_ms >= SILENT_MS_MAX
        # A child that has never sent anything is still being started.
        if is_silent != self.is_silent and self.messages.has_heard:
            _log.warning("a child is silent" if is_silent else "a child is back", pid=self.pid)
        self._set_silent(is_silent)
        if silent_ms >= KILL_SILENT_MS and self.messages.has_heard and not self.exited.done():
            _log.error("a child that was silent for too long is killed", pid=self.pid, silent_ms=silent_ms)
            self._process.kill()

    def _set_silent(self, is_silent: bool) -> None:
        if is_silent != self.is_silent:
            self.is_silent = is_silent
            self._on_silence(is_silent)

    def _cut_off(self, reason: str) -> None:
        self._set_silent(True)
        self._loop.call_later(_CLOSED_GRACE_S, self._kill_after_cut, reason)

    def _kill_after_cut(self, reason: str) -> None:
        if not self.exited.done():
            _log.error("a child with a broken connection is killed", pid=self.pid, reason=reason)
            self._process.kill()

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM)."""
        if not self.exited.done():
            self._process.terminate()

    async def stop(self, grace_ms: int) -> int:
        """Send SIGTERM, and SIGKILL after `grace_ms`. Return the exit code, negative for a signal."""
        self.terminate()
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self.exited), grace_ms / 1000)
        self._process.kill()
        return await self.exited


def spawn(
    module: str,
    arguments: Sequence[str] = (),
    *,
    on_message: Callable[[bytes, bytes, list[int]], None],
    on_exit: Callable[[int], None],
    on_silence: Callable[[bool], None] = lambda is_silent: None,
) -> ChildProcess:
    """Start `python -m module arguments…` connected to this process; see MessageSocket for `on_message`. One of this
    module that was forked ahead takes the place of a new process.

    `on_exit` gets the exit code (negative: the signal) once the child is reaped; `on_silence` is called when the child
    falls silent (`ChildProcess.is_silent`) and when it is heard again. The environment and the standard streams are
    inherited, other descriptors are not. Raises OSError, and leaves no child then.
    """
    process: Process
    forked = take_forked(module, arguments)
    if forked is not None:
        process, ours = forked.process, forked.joined
    else:
        process, ours = _start(module, arguments)
    try:
        return ChildProcess(process, ours, on_message, on_exit, on_silence)
    except OSError:
        # Without a descriptor for its end: it would live on, and nothing would know it.
        ours.close()
        process.kill()
        process.wait()
        raise


def _start(module: str, arguments: Sequence[str]) -> tuple[Process, socket.socket]:
    """Start a new process; return it, and our end of what joins it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            pass_fds=(theirs.fileno(),),
            env={**os.environ, PARENT_VARIABLE: parent_variable(theirs.fileno(), os.getpid(), module)},
        )
    return process, ours


def parent_socket(
    on_message: Callable[[bytes, bytes, list[int]], None], on_parent_gone: Callable[[], None]
) -> MessageSocket:
    """Return the child's end, on its event loop; it also ties this process to its parent, and names it.

    `on_parent_gone` is called once when the parent's end is closed: finish and stop then.
    """
    descriptor, parent_pid, name = os.environ.pop(PARENT_VARIABLE).split(":")
    die_with_parent(int(parent_pid))
    name_process(name)
    joined = socket.socket(fileno=int(descriptor))
    return MessageSocket(joined, on_message, lambda _reason: on_parent_gone())


def die_with_parent(parent_pid: int) -> None:
    """Make the kernel kill this process when its parent's main thread ends; exit at once if that has happened."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        sys.exit("the parent is gone")


def run_until_signal(serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `serve(stopping)` on its own event loop; SIGTERM and SIGINT set `stopping`, the second one kills.

    `serve` returns when it has stopped what it started. A service's `__main__` ends with this call.
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve_until_signal(serve))


async def _serve_until_signal(serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(signal_number: signal.Signals) -> None:
        if stopping.is_set():
            os._exit(128 + signal_number)
        stopping.set()

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop, signal_number)
    await serve(stopping)
