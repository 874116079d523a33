"""What clients do that makes trouble: they die, they wake too late, they all come at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.faults.kinds import Fault
from tests.sim.faults.processes import kill
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.faults.swarm import Faults


def kill_client(faults: Faults) -> None:
    kill(faults, Fault.KILL_CLIENT, faults.cluster.clients)


def zombie_producer(faults: Faults) -> None:
    """It sleeps with requests under way for longer than any process waits, and then goes on as if nothing was."""
    sending = [each for each in faults.cluster.producers if each.alive and not each.paused and each.unanswered]
    producer = faults.one_of(sending)
    if producer is not None:
        producer.pause()
        faults.hit(Fault.ZOMBIE_PRODUCER)
        duration_us = faults.random.randrange(10 * SECOND, 20 * SECOND)
        faults.scheduler.plan(duration_us, f"{producer.name} wakes", producer.resume)


def zombie_member(faults: Faults) -> None:
    """It sleeps for longer than its session, and goes on as if nothing was. A static member's place is taken
    meanwhile.
    """
    members = [each for each in faults.cluster.groups.members if each.alive and not each.paused and each.has_its_share]
    member = faults.one_of(members)
    if member is None:
        return
    member.pause()
    faults.hit(Fault.ZOMBIE_MEMBER)
    session_us = member.group.session_ms * MS
    if member.twin is not None and faults.random.random() < 0.7:
        faults.later(session_us, f"{member.twin.name} takes its place", member.twin.take_its_place)
    duration_us = session_us // 2 + faults.random.randrange(2 * session_us)
    faults.scheduler.plan(duration_us, f"{member.name} wakes", member.resume)


def zombie_transaction(faults: Faults) -> None:
    """It sleeps in the midst of its work while another process gets its transactional id, and then goes on."""
    producers = faults.cluster.transactions.producers
    producer = faults.one_of([each for each in producers if each.alive and not each.paused and each.manager.is_busy])
    if producer is None:
        return
    producer.pause()
    faults.hit(Fault.ZOMBIE_TRANSACTION)
    assert producer.twin is not None
    faults.later(SECOND, f"{producer.twin.name} takes its place", producer.twin.take_its_place)
    duration_us = faults.random.randrange(1 * SECOND, 12 * SECOND)
    faults.scheduler.plan(duration_us, f"{producer.name} wakes", producer.resume)


def retry_storm(faults: Faults) -> None:
    """Their connections go, three times in a second."""
    cluster = faults.cluster
    hit = faults.first_hit(Fault.RETRY_STORM)

    def strike() -> None:
        if sum(cluster.network.break_connections(each.name, 1.0) for each in cluster.clients) > 1:
            hit()

    strike()
    for delay_us in (400 * MS, 900 * MS):
        faults.after(delay_us, "all clients lose their connections", strike)


STRIKES: dict[Fault, Callable[[Faults], None]] = {
    Fault.KILL_CLIENT: kill_client,
    Fault.ZOMBIE_PRODUCER: zombie_producer,
    Fault.ZOMBIE_MEMBER: zombie_member,
    Fault.ZOMBIE_TRANSACTION: zombie_transaction,
    Fault.RETRY_STORM: retry_storm,
}


def heal(cluster: Cluster) -> None:
    """They are processes, and have been started again as such."""
