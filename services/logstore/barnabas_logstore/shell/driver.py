"""LogstoreDriver: one turn of the core per turn of the event loop, with everything that has arrived until then.

Input is passed to the core as it arrives and requests a turn. A turn steps the core, carries out the effects that are
faster done than handed over, and sends one message per stream.

Commands of the controller are read before a turn by the event loop, with everything else that has arrived, and by the
turn itself if that was a while ago: under load there are megabytes of data to be received, several milliseconds' worth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Final

from barnabas.containment import Uncontained
from barnabas.runtime.clock import monotonic_ms, wall_ms
from barnabas.runtime.contained import log_contained
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.beat import next_beat
from barnabas.runtime.loop.event_loop import turn_began_ns
from barnabas.runtime.loop.input_selector import TurnScheduler
from barnabas_logstore.core.logstore import TICK_MS, LogstoreCore
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.core.ticks import REST_TICK_MS
from barnabas_logstore.shell.io_workers import Completion, EffectFault, IoWorkers, Outcome

COMMANDS_UNREAD_NS_MAX: Final = 300_000
"""So long after the event loop has looked for input, a turn looks for commands again."""

_log = get_logger("logstore")


class DirectoriesLost(Exception):  # noqa: N818  (an outcome that ends the process with its one line)
    """No log directory can be used any more (as in Kafka, the process ends)."""


class LogstoreDriver:
    """Everything here runs on the event loop and does not await."""

    def __init__(
        self,
        core: LogstoreCore,
        workers: IoWorkers,
        send: Callable[[Outputs], None],
        take_commands: Callable[[], None],
    ) -> None:
        """`take_commands` passes the commands that have arrived by now to the core."""
        self.core = core
        self._take_commands = take_commands
        self._workers = workers
        self._send = send
        self._loop = asyncio.get_running_loop()
        self.wake: Final = TurnScheduler(self._turn).request
        """Input has arrived: take a turn after the present one."""
        self._is_tick_due = False
        self._has_continued = False
        """The last turn left work for this one."""
        self._is_stopped = False
        self._rests = False
        """Whether the timer of the next tick is set for a core at rest."""
        self._completions: list[Completion] = []
        self._faults: list[EffectFault] = []
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_ms = 0
        self._idle: asyncio.Future[None] | None = None
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Fails if there can be no more turns: every directory is offline, or an invariant is violated."""

    def start(self) -> None:
        self._workers.start(self._on_io_done, self._on_io_faults)
        self._tick()

    def stop(self) -> None:
        """No more turns by the clock; no input may arrive any more."""
        self._is_stopped = True
        for timer in (self._timer, self._deadline):
            if timer is not None:
                timer.cancel()

    def fail(self, error: Exception | Uncontained) -> None:
        """Take no more turns, and end the process: the core's state can't be trusted any more."""
        if isinstance(error, Uncontained):
            cause, error = error, RuntimeError("a partition may be half offline")
            error.__cause__ = cause
        if not self.failed.done():
            self.failed.set_exception(error)

    def _turn(self) -> None:
        """A turn that fails is the last one: the core's state can't be trusted any more."""
        if self.failed.done():
            return
        try:
            self._take_turn()
        except (Exception, Uncontained) as error:
            self.fail(error)

    def _take_turn(self) -> None:
        core = self.core
        if self._has_continued or monotonic_ns() - turn_began_ns() > COMMANDS_UNREAD_NS_MAX:
            self._take_commands()
        completions, self._completions = self._completions, []
        for effect, outcome in completions:
            core.on_io_done(effect, outcome)
        if self._faults:
            faults, self._faults = self._faults, []
            for effect, fault in faults:
                core.on_io_done(effect, core.contained.work_failed(effect, fault))
        now_ms = monotonic_ms()
        if self._is_tick_due:
            self._is_tick_due = False
            core.tick(now_ms)
        core.step(now_ms, wall_ms())
        self._workers.begin_turn()
        while (outputs := core.take_outputs()).effects:
            self._carry_out(outputs.effects)
        self._send(outputs)
        for path, error in outputs.offline:
            _log.error("log directory offline", directory=path, error=str(error))
            if core.all_directories_offline and not self.failed.done():
                self.failed.set_exception(DirectoriesLost("every log directory is offline"))
        if outputs.contained:
            log_contained(outputs.contained)
        for name, reason in outputs.offline_partitions:
            _log.error("partition offline until the next start", partition=name, error=reason)
        for path, lack in outputs.full_disks:
            if lack is None:
                _log.info("log directory has free space again: it accepts appends", directory=path)
            else:
                _log.error(
                    "log directory is full: appends are refused until space is free", directory=path, error=str(lack)
                )
        if (self._timer is None or (self._rests and not core.ticks.is_at_rest)) and not self._is_stopped:
            self._wait_for_tick(now_ms)
        deadline_ms = core.next_deadline_ms()
        if deadline_ms is not None and (self._deadline is None or deadline_ms < self._deadline_ms):
            self._wait_for_deadline(deadline_ms, now_ms)
        self._has_continued = core.has_work
        if self._has_continued:
            self.wake()
        elif self._idle is not None and core.is_idle and not self._idle.done():
            self._idle.set_result(None)

    def _wait_for_deadline(self, deadline_ms: int, now_ms: int) -> None:
        """It is met to a millisecond or two, whenever the next tick is. An early timer is harmless: one that is set is
        only ever replaced by an earlier one.
        """
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline_ms = deadline_ms
        self._deadline = self._loop.call_later((max(0, deadline_ms - now_ms) + 1) / 1000, self._deadline_reached)

    def _deadline_reached(self) -> None:
        self._deadline = None
        self.wake()

    def _carry_out(self, effects: Sequence[StorageEffect]) -> None:
        for effect in effects:
            outcome: Outcome | None
            try:
                outcome = self._workers.run_in_place(effect)
            except Exception as fault:
                outcome = self.core.contained.work_failed(effect, fault)
            if outcome is None:
                self._workers.submit(effect)
            else:
                self.core.on_io_done(effect, outcome)

    def _on_io_done(self, completions: Sequence[Completion]) -> None:
        """Workers have finished something; it counts at the beginning of the next turn."""
        self._completions += completions
        self.wake()

    def _on_io_faults(self, faults: Sequence[EffectFault]) -> None:
        self._faults += faults
        self.wake()

    def _tick(self) -> None:
        self._is_tick_due = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wake()

    def _wait_for_tick(self, now_ms: int) -> None:
        """The next tick is TICK_MS away, or later as long as the core is at rest: a wake-up costs more than a tick."""
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        self._rests = self.core.ticks.is_at_rest
        due = next_beat(now, REST_TICK_MS if self._rests else TICK_MS)
        fetch_deadline_ms = self.core.ticks.fetch_deadline_ms
        if fetch_deadline_ms is not None:
            # At least a millisecond, so that a clock which rounds down never causes a busy loop.
            due = min(due, now + max(1, fetch_deadline_ms - now_ms) / 1000)
        self._timer = self._loop.call_at(due, self._tick)

    async def idle(self) -> None:
        """Return once nothing waits to be done and nothing is in progress; the core is stopping, so this happens.

        Raises the exception of `failed`.
        """
        self._idle = self._loop.create_future()
        self.wake()
        await asyncio.wait((self._idle, self.failed), return_when=asyncio.FIRST_COMPLETED)
        if self.failed.done():
            self.failed.result()

    async def run_closing_flushes(self) -> None:
        """Finish what is in progress, then carry out the last effects of a clean stop; `stop` has been called
        before.
        """
        await self.idle()
        for effect in self.core.stopping.take_closing_flushes():
            self._workers.submit(effect)
        await self.idle()
