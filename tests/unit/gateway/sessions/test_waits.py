"""Incremental fetch sessions: the wait that stands while nothing is new."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import Outcome
from barnabas.wire.errors import ErrorCode
from tests.unit.gateway.sessions.consumer import BY_ID, Consumer, answer_empty, answer_read, key
from tests.unit.gateway.world import World, topic


def idle(world: World, consumer: Consumer) -> None:
    """A session that has found nothing and has waited for it in vain."""
    consumer.begin({0: 10, 1: 10})
    consumer.next()
    answer_empty(world)
    world.pass_ms(600)
    assert consumer.returned() == {}


def test_an_idle_session_parks_once_for_many_polls(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    for _ in range(5):
        consumer.next()
        world.pass_ms(600)
        assert (consumer.returned(), consumer.answer.session_id) == ({}, consumer.session_id)
    assert len(world.pod.fetches) == 1
    assert not world.logstore.reads
    assert not world.pod.cancels


def test_what_ends_a_standing_wait_ends_the_poll_that_has_taken_it_up(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    consumer.next()
    world.pod.complete(world.pod.fetches[0].entry_id, Outcome.SATISFIED)
    assert answer_read(world.logstore, {1: b"batch"}) == [0, 1]
    assert consumer.returned() == {key(consumer, 1): (0, b"batch")}
    consumer.next({1: 11})
    answer_empty(world)
    assert len(world.pod.fetches) == 2


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_wait_that_ends_between_polls_has_the_next_one_read(
    world: World, consumer: Consumer, outcome: Outcome
) -> None:
    idle(world, consumer)
    world.pod.complete(world.pod.fetches[0].entry_id, outcome)
    assert not world.logstore.reads
    consumer.next()
    answer_read(world.logstore, {1: b"batch"})
    assert consumer.returned() == {key(consumer, 1): (0, b"batch")}


def test_a_poll_without_time_is_answered_from_the_wait(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    consumer.next(max_wait_ms=0)
    assert consumer.returned() == {}
    assert not world.logstore.reads


def test_a_standing_wait_is_given_up_for_whatever_it_is_not_about(world: World, consumer: Consumer) -> None:
    changes: list[dict[str, Any]] = [
        {"partitions": {0: 11}},
        {"forget": (1,)},
        {"isolation_level": 1},
        {"min_bytes": 2},
        {"min_bytes": 0},
        {"max_wait_ms": 60_000},
    ]
    for change in changes:
        idle(world, consumer)
        parked = world.pod.fetches[-1].entry_id
        consumer.next(**change)
        assert world.pod.cancels[-1] == parked, change
        assert len(world.logstore.reads) == 1, change
        answer_empty(world)
        world.pass_ms(60_100)
        answer_empty(world)
    idle(world, consumer)
    world.update(topic(leaders=(1, 1, 1)))
    consumer.next()
    assert len(world.logstore.reads) == 1
    assert world.pod.cancels[-1] == world.pod.fetches[-1].entry_id


def test_everything_is_read_again_after_a_while(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    for _ in range(12):
        consumer.next()
        if world.logstore.reads:
            break
        world.pass_ms(600)
    answer_read(world.logstore, log_start_offset=3)
    world.pass_ms(600)
    assert list(consumer.returned()) == [key(consumer, 0), key(consumer, 1)]


def test_a_lost_pod_has_the_poll_read(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    consumer.next()
    world.pod.down()
    assert answer_read(world.logstore, {0: b"batch"}) == [0, 1]
    assert consumer.returned() == {key(consumer, 0): (0, b"batch")}


def test_the_wait_of_a_session_that_is_closed_is_cancelled(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    consumer.epoch = -1
    consumer.poll(max_wait_ms=0)
    assert world.pod.cancels == [world.pod.fetches[0].entry_id]


def test_the_wait_of_a_client_that_goes_stays_with_the_session(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    consumer.next()
    consumer.client.close()
    assert not world.pod.cancels
    consumer.client = world.client()
    consumer.next()
    world.pass_ms(600)
    assert consumer.returned() == {}
    assert len(world.pod.fetches) == 1


def test_a_session_that_is_evicted_while_it_waits_is_answered_and_leaves_nothing() -> None:
    world = World(topic(leaders=(1, 1, 1)), pods=("pod-0",), fetch_session_slots=1, fetch_session_eviction_ms=100)
    consumer = Consumer(world.client())
    idle(world, consumer)
    consumer.next(max_wait_ms=2_000)
    world.pass_ms(200)
    other = Consumer(world.client())
    other.begin({0: 1, 1: 1, 2: 1})
    world.pass_ms(2_000)
    assert (consumer.returned(), consumer.answer.error_code) == ({}, 0)
    assert world.pod.cancels == [world.pod.fetches[0].entry_id]
    consumer.next()
    assert consumer.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_first_fetch_of_a_session_may_park_for_those_after_it(world: World, consumer: Consumer) -> None:
    consumer.poll({0: 10})
    answer_empty(world)
    world.pass_ms(600)
    consumer.session_id, consumer.epoch = consumer.answer.session_id, 1
    consumer.next()
    world.pass_ms(600)
    assert consumer.returned() == {}
    assert len(world.pod.fetches) == 1
    assert not world.logstore.reads


def test_a_first_fetch_that_gets_no_session_leaves_no_wait() -> None:
    world = World(pods=("pod-0",), fetch_session_slots=0)
    consumer = Consumer(world.client())
    consumer.poll({0: 10})
    answer_empty(world)
    world.pass_ms(600)
    assert consumer.answer.session_id == 0
    assert world.pod.cancels == [world.pod.fetches[0].entry_id]


def test_the_records_of_an_answer_are_let_go(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore, {0: b"batch"})
    session = world.processor.fetch_sessions.resume_session(
        consumer.session_id, consumer.epoch, by_id=consumer.version == BY_ID
    )
    assert not isinstance(session, ErrorCode)
    assert [bytes(target.records) for target in session.partitions.values()] == [b""]
    assert world.processor.fetch_memory.reserved_bytes == 0
