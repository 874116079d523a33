"""The loop: one core turn per turn of the event loop, with everything that has arrived until then.

Whatever comes in is handed to the core as it comes and asks for a turn. A turn steps the core, carries out the effects
that are quicker done than handed over, and sends one message per stream with all that is to be said.

Commands of the controller are looked for by each turn itself, not only when the event loop gets to their socket: under
load there are megabytes of data to be received before that, several milliseconds' worth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from barnabas.runtime.clock import monotonic_ms, wall_ms
from barnabas.runtime.logs import get_logger
from barnabas_logstore.core.logstore import TICK_MS, LogstoreCore
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.streams.outbox import Outgoing
from barnabas_logstore.shell.io_workers import Completion, IoWorkers

_log = get_logger("logstore")


class DirectoriesLost(Exception):  # noqa: N818  (an outcome that ends the process with its one line)
    """No log directory can be used any more (Kafka's rule: there is nothing left to serve)."""


class LogstoreLoop:
    """Everything here runs on the event loop, and nothing awaits."""

    def __init__(
        self,
        core: LogstoreCore,
        workers: IoWorkers,
        send: Callable[[Outgoing], None],
        take_commands: Callable[[], None],
    ) -> None:
        """`take_commands` hands the core the commands that have come by now."""
        self.core = core
        self._take_commands = take_commands
        self._workers = workers
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._is_turn_due = False
        self._is_tick_due = False
        self._completions: list[Completion] = []
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_ms: int | None = None
        self._idle: asyncio.Future[None] | None = None
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Fails when there can be no more turns: every directory is offline, or an invariant is broken."""

    def start(self) -> None:
        self._workers.start(self._on_io_done)
        self._tick()

    def stop(self) -> None:
        """No more turns by the clock; nothing may arrive any more."""
        for timer in (self._timer, self._deadline):
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """Something has arrived: take a turn after the present one."""
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """A turn that fails is the last one: what the core believes can't be trusted any more."""
        self._is_turn_due = False
        if self.failed.done():
            return
        try:
            self._take_turn()
        except Exception as error:
            self.failed.set_exception(error)

    def _take_turn(self) -> None:
        core = self.core
        self._take_commands()
        completions, self._completions = self._completions, []
        for effect, outcome in completions:
            core.on_io_done(effect, outcome)
        now_ms = monotonic_ms()
        if self._is_tick_due:
            self._is_tick_due = False
            core.tick(now_ms)
        core.step(now_ms, wall_ms())
        self._workers.begin_turn()
        while effects := core.take_effects():
            self._carry_out(effects)
        outgoing = core.take_outgoing()
        self._send(outgoing)
        for path, error in outgoing.offline:
            _log.error("log directory offline", directory=path, error=str(error))
            if core.all_directories_offline and not self.failed.done():
                self.failed.set_exception(DirectoriesLost("every log directory is offline"))
        for path, lack in outgoing.room:
            if lack is None:
                _log.info("log directory has room again: it takes appends", directory=path)
            else:
                _log.error(
                    "log directory is full: appends are refused until there is room", directory=path, error=str(lack)
                )
        if core.next_deadline_ms != self._deadline_ms:
            self._wait_for_deadline(now_ms)
        if core.has_work:
            self.wake()
        elif self._idle is not None and core.is_idle and not self._idle.done():
            self._idle.set_result(None)

    def _wait_for_deadline(self, now_ms: int) -> None:
        """It is met to a millisecond or two, whenever the next tick is."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._deadline_ms = self.core.next_deadline_ms
        if self._deadline_ms is not None:
            self._deadline = self._loop.call_later((max(0, self._deadline_ms - now_ms) + 1) / 1000, self.wake)

    def _carry_out(self, effects: Sequence[StorageEffect]) -> None:
        for effect in effects:
            outcome = self._workers.run_in_place(effect)
            if outcome is None:
                self._workers.submit(effect)
            else:
                self.core.on_io_done(effect, outcome)

    def _on_io_done(self, completions: Sequence[Completion]) -> None:
        """Workers have finished something; it counts at the begin of the next turn."""
        self._completions += completions
        self.wake()

    def _tick(self) -> None:
        self._is_tick_due = True
        self.wake()
        self._timer = self._loop.call_later(TICK_MS / 1000, self._tick)

    async def idle(self) -> None:
        """Returns once nothing waits to be done and nothing is under way; the core is stopping, so that comes.

        Raises what `failed` does.
        """
        self._idle = self._loop.create_future()
        self.wake()
        await asyncio.wait((self._idle, self.failed), return_when=asyncio.FIRST_COMPLETED)
        if self.failed.done():
            self.failed.result()

    async def run_closing_flushes(self) -> None:
        """Finish what is under way, then carry out the last effects of a clean stop; `stop` comes before."""
        await self.idle()
        for effect in self.core.stopping.take_closing_flushes():
            self._workers.submit(effect)
        await self.idle()
