"""What goes wrong, how often, and for how long: each seed has a mixture of its own (a swarm), and every fault is
counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.process import Process
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster


class Fault(Enum):
    KILL_LOGSTORE = "kill -9 of a logstore"
    KILL_GATEWAY = "kill -9 of a gateway"
    KILL_PURGATORY = "kill -9 of a purgatory pod"
    KILL_PARKED = "kill -9 of a purgatory pod that holds requests"
    KILL_CONTROLLER = "kill -9 of the active controller"
    KILL_ETCD = "restart of etcd"
    KILL_CLIENT = "kill -9 of a client"
    TERMINATE_LOGSTORE = "SIGTERM of a logstore"
    POWER_CUT = "power cut at a logstore"
    PAUSE = "pause within the lease"
    PAUSE_PAST_LEASE = "pause past the lease"
    RESET = "connections reset mid-stream"
    RESET_ETCD = "connections to etcd reset, with answers on their way"
    LEASE_ENDS_EARLY = "a lease that ends early"
    COMPACTION = "etcd's history compacted"
    CUT = "cut between two hosts"
    CUT_ONE_WAY = "cut in one direction"
    ISOLATE = "one host cut off from all"
    SLOW = "a slow host"


class Faults:
    """Begins one fault after the other until told to stop; every one of them ends by itself, or with `heal`."""

    def __init__(self, cluster: Cluster, kinds: list[Fault], interval_us: int) -> None:
        """One fault about every `interval_us`."""
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self._kinds = kinds
        self._interval_us = interval_us
        self._stopped = False
        self.hits: Counter[Fault] = Counter()

    def start(self) -> None:
        if self._kinds:
            self._next()

    def stop(self) -> None:
        self._stopped = True

    def _next(self) -> None:
        delay_us = self._scheduler.random.randrange(self._interval_us // 4, 2 * self._interval_us)
        self._scheduler.plan(delay_us, "something goes wrong", self._strike)

    def _strike(self) -> None:
        if self._stopped:
            return
        self.strike(self._scheduler.random.choice(self._kinds))
        self._next()

    def strike(self, fault: Fault) -> None:
        """Have it happen now; it counts when there was somebody to hit."""
        if self._begin(fault):
            self.hits[fault] += 1
            self._scheduler.note(f"fault: {fault.value}")

    def _begin(self, fault: Fault) -> bool:
        cluster, random = self._cluster, self._scheduler.random
        match fault:
            case Fault.KILL_LOGSTORE:
                return self._kill(cluster.logstores)
            case Fault.KILL_GATEWAY:
                return self._kill(cluster.gateways)
            case Fault.KILL_PURGATORY:
                return self._kill(cluster.purgatories)
            case Fault.KILL_PARKED:
                return self._kill([each for each in cluster.purgatories if each.core is not None and each.core.entries])
            case Fault.KILL_CONTROLLER:
                return self._kill([each for each in cluster.controllers if each.is_active])
            case Fault.KILL_ETCD:
                return self._kill([cluster.etcd])
            case Fault.KILL_CLIENT:
                return self._kill(cluster.clients)
            case Fault.TERMINATE_LOGSTORE:
                return self._terminate()
            case Fault.POWER_CUT:
                return self._cut_power()
            case Fault.PAUSE:
                return self._pause(random.randrange(50 * MS, 2_500 * MS))
            case Fault.PAUSE_PAST_LEASE:
                return self._pause(random.randrange(6 * SECOND, 12 * SECOND))
            case Fault.RESET:
                host = random.choice(cluster.processes).name
                return cluster.network.break_connections(host, random.random()) > 0
            case Fault.RESET_ETCD:
                return cluster.network.break_connections("etcd", random.random()) > 0
            case Fault.LEASE_ENDS_EARLY:
                return cluster.etcd.end_a_lease()
            case Fault.COMPACTION:
                return cluster.etcd.compact()
            case Fault.CUT:
                one, other = random.sample(cluster.processes, 2)
                return self._cut([(one.name, other.name), (other.name, one.name)])
            case Fault.CUT_ONE_WAY:
                one, other = random.sample(cluster.processes, 2)
                return self._cut([(one.name, other.name)])
            case Fault.ISOLATE:
                alone = random.choice(cluster.processes).name
                others = [each.name for each in cluster.processes if each.name != alone]
                return self._cut([pair for each in others for pair in ((alone, each), (each, alone))])
            case Fault.SLOW:
                return self._slow(random.choice(cluster.processes).name)

    # --- how each begins and ends
    # --------------------------------------------------------------------------------------

    def _kill(self, candidates: Sequence[Process]) -> bool:
        living = [each for each in candidates if each.alive]
        if not living:
            return False
        process = self._scheduler.random.choice(living)
        process.kill()
        self._later(4 * SECOND, f"{process.name} is started again", lambda: _start(process))
        return True

    def _terminate(self) -> bool:
        living = [each for each in self._cluster.logstores if each.core is not None and not each.is_stopping]
        if not living:
            return False
        node = self._scheduler.random.choice(living)
        node.terminate()
        self._later(6 * SECOND, f"{node.name} is started again", lambda: _start(node))
        return True

    def _cut_power(self) -> bool:
        living = [each for each in self._cluster.logstores if each.alive]
        if not living:
            return False
        node = self._scheduler.random.choice(living)
        self._cluster.lose_power(node)
        self._later(4 * SECOND, f"{node.name} is started again", lambda: _start(node))
        return True

    def _pause(self, duration_us: int) -> bool:
        running = [each for each in self._cluster.processes if each.alive and not each.paused]
        if not running:
            return False
        process = self._scheduler.random.choice(running)
        process.pause()
        self._scheduler.plan(duration_us, f"{process.name} goes on", process.resume)
        return True

    def _cut(self, directions: list[tuple[str, str]]) -> bool:
        network = self._cluster.network

        def heal() -> None:
            for source, target in directions:
                network.heal(source, target)

        for source, target in directions:
            network.cut(source, target)
        self._later(6 * SECOND, "a cut heals", heal)
        return True

    def _slow(self, host: str) -> bool:
        slowness = self._cluster.network.slowness
        slowness[host] = self._scheduler.random.choice((5, 20, 100))
        self._later(4 * SECOND, f"{host} is as fast as before", lambda: slowness.pop(host, None))
        return True

    def _later(self, delay_us_max: int, label: str, action: Callable[[], object]) -> None:
        delay_us = self._scheduler.random.randrange(1 * MS, delay_us_max)
        self._scheduler.plan(delay_us, label, lambda: None if self._stopped else _do(action))

    def heal(self) -> None:
        """Everything that is broken is whole again, now."""
        self.stop()
        self._cluster.network.heal_all()
        for process in self._cluster.processes:
            process.resume()
            _start(process)


def _start(process: Process) -> None:
    """Whoever restarts a process that takes too long to stop kills it first."""
    if isinstance(process, LogstoreNode) and process.is_stopping:
        process.kill()
    if not process.alive:
        process.start()


def _do(action: Callable[[], object]) -> None:
    action()
