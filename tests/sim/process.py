"""A process of the cluster: it runs, it may be paused, it may be killed and started again.

What it plans dies with it. Its clocks are its own: a process reads no other. It is alone on its machine, which outlives
it: the clocks, and what a power cut takes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from barnabas.containment import Uncontained
from tests.sim.clocks import Clock
from tests.sim.scheduler import MS, SECOND, Event, InjectedFault, Label, Scheduler, injected

if TYPE_CHECKING:
    from tests.sim.network import Network

# Any instant will do, as long as it is far from zero.
MONOTONIC_START_MS = 5_000_000
WALL_START_MS = 1_790_000_000_000
SUPERVISOR_US_MAX = 2 * SECOND
"""The longest that a supervisor waits before it starts a process again that has ended."""


class CrashPoint(Enum):
    """Moments between two steps that belong together, at which a process may be made to die."""

    WRITTEN = "what was appended is in the log, and nobody has heard of it"
    TRUNCATED = "a log is cut, and nobody has heard of it"
    ALTER_PARTITION_SENT = "a leader has asked for another ISR"
    TXN_ANSWERED = "the controller has changed etcd, and not acted on it"


class Process:
    """`name` is also the host in addresses and cuts. Subclasses say what starting means, in `boot`."""

    def __init__(self, name: str, scheduler: Scheduler, network: Network) -> None:
        self.name = name
        self.scheduler = scheduler
        self.network = network
        self.alive = False
        # Goes up with every start and every end: what was planned in another life does not happen.
        self.incarnation = 0
        self.paused = False
        # Events that were due while it was paused.
        self.held: list[Event] = []
        self.monotonic_offset_ms = scheduler.random.randrange(1_000_000)
        self._turn_planned = False
        # The machine has no power: nothing answers there, not even its kernel.
        self.is_off = False
        self.clock = Clock(scheduler)
        # How much longer the next turn takes than it would, where the CPU is slow.
        self.stall_us: Callable[[], int] | None = None
        # What happens when it comes there.
        self.crash_points: dict[CrashPoint, Callable[[], None]] = {}

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        assert not self.alive
        self.alive = True
        self.is_off = False
        self.incarnation += 1
        self._turn_planned = False
        self.scheduler.note(f"{self.name} starts")
        try:
            self.boot()
        except (Exception, Uncontained) as error:
            fault = injected(error)
            if fault is None:
                raise
            fault.process.failed(fault)

    def kill(self) -> None:
        """kill -9: nothing is said, nothing is finished; the kernel closes its connections."""
        if self.alive:
            self.scheduler.note(f"{self.name} is killed")
            self.network.process_died(self)
            self._fall()

    def vanish(self) -> None:
        """Its machine loses power, dead or alive: without a notification."""
        self.scheduler.note(f"{self.name} vanishes")
        self.is_off = True
        self.network.machine_died(self)
        if self.alive:
            self._fall()

    def _fall(self) -> None:
        self.alive = self.paused = False
        self.incarnation += 1
        self.held.clear()
        self.crash_points.clear()
        self.died()

    def reached(self, point: CrashPoint) -> bool:
        """Whether it has died here: the caller does nothing more."""
        crash = self.crash_points.pop(point, None) if self.crash_points else None
        if crash is not None:
            crash()
        return crash is not None

    def interrupted(self) -> None:
        """It has ended in the midst of an operation of its disk."""
        self.kill()

    def failed(self, fault: InjectedFault) -> None:
        """An exception has left its loop: it ends at once, and its supervisor starts it again."""
        self.scheduler.contained(self, "the process", "process", str(fault))
        self.kill()
        delay_us = 100 * MS + self.scheduler.below(SUPERVISOR_US_MAX)
        self.scheduler.plan(delay_us, f"{self.name} is started again", lambda: None if self.alive else self.start())

    def pause(self) -> None:
        """SIGSTOP: it does nothing, and its connections stay open."""
        if self.alive and not self.paused:
            self.paused = True
            self.network.process_paused(self)

    def resume(self) -> None:
        """SIGCONT: everything that was due happens now, in the order in which it was."""
        if not self.paused:
            return
        self.paused = False
        held, self.held = self.held, []
        for event in held:
            self.scheduler.replan(0, event)
        self.network.process_resumed(self)

    def boot(self) -> None:
        """What the process does when it starts."""
        raise AssertionError("every process does something")

    def died(self) -> None:
        """Forget what was in memory."""

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The monotonic clock."""
        return MONOTONIC_START_MS + self.monotonic_offset_ms + self.clock.elapsed_us // MS

    @property
    def wall_ms(self) -> int:
        return WALL_START_MS + self.clock.wall_elapsed_ms

    def after(self, delay_us: int, label: Label, action: Callable[[], None]) -> Event:
        """Plan something that this process does."""
        return self.scheduler.plan(delay_us, label, action, self)

    def wake_at_ms(self, due_ms: int | None, previous: Event | None) -> Event | None:
        """A turn at `due_ms` of the process's own clock instead of the one planned as `previous`."""
        now_us = self.scheduler.now_us
        delay_us = 0 if due_ms is None else max(0, (due_ms - self.now_ms) * MS - now_us % MS)
        if previous is not None:
            if delay_us > 0 and previous.due_us == now_us + delay_us and not previous.cancelled:
                return previous
            previous.cancelled = True
        return None if due_ms is None else self.after(delay_us, "wakes", self.turn_soon)

    # --- turns -------------------------------------------------------------------------------------------------------

    def turn_soon(self) -> None:
        """A turn of the event loop: what arrives until then is taken together."""
        if not self._turn_planned:
            self._turn_planned = True
            scheduler = self.scheduler
            delay_us = 5 + scheduler.below(115)
            if self.stall_us is not None:
                delay_us += self.stall_us()
            scheduler.plan(delay_us, "turn", self._turn, self)

    def _turn(self) -> None:
        self._turn_planned = False
        self.turn()

    def turn(self) -> None:
        """One turn of the event loop, as the service's shell has it."""
        raise AssertionError("every process takes turns")
