"""The three measurements: many partitions, the deaths and pauses of leaders, a controlled shutdown."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from bench.accounting import cpu_seconds, memory_bytes
from bench.failover.leaders import Leaders
from bench.failover.load import Partition, Writers, create_topics
from bench.failover.trio import BROKERS, Trio, kill, pause, resume, terminate, wait_for_end

REPLICATION_FACTOR = 3
_SECONDS_MAX = 600.0
_SETTLE_SECONDS = 2.0
# Between a partition's writes: as many a second in all as one client in Python can send beside the brokers.
_PAUSE_SECONDS = 0.02
_PAUSE_SECONDS_OF_MANY = 2.0
_FAILOVER_PARTITIONS = 60


class Fault(StrEnum):
    KILL = "kill -9"
    PAUSE = "SIGSTOP"


@dataclass(slots=True)
class Spread:
    """Seconds, over partitions or over runs."""

    minimum: float
    median: float
    maximum: float


@dataclass(slots=True)
class ManyPartitions:
    """RF 3 over three brokers: created, and led again when one of these is killed."""

    topics: int
    partitions: int
    created_seconds: float
    """Until CreateTopics was answered: by Barnabas with all leaders leading and all gateways knowing."""
    written_seconds: float
    """From then until every partition had acknowledged a record of acks=all, of a producer that knew none of them."""
    creation_etcd: dict[str, int]
    led_by_the_dead: int
    elected_seconds: float
    """From the kill until clients see another leader for each of them (metadata, requested continuously)."""
    led_again_seconds: Spread
    """By partition of the killed leader: from the kill until a record that was sent after it was acknowledged."""
    failover_etcd: dict[str, int]
    whole_again_seconds: float
    """From the start of the killed one until every replica was in sync and preferred leaders led."""
    memory_bytes: int
    cpu_seconds_creation: float
    client_errors: int


@dataclass(slots=True)
class Failover:
    """One leader, killed or paused, under writes to all partitions that it led."""

    fault: Fault
    broker: int
    partitions: int
    resumed_seconds: Spread
    """By partition: from the fault until a record that was sent after it was acknowledged."""
    slowest_write_seconds: float
    """Of all records that were on their way then or sent later."""
    client_errors: int


@dataclass(slots=True)
class ControlledShutdown:
    """SIGTERM to a broker that leads many partitions, under writes to all of them."""

    led: int
    ended_seconds: float
    """From SIGTERM to the end of the process."""
    slowest_write_seconds: float
    resumed_seconds: Spread
    client_errors: int
    etcd: dict[str, int]


def spread(values: list[float]) -> Spread:
    return Spread(round(min(values), 3), round(statistics.median(values), 3), round(max(values), 3))


def many_partitions(trio: Trio, topics: int, partitions_each: int, say: Callable[[str], None]) -> ManyPartitions:
    names = [f"many-{number:02d}" for number in range(topics)]
    cpu_before, etcd_before = cpu_seconds(trio.sessions), trio.etcd_counters()
    began = time.monotonic()
    create_topics(trio.bootstrap, names, partitions_each, REPLICATION_FACTOR)
    created = time.monotonic()
    say(f"{topics * partitions_each:,} partitions created in {created - began:.1f} s")
    cpu, creation_etcd = cpu_seconds(trio.sessions) - cpu_before, _difference(etcd_before, trio.etcd_counters())
    created_seconds = round(created - began, 3)
    everywhere = [(name, number) for name in names for number in range(partitions_each)]
    with Writers(trio.bootstrap, everywhere, pause_seconds=_SECONDS_MAX) as writers:
        writers.wait_for_all(created, _SECONDS_MAX)
        written_seconds = max(writers.resumed(each, created) or 0.0 for each in everywhere) - created
    say(f"all written to after another {written_seconds:.1f} s")
    leaders = Leaders(trio.bootstrap, names, partitions_each)
    leaders.wait_until_whole()
    say("whole")
    victim = BROKERS - 1
    led = leaders.partitions_of(victim)
    time.sleep(_SETTLE_SECONDS)
    etcd_before = trio.etcd_counters()
    with Writers(trio.bootstrap, led, _PAUSE_SECONDS_OF_MANY) as writers:
        writers.wait_for_all(0.0, _SECONDS_MAX)
        killed = time.monotonic()
        kill(trio, victim)
        writers.write_now()
        leaders.wait_until_leads_nothing(victim)
        elected = time.monotonic() - killed
        say(f"others lead after {elected:.2f} s")
        writers.wait_for_all(killed, _SECONDS_MAX)
    led_again = spread(_resumed(writers, killed))
    failover_etcd = _difference(etcd_before, trio.etcd_counters())
    say(f"{len(led):,} led again: {led_again}")
    began = time.monotonic()
    trio.restart(victim)
    leaders.wait_until_whole()
    whole_again = time.monotonic() - began
    say(f"whole again after {whole_again:.1f} s")
    return ManyPartitions(
        topics=topics,
        partitions=len(everywhere),
        created_seconds=created_seconds,
        written_seconds=round(written_seconds, 3),
        creation_etcd=creation_etcd,
        led_by_the_dead=len(led),
        elected_seconds=round(elected, 3),
        led_again_seconds=led_again,
        failover_etcd=failover_etcd,
        whole_again_seconds=round(whole_again, 3),
        memory_bytes=memory_bytes(trio.sessions),
        cpu_seconds_creation=round(cpu, 1),
        client_errors=len(writers.errors),
    )


def failovers(trio: Trio, fault: Fault, runs: int, say: Callable[[str], None]) -> list[Failover]:
    """Leaders in turn. Each is restarted, or goes on, and preferred leaders lead again before the next."""
    name = f"failover-{fault.name.lower()}"
    create_topics(trio.bootstrap, [name], _FAILOVER_PARTITIONS, REPLICATION_FACTOR)
    leaders = Leaders(trio.bootstrap, [name], _FAILOVER_PARTITIONS)
    results = []
    for number in range(runs):
        victim = number % BROKERS
        leaders.wait_until_whole()
        results.append(_failover(trio, fault, victim, leaders.partitions_of(victim)))
        say(f"{fault} {number + 1}/{runs}: {results[-1].resumed_seconds}")
    leaders.wait_until_whole()
    return results


def _failover(trio: Trio, fault: Fault, victim: int, led: list[Partition]) -> Failover:
    with Writers(trio.bootstrap, led, _PAUSE_SECONDS) as writers:
        writers.wait_for_all(0.0, _SECONDS_MAX)
        time.sleep(_SETTLE_SECONDS)
        struck = time.monotonic()
        (kill if fault is Fault.KILL else pause)(trio, victim)
        try:
            writers.wait_for_all(struck, _SECONDS_MAX)
            time.sleep(1.0)
        finally:
            if fault is Fault.PAUSE:
                resume(trio, victim)
    if fault is Fault.KILL:
        trio.restart(victim)
    return Failover(
        fault,
        victim,
        len(led),
        spread(_resumed(writers, struck)),
        round(writers.slowest_write(struck), 3),
        len(writers.errors),
    )


def controlled_shutdown(trio: Trio, led_each: int, say: Callable[[str], None]) -> ControlledShutdown:
    """Of a broker that leads `led_each` partitions, as every other one does."""
    name = "shutdown"
    create_topics(trio.bootstrap, [name], BROKERS * led_each, REPLICATION_FACTOR)
    leaders = Leaders(trio.bootstrap, [name], BROKERS * led_each)
    leaders.wait_until_whole()
    victim = 0
    led = leaders.partitions_of(victim)
    with Writers(trio.bootstrap, led, _PAUSE_SECONDS_OF_MANY) as writers:
        writers.wait_for_all(0.0, _SECONDS_MAX)
        time.sleep(_SETTLE_SECONDS)
        etcd_before = trio.etcd_counters()
        asked = time.monotonic()
        terminate(trio, victim)
        writers.write_now()
        ended = wait_for_end(trio, victim)
        writers.wait_for_all(ended, _SECONDS_MAX)
        etcd = _difference(etcd_before, trio.etcd_counters())
    trio.restart(victim)
    slowest_write = writers.slowest_write(asked)
    say(f"{len(led)} led: ended after {ended - asked:.2f} s, the slowest write took {slowest_write:.2f} s")
    leaders.wait_until_whole()
    return ControlledShutdown(
        led=len(led),
        ended_seconds=round(ended - asked, 3),
        slowest_write_seconds=round(slowest_write, 3),
        resumed_seconds=spread(_resumed(writers, asked)),
        client_errors=len(writers.errors),
        etcd=etcd,
    )


def _resumed(writers: Writers, since: float) -> list[float]:
    moments = [writers.resumed(each, since) for each in writers.partitions]
    return [moment - since for moment in moments if moment is not None]


def _difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: value - before[name] for name, value in after.items()}
