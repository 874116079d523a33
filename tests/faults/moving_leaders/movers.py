"""What moves leaders, round by round, and the count of the moves."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, Protocol

from tests.faults.cluster import UnhealthyError
from tests.faults.moving_leaders.clusters import Cluster
from tests.faults.topics import RefusedError, elect_preferred_leaders, in_sync, leaders_of, reassign, replicas_of

REASSIGN_SECONDS: Final = 0.6
"""From one rotation of the replicas to the next."""
HOLD_SECONDS_MAX: Final = 1.0
"""A cluster that is whole again is left alone for up to so long."""
DOWN_SECONDS_MAX: Final = 3.0
"""A killed broker is left dead for up to so long; about half of them are started again at once."""
SETTLE_SECONDS_MAX: Final = 90.0
_POLL_SECONDS: Final = 0.1

Say = Callable[[str], None]


class Move(StrEnum):
    REASSIGN = "reassign"
    """The replicas of all partitions are rotated by one, and preferred leaders elected."""
    SHUTDOWN = "shutdown"
    """SIGTERM to one broker after the other, each started again; then preferred leaders are elected."""
    KILL = "kill"
    """The same with kill -9 of brokers that lead."""


class Mover(Protocol):
    def round(self) -> None:
        """Move leaders once, and leave the cluster whole. Raises UnhealthyError and RefusedError."""


def mover_of(move: Move, cluster: Cluster, topic: str, partitions: int, chance: random.Random) -> Mover:
    """Raises RefusedError."""
    match move:
        case Move.REASSIGN:
            return _Rotation(cluster, topic)
        case Move.SHUTDOWN:
            return _Restarts(cluster, topic, partitions, chance, kills=False)
        case Move.KILL:
            return _Restarts(cluster, topic, partitions, chance, kills=True)


class _Rotation:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._replicas = replicas_of(cluster, topic)
        self._due = time.monotonic()

    def round(self) -> None:
        self._replicas = {partition: [*rest, first] for partition, (first, *rest) in self._replicas.items()}
        reassign(self._cluster, self._topic, self._replicas)
        elect_preferred_leaders(self._cluster, self._topic, self._replicas)
        now = time.monotonic()
        self._due = max(self._due + REASSIGN_SECONDS, now)
        time.sleep(self._due - now)


class _Restarts:
    def __init__(self, cluster: Cluster, topic: str, partitions: int, chance: random.Random, *, kills: bool) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._chance = chance
        self._kills = kills
        self._rounds = 0

    def round(self) -> None:
        before = leaders_of(self._cluster, self._topic)
        broker = self._next(before)
        self._rounds += 1
        if self._kills:
            self._cluster.kill(broker)
            if self._chance.random() < 0.5:
                time.sleep(self._chance.uniform(0.0, DOWN_SECONDS_MAX))
        else:
            self._cluster.terminate(broker)
        self._cluster.spawn(broker)
        led = {partition: epoch for partition, (leader, epoch) in before.items() if leader == broker}
        wait_until(lambda: self._unsettled(led), SETTLE_SECONDS_MAX)
        elect_preferred_leaders(self._cluster, self._topic, range(self._partitions))
        time.sleep(self._chance.uniform(0.0, HOLD_SECONDS_MAX))

    def _next(self, leaders: Mapping[int, tuple[int, int]]) -> int:
        if not self._kills:
            return self._cluster.broker_ids[self._rounds % len(self._cluster.broker_ids)]
        leading = sorted({leader for leader, _ in leaders.values() if leader in self._cluster.broker_ids})
        if not leading:
            raise UnhealthyError(f"no partition of {self._topic} has a leader")
        return self._chance.choice(leading)

    def _unsettled(self, led: Mapping[int, int]) -> str | None:
        """Why the cluster is not whole yet. What a server knows may be from before the restart as long as a partition
        that the broker led, at an epoch in `led`, has no later epoch."""
        try:
            now = leaders_of(self._cluster, self._topic)
        except RefusedError as refused:
            return str(refused)
        for partition, epoch in led.items():
            if partition not in now or now[partition][1] <= epoch:
                return f"the restart of the leader of {self._topic}-{partition} is not known yet"
        return in_sync(self._cluster, self._topic, self._partitions)


class Moves:
    """Counts how often a partition gets another leader, while it is entered as a context manager."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._last: dict[int, tuple[int, int]] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.count = 0

    def __enter__(self) -> Moves:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ending.wait(_POLL_SECONDS):
            try:
                self.look(leaders_of(self._cluster, self._topic))
            except RefusedError:
                continue

    def look(self, leaders: Mapping[int, tuple[int, int]]) -> None:
        """(leader, leader epoch) by partition, as some server knows them: later ones alone count."""
        for partition, (leader, epoch) in leaders.items():
            last_leader, last_epoch = self._last.get(partition, (leader, epoch))
            if leader < 0 or epoch < last_epoch:
                continue
            self.count += leader != last_leader
            self._last[partition] = (leader, epoch)


def wait_until(reason: Callable[[], str | None], seconds_max: float) -> None:
    """Until there is no reason to wait any more. Raises UnhealthyError."""
    deadline = time.monotonic() + seconds_max
    while (why := reason()) is not None:
        if time.monotonic() > deadline:
            raise UnhealthyError(f"not within {seconds_max:.0f} s: {why}")
        time.sleep(_POLL_SECONDS)
