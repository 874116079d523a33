"""Who makes things go wrong: each seed has a mixture of kinds (a swarm) and a pace of its own.

A fault counts when it has really hit something: a cut that nothing wanted to pass, or a full disk that was not written
to, is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

from tests.sim.faults import clients, clocks, disks, etcd, links, processes
from tests.sim.faults.kinds import Fault
from tests.sim.process import Process
from tests.sim.scheduler import MS
from tests.sim.weather import Hit

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

Some = TypeVar("Some")

# In the order in which they heal: who can't read its disk does not start.
FAMILIES = (links, disks, clocks, etcd, processes, clients)


class Faults:
    """Begins one fault after the other until stopped; every one of them ends automatically, or with `heal`."""

    def __init__(self, cluster: Cluster, kinds: list[Fault], interval_us: int) -> None:
        """One fault about every `interval_us`."""
        self.cluster = cluster
        self.scheduler = cluster.scheduler
        self.kinds = kinds
        self._interval_us = interval_us
        self._stopped = False
        self.hits: Counter[Fault] = Counter()
        self._strikes = {fault: strike for family in FAMILIES for fault, strike in family.STRIKES.items()}

    def start(self) -> None:
        if self.kinds:
            self._next()

    def stop(self) -> None:
        self._stopped = True

    def _next(self) -> None:
        delay_us = self.random.randrange(self._interval_us // 4, 2 * self._interval_us)
        self.scheduler.plan(delay_us, "something goes wrong", self._strike)

    def _strike(self) -> None:
        if self._stopped:
            return
        self.strike(self.random.choice(self.kinds))
        self._next()

    def strike(self, fault: Fault) -> None:
        """Have it happen now, or as soon as there is a process to hit."""
        self._strikes[fault](self)

    def heal(self) -> None:
        """Everything that is broken is whole again, now."""
        self.stop()
        for family in FAMILIES:
            family.heal(self.cluster)

    # --- what each kind needs ----------------------------------------------------------------------------------------

    @property
    def random(self) -> Random:
        return self.scheduler.random

    def hit(self, fault: Fault) -> None:
        """It has hit a process."""
        self.hits[fault] += 1
        self.scheduler.note(f"fault: {fault.value}")

    def first_hit(self, fault: Fault) -> Hit:
        """To be called at every effect of one fault, which counts once."""
        is_counted = False

        def hit() -> None:
            nonlocal is_counted
            if not is_counted:
                is_counted = True
                self.hit(fault)

        return hit

    def one_of(self, candidates: Sequence[Some]) -> Some | None:
        return self.random.choice(candidates) if candidates else None

    def later(self, delay_us_max: int, label: str, action: Callable[[], object]) -> None:
        """Some time later, unless everything has been healed by then."""
        self.after(self.random.randrange(1 * MS, delay_us_max), label, action)

    def after(self, delay_us: int, label: str, action: Callable[[], object]) -> None:
        self.scheduler.plan(delay_us, label, lambda: None if self._stopped else _do(action))

    def restart_later(self, process: Process, delay_us_max: int) -> None:
        self.later(delay_us_max, f"{process.name} is started again", lambda: processes.start(process))


def _do(action: Callable[[], object]) -> None:
    action()
