"""Faults of processes: they die, get SIGTERM, are paused, are slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.sim.faults.kinds import Fault
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.process import CrashPoint, Process
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.faults.swarm import Faults

RESTART_US_MAX = 4 * SECOND
HALFWAY_US_MAX = 25 * SECOND
# The lease is 6 s; a process paused for less has not certainly lost it.
PAUSES_US = (50 * MS, 2_500 * MS)
PAUSES_PAST_LEASE_US = (6 * SECOND, 12 * SECOND)


# --- death -----------------------------------------------------------------------------------------------------------


def kill(faults: Faults, fault: Fault, candidates: Sequence[Process]) -> None:
    process = faults.one_of([each for each in candidates if each.alive])
    if process is not None:
        process.kill()
        faults.hit(fault)
        faults.restart_later(process, RESTART_US_MAX)


def kill_logstore(faults: Faults) -> None:
    kill(faults, Fault.KILL_LOGSTORE, faults.cluster.logstores)


def kill_gateway(faults: Faults) -> None:
    kill(faults, Fault.KILL_GATEWAY, faults.cluster.gateways)


def kill_purgatory(faults: Faults) -> None:
    kill(faults, Fault.KILL_PURGATORY, faults.cluster.purgatories)


def kill_parked(faults: Faults) -> None:
    pods = faults.cluster.purgatories
    kill(faults, Fault.KILL_PARKED, [each for each in pods if each.core is not None and each.core.entries])


def kill_controller(faults: Faults) -> None:
    kill(faults, Fault.KILL_CONTROLLER, [each for each in faults.cluster.controllers if each.is_active])


def lose_controller_halfway(faults: Faults) -> None:
    """A logstore is killed, one that coordinates transactions if any does, and often the others with it. When it is
    back, it leads for a while without knowing the cluster, and the others follow it: each controller, or its stream to
    it, is gone between its LeaderAndIsr and its UpdateMetadata.
    """
    cluster = faults.cluster
    living = [each for each in cluster.logstores if each.alive]
    node = faults.one_of(cluster.transactions.coordinators() or living)
    if node is None or any(each.lose_controller is not None for each in cluster.logstores):
        return
    hit, kills = faults.first_hit(Fault.LOSE_CONTROLLER_HALFWAY), faults.random.random() < 0.2

    def lose() -> None:
        hit()
        for controller in cluster.controllers if kills else ():
            if controller.is_active:
                controller.kill()
                faults.restart_later(controller, RESTART_US_MAX)

    def spare() -> None:
        if node.lose_controller is lose:
            node.lose_controller = None

    node.lose_controller = lose
    for each in living if faults.random.random() < 0.7 else [node]:
        each.kill()
        faults.restart_later(each, 1 * SECOND)
    faults.after(faults.random.randrange(2 * SECOND, HALFWAY_US_MAX), f"{node.name} learns of the cluster", spare)


def kill_coordinator(faults: Faults) -> None:
    """Where there are groups."""
    if faults.cluster.groups.shapes:
        kill(faults, Fault.KILL_COORDINATOR, faults.cluster.groups.coordinators())


def kill_transaction_coordinator(faults: Faults) -> None:
    """Where there are transactions."""
    kill(faults, Fault.KILL_TRANSACTION_COORDINATOR, faults.cluster.transactions.coordinators())


def kill_all_logstores(faults: Faults) -> None:
    living = [each for each in faults.cluster.logstores if each.alive]
    if len(living) > 1:
        faults.hit(Fault.KILL_ALL_LOGSTORES)
        for process in living:
            process.kill()
            faults.restart_later(process, RESTART_US_MAX)


def restart_storm(faults: Faults) -> None:
    """Every process but clients and etcd may be hit, each several times, and is back within moments."""
    cluster = faults.cluster
    storm = [*cluster.logstores, *cluster.gateways, *cluster.purgatories, *cluster.controllers]
    hit = faults.first_hit(Fault.RESTART_STORM)
    kills = 0

    def strike() -> None:
        nonlocal kills
        process = faults.one_of([each for each in storm if each.alive])
        if process is not None:
            process.kill()
            kills += 1
            if kills > 1:
                hit()
            faults.restart_later(process, 300 * MS)

    for _ in range(faults.random.randint(4, 12)):
        faults.later(2 * SECOND, "the storm goes on", strike)


def terminate_logstore(faults: Faults) -> None:
    logstores = faults.cluster.logstores
    node = faults.one_of([each for each in logstores if each.core is not None and not each.is_stopping])
    if node is not None:
        node.terminate()
        faults.hit(Fault.TERMINATE_LOGSTORE)
        faults.restart_later(node, 6 * SECOND)


def vanish(faults: Faults) -> None:
    cluster = faults.cluster
    machines = [*cluster.gateways, *cluster.purgatories, *cluster.controllers, *cluster.clients]
    process = faults.one_of([each for each in machines if each.alive])
    if process is not None:
        process.vanish()
        faults.hit(Fault.VANISH)
        faults.restart_later(process, RESTART_US_MAX)


# --- death at a chosen moment ----------------------------------------------------------------------------------------


def _crash_at(faults: Faults, fault: Fault, point: CrashPoint, candidates: Sequence[Process]) -> None:
    """The first of all that comes there dies; those who don't within a few seconds are spared."""
    armed = [each for each in candidates if each.alive]

    def disarm() -> None:
        for each in armed:
            each.crash_points.pop(point, None)

    def crash(process: Process) -> None:
        disarm()
        faults.hit(fault)
        process.kill()
        faults.restart_later(process, RESTART_US_MAX)

    for process in armed:
        process.crash_points[point] = lambda process=process: crash(process)  # type: ignore[misc]
    faults.later(8 * SECOND, f"no process has to crash any more: {point.value}", disarm)


def crash_written(faults: Faults) -> None:
    node = faults.one_of(faults.cluster.logstores)
    if node is not None:
        _crash_at(faults, Fault.CRASH_WRITTEN, CrashPoint.WRITTEN, [node])


def crash_truncated(faults: Faults) -> None:
    _crash_at(faults, Fault.CRASH_TRUNCATED, CrashPoint.TRUNCATED, faults.cluster.logstores)
    provoke_changes(faults)


def crash_alter_partition(faults: Faults) -> None:
    _crash_at(faults, Fault.CRASH_ALTER_PARTITION, CrashPoint.ALTER_PARTITION_SENT, faults.cluster.logstores)
    provoke_changes(faults)


def crash_between_txns(faults: Faults) -> None:
    _crash_at(faults, Fault.CRASH_BETWEEN_TXNS, CrashPoint.TXN_ANSWERED, faults.cluster.controllers)
    provoke_changes(faults)


def provoke_changes(faults: Faults) -> None:
    """Leaders change, logs are cut and an ISR shrinks and grows when a logstore dies, and seldom otherwise."""
    node = faults.one_of([each for each in faults.cluster.logstores if each.alive])
    if node is not None:
        node.kill()
        faults.restart_later(node, 1 * SECOND)


def crash_in_disk_operation(faults: Faults) -> None:
    """kill -9 within some change of the disk: what was being written is there in part, and the page cache survives."""
    node = faults.one_of([each for each in faults.cluster.logstores if each.alive])
    if node is None:
        return

    def crash() -> None:
        faults.hit(Fault.CRASH_IN_DISK_OPERATION)
        node.kill()
        faults.restart_later(node, RESTART_US_MAX)

    node.interrupt_after(faults.random.randrange(60), crash)


# --- time ------------------------------------------------------------------------------------------------------------


def _pause(faults: Faults, fault: Fault, duration_us: int) -> None:
    process = faults.one_of([each for each in faults.cluster.processes if each.alive and not each.paused])
    if process is not None:
        process.pause()
        faults.hit(fault)
        faults.scheduler.plan(duration_us, f"{process.name} goes on", process.resume)


def pause(faults: Faults) -> None:
    _pause(faults, Fault.PAUSE, faults.random.randrange(*PAUSES_US))


def pause_past_lease(faults: Faults) -> None:
    _pause(faults, Fault.PAUSE_PAST_LEASE, faults.random.randrange(*PAUSES_PAST_LEASE_US))


def slow_cpu(faults: Faults) -> None:
    process = faults.random.choice(faults.cluster.processes)
    hit, stall_us_max = faults.first_hit(Fault.SLOW_CPU), faults.random.choice((5, 50, 300)) * MS

    def stall_us() -> int:
        hit()
        return faults.scheduler.below(stall_us_max)

    def recover() -> None:
        if process.stall_us is stall_us:
            process.stall_us = None

    process.stall_us = stall_us
    faults.later(5 * SECOND, f"{process.name} has its CPU back", recover)


STRIKES: dict[Fault, Callable[[Faults], None]] = {
    Fault.KILL_LOGSTORE: kill_logstore,
    Fault.KILL_GATEWAY: kill_gateway,
    Fault.KILL_PURGATORY: kill_purgatory,
    Fault.KILL_PARKED: kill_parked,
    Fault.KILL_CONTROLLER: kill_controller,
    Fault.LOSE_CONTROLLER_HALFWAY: lose_controller_halfway,
    Fault.KILL_COORDINATOR: kill_coordinator,
    Fault.KILL_TRANSACTION_COORDINATOR: kill_transaction_coordinator,
    Fault.KILL_ALL_LOGSTORES: kill_all_logstores,
    Fault.RESTART_STORM: restart_storm,
    Fault.TERMINATE_LOGSTORE: terminate_logstore,
    Fault.VANISH: vanish,
    Fault.PAUSE: pause,
    Fault.PAUSE_PAST_LEASE: pause_past_lease,
    Fault.SLOW_CPU: slow_cpu,
    Fault.CRASH_WRITTEN: crash_written,
    Fault.CRASH_TRUNCATED: crash_truncated,
    Fault.CRASH_ALTER_PARTITION: crash_alter_partition,
    Fault.CRASH_BETWEEN_TXNS: crash_between_txns,
    Fault.CRASH_IN_DISK_OPERATION: crash_in_disk_operation,
}


def heal(cluster: Cluster) -> None:
    """After the disks: who can't read its own does not start."""
    for process in cluster.processes:
        process.crash_points.clear()
        process.stall_us = None
        if isinstance(process, LogstoreNode):
            process.lose_controller = None
        process.resume()
        start(process)


def start(process: Process) -> None:
    """A process that takes too long to stop is killed before its restart."""
    if isinstance(process, LogstoreNode) and process.is_stopping:
        process.kill()
    if not process.alive:
        process.start()
