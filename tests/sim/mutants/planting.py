"""How a fault of our own is planted, and who has to see it.

A mutant is a function that breaks one rule of a core by replacing something in it. `rule` is the number of that rule in
the list of rules that a rewrite gets wrong (docs/correctness.md), or the invariant that speaks of it. It is looked for
by the simulation: most mutants have to show in any mixture; what only disks, or only networks bring to light is looked
for where those suffer, as a harness that finds it there after ten seeds finds it elsewhere after a thousand.

Some rules the simulation does not need: another one does the same, or nothing but an error's name comes of it, or no
client of it does what would tell. Those mutants name the test that has to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim.faults import Fault
from tests.sim.run import Options
from tests.sim.shapes import AtMost, Profile

Plant = Callable[[], None]

SECONDS = 10
MOVING_SECONDS = 5
UNCLEAN_SECONDS = 20
# A cluster as small as shows what three logstores do to each other.
SMALL = AtMost(
    logstores=3, gateways=1, purgatories=1, controllers=2, producers=2, consumers=1, groups=0, transactional=0
)
# The same for transactions: some clients that make them, and the others only for what they read and overtake.
TRANSACTIONAL = AtMost(logstores=3, gateways=2, purgatories=1, controllers=2, producers=1, consumers=2, groups=0)

ANY = None
DISKS = [
    Fault.POWER_CUT,
    Fault.TORN_WRITE,
    Fault.KILL_LOGSTORE,
    Fault.TERMINATE_LOGSTORE,
    Fault.FLUSH_ERROR,
    Fault.WRITE_ERROR,
]
LEADERS = [
    Fault.KILL_LOGSTORE,
    Fault.TERMINATE_LOGSTORE,
    Fault.PAUSE_PAST_LEASE,
    Fault.LEASE_ENDS_EARLY,
    Fault.CUT,
    Fault.ISOLATE,
    Fault.CRASH_WRITTEN,
]
FOLLOWERS = [Fault.CUT, Fault.CUT_ONE_WAY, Fault.SLOW, Fault.SLOW_LINK, Fault.PAUSE, Fault.KILL_LOGSTORE]
CONTROLLERS = [
    Fault.KILL_CONTROLLER,
    Fault.CRASH_BETWEEN_TXNS,
    Fault.CRASH_ALTER_PARTITION,
    Fault.PAUSE_PAST_LEASE,
    Fault.LEASE_ENDS_EARLY,
    Fault.KILL_LOGSTORE,
    Fault.TXN_LOST,
    Fault.TXN_ANSWER_LOST,
    Fault.RESET_ETCD,
    Fault.WATCH_LAG,
    Fault.KILL_ETCD,
]


# One controller takes itself for active still, or what it wrote is on its way, when another one is.
TWO_CONTROLLERS = [
    Fault.LEASE_ENDS_EARLY,
    Fault.WATCH_LAG,
    Fault.PAUSE_PAST_LEASE,
    Fault.ETCD_LEADER_LOSS,
    Fault.ISOLATE,
    Fault.KILL_LOGSTORE,
]
# What was said on one connection arrives after what was said later on another one.
LATE_WORDS = [Fault.JITTER, Fault.PAUSE, Fault.SLOW_DISK]
# And who says it does not lead any more when it is heard.
LATE_LEADERS = [*LATE_WORDS, Fault.ISOLATE, Fault.CUT_ONE_WAY, Fault.LEASE_ENDS_EARLY]
SLOW_LEADERS = [Fault.JITTER, Fault.SLOW_LINK, Fault.CUT_ONE_WAY, Fault.LEASE_ENDS_EARLY]


@dataclass(slots=True, frozen=True)
class Mutant:
    """`looked_for`: where the simulation has to see it, or the pytest node id of the test that has to."""

    plant: Plant
    rule: str
    looked_for: Options | str

    @property
    def name(self) -> str:
        return self.plant.__name__.replace("_", " ")


@dataclass(slots=True)
class Mutants:
    """Those of one area, in the order in which they are written."""

    area: str
    all: list[Mutant] = field(default_factory=list)

    def breaks(
        self, rule: str, faults: list[Fault] | None = ANY, *, seconds: int = SECONDS, at_most: AtMost = SMALL
    ) -> Callable[[Plant], Plant]:
        """Decorates what plants a mutant that the simulation has to see."""
        return self._registers(rule, Options(seconds=seconds, faults=faults, at_most=at_most, profile=Profile.SPARSE))

    def breaks_with_unclean_leaders(self, rule: str, faults: list[Fault]) -> Callable[[Plant], Plant]:
        """Decorates what plants a mutant that shows where a leader has less than the one before it."""
        return self._registers(rule, Options(UNCLEAN_SECONDS, faults=faults, at_most=SMALL, profile=Profile.UNCLEAN))

    def breaks_while_leaders_move(self, rule: str) -> Callable[[Plant], Plant]:
        """Decorates what plants a mutant that producers have to see who act as the real ones, without any fault."""
        return self._registers(rule, Options(seconds=MOVING_SECONDS, faults=[], profile=Profile.MOVING))

    def breaks_in_transactions(self, rule: str, faults: list[Fault]) -> Callable[[Plant], Plant]:
        """Decorates what plants a mutant that shows where clients make transactions."""
        options = Options(SECONDS, faults=faults, at_most=TRANSACTIONAL, profile=Profile.SPARSE, is_transactional=True)
        return self._registers(rule, options)

    def breaks_at_last_epochs(self, rule: str, faults: list[Fault]) -> Callable[[Plant], Plant]:
        """Decorates what plants a mutant that shows where producers come to the end of their epochs."""
        options = Options(SECONDS, faults=faults, at_most=TRANSACTIONAL, profile=Profile.SPARSE, has_last_epochs=True)
        return self._registers(rule, options)

    def breaks_with(self, rule: str, options: Options) -> Callable[[Plant], Plant]:
        """Decorates what plants a mutant that shows in runs of its own kind."""
        return self._registers(rule, options)

    def breaks_for(self, rule: str, test: str) -> Callable[[Plant], Plant]:
        """Decorates what plants a mutant that `test` (a pytest node id) has to see."""
        return self._registers(rule, test)

    def _registers(self, rule: str, looked_for: Options | str) -> Callable[[Plant], Plant]:
        def registered(plant: Plant) -> Plant:
            self.all.append(Mutant(plant, rule, looked_for))
            return plant

        return registered


def replace_in(owner: Any, name: str, mutation: Any) -> None:
    """Put `mutation` in the place of something that `owner` has of its own: one that is renamed is not passed over."""
    assert name in vars(owner), f"{owner} has no {name} of its own any more"
    setattr(owner, name, mutation)
