"""The control listener's process, as the data process sees it: commands in, answers out, restarted when it dies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from barnabas.cluster.messages import ControlRequest, ControlResponse
from barnabas.runtime.health_reports import RecentDeaths
from barnabas.runtime.logs import get_logger
from barnabas.runtime.processes import contained_counts
from barnabas.runtime.processes.spawning import ChildProcess, spawn
from barnabas_logstore.shell.control_messages import (
    ANSWER,
    COMMAND,
    LISTEN,
    LISTENING,
    LOGGER_LEVELS,
    METRICS,
    SCRAPED,
    SERVING,
    SESSION,
    STOP_GRACE_MS,
    Scraped,
)

CONTROL_MODULE: Final = "barnabas_logstore.control"
RESTART_MS_MIN: Final = 100
RESTART_MS_MAX: Final = 2_000

_log = get_logger("logstore.control_process")


class ControlProcess:
    """`on_command(session_id, request)` gets controllers' commands; `answer` sends the core's answers back."""

    def __init__(
        self,
        address: str,
        arguments: Sequence[str],
        on_command: Callable[[int, ControlRequest], None],
        scraped: Scraped,
        metrics_socket: socket.socket | None,
        on_scraped: Callable[[], None],
    ) -> None:
        """`arguments` of the process follow its address.

        `on_scraped`: the pod's metrics were requested there (so that the data process does not serve them);
        `tell_metrics` answers.

        `metrics_socket` is bound here, so that it outlives a process that dies.
        """
        self._address = address
        self._arguments = arguments
        self._on_command = on_command
        self._scraped = scraped
        self._metrics_socket = metrics_socket
        self._on_scraped = on_scraped
        self._loop = asyncio.get_running_loop()
        self._child: ChildProcess | None = None
        # Sessions across restarts of the child: an answer to a session of a dead child must not reach another's.
        self._generation = 0
        self._restart_ms = RESTART_MS_MIN
        self._may_listen = False
        self._is_serving = False
        self._logger_levels: Mapping[str, str] | None = None
        self._is_stopping = False
        self.deaths = RecentDeaths("its control process")
        self.listening: asyncio.Future[int] = self._loop.create_future()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(ControlRequest)

    def spawn(self) -> None:
        """Start the process, which listens from `listen` on."""
        self._spawn()

    async def listen(self) -> int:
        """Return the port that the process listens on. Raises OSError when it can't listen there."""
        self._may_listen = True
        if self._child is not None:
            self._child.messages.send(LISTEN)
        return await self.listening

    def answer(self, session_id: int, response: ControlResponse) -> None:
        """Answer a command; its stream may be closed by now."""
        generation, child_session = session_id >> 32, session_id & 0xFFFF_FFFF
        if self._child is not None and generation == self._generation:
            self._child.messages.send(ANSWER, SESSION.pack(child_session) + self._encode(response))

    def take_commands(self) -> None:
        """Process what has arrived by now, without waiting for the event loop to find it."""
        if self._child is not None:
            self._child.messages.read_arrived()

    def tell_metrics(self, snapshot: bytes) -> None:
        if self._child is not None:
            self._child.messages.send(METRICS, snapshot)

    def set_serving(self, serving: bool) -> None:
        """Set the health of the listener, now and after restarts."""
        self._is_serving = serving
        if self._child is not None:
            self._child.messages.send(SERVING, b"1" if serving else b"0")

    def set_logger_levels(self, own: Mapping[str, str]) -> None:
        """Give the process's loggers these levels, now and after restarts."""
        self._logger_levels = own
        if self._child is not None:
            self._child.messages.send(LOGGER_LEVELS, msgspec.json.encode(own))

    async def stop(self) -> None:
        self._is_stopping = True
        if self._child is not None:
            await self._child.stop(10 * STOP_GRACE_MS)

    def _spawn(self) -> None:
        if self._is_stopping:
            return
        self._generation += 1
        arguments = (self._address, *self._arguments)
        self._child = spawn(CONTROL_MODULE, arguments, on_message=self._on_message, on_exit=self._on_exit)
        if self._logger_levels is not None:
            self.set_logger_levels(self._logger_levels)
        if self._metrics_socket is not None:
            self._child.messages.send(SCRAPED, msgspec.json.encode(self._scraped), [self._metrics_socket.fileno()])
        if self._may_listen:
            self._child.messages.send(LISTEN)

    def _on_message(self, kind: bytes, payload: bytes, _fds: list[int]) -> None:
        if kind == LISTENING:
            port = int(payload)
            # Once chosen the port stays: the controller knows it.
            self._address = f"{self._address.rpartition(':')[0]}:{port}"
            self._restart_ms = RESTART_MS_MIN
            self.set_serving(self._is_serving)
            if not self.listening.done():
                self.listening.set_result(port)
            return
        if kind == METRICS:
            self._on_scraped()
            return
        if kind == contained_counts.KIND:
            contained_counts.take_counts(payload)
            return
        assert kind == COMMAND, kind
        (child_session,) = SESSION.unpack_from(payload)
        request = self._decoder.decode(memoryview(payload)[SESSION.size :])
        self._on_command(self._generation << 32 | child_session, request)

    def _on_exit(self, exit_code: int) -> None:
        self._child = None
        if self._is_stopping:
            return
        if not self.listening.done():
            self.listening.set_exception(OSError(f"the control listener ended with {exit_code} at {self._address}"))
            return
        self.deaths.died(exit_code)
        _log.error("control listener died, restarting it", exit_code=exit_code, wait_ms=self._restart_ms)
        self._restart_later()

    def _restart_later(self) -> None:
        self._loop.call_later(self._restart_ms / 1000, self._spawn_again)
        self._restart_ms = min(2 * self._restart_ms, RESTART_MS_MAX)

    def _spawn_again(self) -> None:
        try:
            self._spawn()
        except OSError as error:  # out of processes, descriptors or memory
            _log.error("the control listener can't be started", reason=str(error), wait_ms=self._restart_ms)
            self._restart_later()
