"""Idle producers are forgotten by the clock, a bounded piece of them at a time."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.maintenance.producer_expiry import FIRST_CHECK_MS_MAX, PARTITION_COST, PRODUCERS_PER_TICK
from tests.unit.logstore.service.support import EXCHANGE, READ, WALL_MS, Host, topic

DAY_MS = 24 * 60 * 60 * 1000
CHECK_MS = 10 * 60 * 1000


def produced(sequence: int, timestamp_ms: int = WALL_MS) -> bytes:
    return build_batch([Record(b"k", b"v", timestamp_ms)], producer_id=7, producer_epoch=0, base_sequence=sequence)


def pass_ms(host: Host, duration_ms: int) -> None:
    host.now_ms += duration_ms
    host.core.tick(host.now_ms)


def started(partitions: int = 1, **config: int) -> Host:
    host = Host(**config)
    host.greet(EXCHANGE, READ)
    host.lead(topic(partitions=partitions))
    pass_ms(host, 100)
    return host


def producers(host: Host) -> int:
    return sum(len(partition.log.producers) for partition in host.core.partitions)


def test_producers_are_forgotten_after_a_day_at_the_next_check() -> None:
    host = started()
    assert host.append(produced(5, WALL_MS - DAY_MS + 1)).error_code == ErrorCode.NONE
    pass_ms(host, FIRST_CHECK_MS_MAX)
    assert producers(host) == 1
    host.core.step(host.now_ms, WALL_MS + 1)
    pass_ms(host, CHECK_MS - 1)
    assert producers(host) == 1
    pass_ms(host, 1)
    assert producers(host) == 0
    assert host.append(produced(99)).error_code == ErrorCode.NONE


def test_expiry_and_its_interval_are_configured() -> None:
    host = started(producer_id_expiration_ms=1000, producer_id_expiration_check_interval_ms=50)
    host.append(produced(0, WALL_MS - 1000))
    pass_ms(host, 50)
    assert producers(host) == 0


def test_a_tick_looks_at_so_many_producers_and_no_more() -> None:
    host = started(partitions=4, producer_id_expiration_ms=1, producer_id_expiration_check_interval_ms=50)
    count = PRODUCERS_PER_TICK - PARTITION_COST
    for partition in host.core.partitions:
        for producer_id in range(count):
            partition.log.producers.update(producer_id, 0, 0, 0, 0, 5)
    left = []
    for _ in range(4):
        pass_ms(host, 50)
        left.append(producers(host) // count)
    assert left == [3, 2, 1, 0]
