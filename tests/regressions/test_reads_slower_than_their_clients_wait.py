"""A read that takes longer than `fetch.max.wait.ms` is waited for: the wait is for records to come, not for a disk.

Tiered storage for Kafka ended a remote read with the client's wait, whose next fetch began it again, for ever.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from tests.unit.gateway.test_fetch import partitions, records
from tests.unit.gateway.world import World

WAIT_MS = 500


def test_it_is_waited_for_and_not_begun_again() -> None:
    world = World()
    client = world.client()
    client.fetch(0, max_wait_ms=WAIT_MS)
    world.pass_ms(20 * WAIT_MS)
    assert client.answers == []
    assert (len(world.logstore.reads), world.logstore.cancels) == (1, [])
    world.logstore.read_result(b"batch")
    assert records(client) == [b"batch"]


def test_one_that_brings_too_little_after_the_wait_is_the_answer() -> None:
    """It is not parked, and read once more, when the time for that is over."""
    world = World()
    client = world.client()
    client.fetch(0, max_wait_ms=WAIT_MS, min_bytes=1000)
    world.pass_ms(2 * WAIT_MS)
    world.logstore.read_result(b"batch")
    assert records(client) == [b"batch"]
    assert world.logstore.reads == []


def test_a_logstore_that_says_nothing_for_long_costs_its_client_one_answer() -> None:
    """The next fetch is another read, in a request of its own, with all the time there is."""
    world = World()
    client = world.client()
    for _ in range(3):
        client.fetch(0, max_wait_ms=WAIT_MS)
        world.pass_ms(world.processor.config.read_wait_ms_max + 100)
        assert partitions(client)[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        world.logstore.reads.clear()
    client.fetch(0, max_wait_ms=WAIT_MS)
    world.pass_ms(world.processor.config.read_wait_ms_max - 100)
    world.logstore.read_result(b"batch")
    assert records(client) == [b"batch"]
