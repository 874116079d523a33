"""Child processes that live and die with their parent: spawned, never forked, joined by one socket pair.

A gateway's acceptor hands accepted connections to its processors; a logstore's data process is handed commands by its
control listener. Both need the same: start `python -m module`, exchange framed messages with file descriptors, and
notice each other's death at once. The parent sees the child's end by its pidfd; the child sees the parent's by the
socket's end, and the kernel kills it should it not look (PR_SET_PDEATHSIG). Linux only.
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
from typing import Any, Final

from barnabas.runtime.processes_messages import MessageSocket

_PARENT_VARIABLE: Final = "BARNABAS_PARENT_SOCKET"
_PR_SET_PDEATHSIG: Final = 1


class ChildProcess:
    """A child as its parent sees it. Everything here runs on the event loop."""

    def __init__(
        self, process: subprocess.Popen[bytes], messages: MessageSocket, on_exit: Callable[[int], None]
    ) -> None:
        self.messages = messages
        self._process = process
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        exit_code = self._process.wait()
        self.messages.finish()
        if not self.exited.done():
            self.exited.set_result(exit_code)
        self._on_exit(exit_code)

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM)."""
        if not self.exited.done():
            self._process.terminate()

    async def stop(self, grace_ms: int) -> int:
        """SIGTERM, and SIGKILL after `grace_ms`; the exit code, negative for a signal."""
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
) -> ChildProcess:
    """Start `python -m module arguments…` joined to this process; see MessageSocket for `on_message`.

    `on_exit` gets the exit code (negative: the signal) once the child is reaped. The environment and the standard
    streams are inherited, other descriptors are not.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            pass_fds=(theirs.fileno(),),
            env={**os.environ, _PARENT_VARIABLE: f"{theirs.fileno()}:{os.getpid()}"},
        )
    messages = MessageSocket(ours, on_message)
    return ChildProcess(process, messages, on_exit)


def parent_socket(
    on_message: Callable[[bytes, bytes, list[int]], None], on_parent_gone: Callable[[], None]
) -> MessageSocket:
    """The child's end, on its event loop; it also ties this process to its parent.

    `on_parent_gone` is called once when the parent's end is closed: stop then, with what is to be finished.
    """
    descriptor, parent_pid = map(int, os.environ.pop(_PARENT_VARIABLE).split(":"))
    die_with_parent(parent_pid)
    joined = socket.socket(fileno=descriptor)
    return MessageSocket(joined, on_message, lambda _reason: on_parent_gone())


def die_with_parent(parent_pid: int) -> None:
    """Let the kernel kill this process when its parent's main thread ends; exits at once if that has happened."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        sys.exit("the parent is gone")


def run_until_signal(serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `serve(stopping)` on an event loop of its own; SIGTERM and SIGINT set `stopping`, the second one kills.

    `serve` returns when it has stopped what it started. A service's `__main__` ends with this call.
    """
    asyncio.run(_serve_until_signal(serve))


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
