"""A logstore at rest: its ticks have nothing to do, and may be further apart."""

from __future__ import annotations

from barnabas_logstore.core.logstore import TICK_MS
from barnabas_logstore.core.ticks import REST_TICK_MS
from tests.unit.logstore.replication.support import FollowerByHand, at, leading_host
from tests.unit.logstore.service.support import EXCHANGE, Host, topic


def tick(host: Host, ms: int = TICK_MS) -> None:
    host.now_ms += ms
    host.core.tick(host.now_ms)
    host.settle()


def rested(host: Host) -> Host:
    """After the first checks of everything."""
    for _ in range(1000):
        tick(host)
        if host.core.ticks.is_at_rest:
            return host
    raise AssertionError("it never rests")


def test_a_log_that_was_written_is_looked_at_by_the_next_tick() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead()
    rested(host)
    host.append()
    assert not host.core.ticks.is_at_rest
    tick(host)
    assert host.core.ticks.is_at_rest, "flush.ms is unlimited by default"


def test_a_log_with_a_time_of_its_own_for_flushes_keeps_the_ticks_close() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(configs={"flush.ms": "1000"}))
    rested(host)
    host.append()
    for _ in range(9):
        tick(host)
        assert not host.core.ticks.is_at_rest
    rested(host)


def test_a_watermark_that_followers_do_not_know_is_sent_with_the_next_tick() -> None:
    host = leading_host()
    followers = [FollowerByHand(host, node_id) for node_id in (2, 3)]
    for follower in followers:
        follower.fetch(at(0))
    rested(host)
    host.append(leader_epoch=0)
    for follower in followers:
        follower.answer()
        follower.fetch(at(1))
    assert not host.core.ticks.is_at_rest
    tick(host)
    rested(host)


def test_a_fetch_that_waits_has_its_own_time() -> None:
    host = leading_host()
    follower = FollowerByHand(host, 2)
    follower.fetch(at(0))
    assert host.core.ticks.fetch_deadline_ms is None, "the first fetch is answered with the watermark"
    follower.ask(at(0), wait_ms=300)
    host.settle()
    assert host.core.ticks.fetch_deadline_ms == host.now_ms + 300
    assert REST_TICK_MS > 300
    tick(host, 300)
    assert host.core.ticks.fetch_deadline_ms is None
