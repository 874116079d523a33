"""Where a fault is played: the cluster under load, the topic of the cell, and when what was done to it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.checker.verdict import Kind
from tests.faults.cluster import FaultCluster, UnhealthyError
from tests.faults.history import Recorder
from tests.faults.machines import LOGSTORES, logstore_of
from tests.faults.namespaces import Network
from tests.faults.topics import RefusedError, in_sync, leaders_of

SETTLE_SECONDS_MAX = 60.0
"""From the end of a fault until all processes know each other again and every ISR is full."""
_POLL_SECONDS = 0.1


class AnomalyError(Exception):
    """Clients that belong to a fault saw something wrong or could not go on; the message says what."""


@dataclass(slots=True)
class Injection:
    """One fault, from its beginning to where the cluster had settled. Times are time.monotonic_ns()."""

    what: str
    began_ns: int
    ended_ns: int = 0
    """When it was taken back: the process started again, the cut healed."""
    settled_ns: int = 0

    @property
    def settle_seconds(self) -> float:
        return (self.settled_ns - self.ended_ns) / 1e9


@dataclass(slots=True)
class Stage:
    """A fault is a function of it, which does one thing to the cluster, waits, and takes it back."""

    cluster: FaultCluster
    topic: str
    partitions: int
    chance: random.Random
    nemesis: Recorder
    """Writes what is done into the history, when it is done."""
    directory: Path
    """Of the cell's history: it is kept when the cell fails."""
    injections: list[Injection] = field(default_factory=list)
    found: Counter[Kind] = field(default_factory=Counter)
    """By clients that belong to a fault: it is counted with what is wrong in the cell's history."""

    @property
    def network(self) -> Network:
        network = self.cluster.network
        assert network is not None, "a cell that cuts says so"
        return network

    @contextmanager
    def injected(self, what: str, cut_off: Collection[str] = ()) -> Iterator[None]:
        """Around the fault itself; at the end of the block the cluster is whole again, and finds itself.

        `cut_off` are the machines that the majority neither hears nor reaches meanwhile. What leads on them may say so
        until every process knows of every other again.
        """
        leaders = self._leaderships() if cut_off else {}
        epochs_cut_off = {partition: epoch for partition, (leader, epoch) in leaders.items() if leader in cut_off}
        injection = Injection(what, time.monotonic_ns())
        self.injections.append(injection)
        self.nemesis.fault(what)
        self.nemesis.cut_off(epochs_cut_off, over=False)
        yield
        injection.ended_ns = time.monotonic_ns()
        self.nemesis.fault(f"end of {what}")
        self.settle()
        injection.settled_ns = time.monotonic_ns()
        self.nemesis.cut_off(epochs_cut_off, over=True)
        self.nemesis.fault(f"settled after {what}")

    def hold(self, seconds: float) -> None:
        """Let it last."""
        time.sleep(seconds)

    def settle(self) -> None:
        """Raises UnhealthyError."""
        self.cluster.wait_until(self.unsettled, SETTLE_SECONDS_MAX)

    def unsettled(self) -> str | None:
        return self.cluster.not_ready() or in_sync(self.cluster.layout, self.topic, self.partitions)

    def wait_until(self, reason: Callable[[], str | None], seconds_max: float) -> None:
        """Raises UnhealthyError."""
        self.cluster.wait_until(reason, seconds_max)

    def leaders(self) -> dict[int, str]:
        """By partition. Raises UnhealthyError where there is no leader now."""
        return {partition: leader for partition, (leader, _) in self._leaderships().items()}

    def _leaderships(self) -> dict[int, tuple[str, int]]:
        """Leader and epoch by partition. Raises UnhealthyError where there is no leader now."""
        try:
            leaders = leaders_of(self.cluster.layout, self.topic)
        except RefusedError as reason:
            raise UnhealthyError(str(reason)) from None
        if min(leaders.values()) < (0, 0):
            raise UnhealthyError(f"partitions without a leader: {leaders}")
        return {partition: (logstore_of(leader), epoch) for partition, (leader, epoch) in sorted(leaders.items())}

    def leader(self) -> str:
        """The leader of some partition."""
        return self.chance.choice(list(self.leaders().values()))

    def follower(self) -> str:
        """A logstore that leads none of the partitions; in a topic of one partition there always are two."""
        leaders = set(self.leaders().values())
        return self.chance.choice([logstore for logstore in LOGSTORES if logstore not in leaders])

    def others(self, machine: str) -> list[str]:
        """The logstores but this one."""
        return [logstore for logstore in LOGSTORES if logstore != machine]
