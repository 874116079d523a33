"""Incremental fetch sessions: how many there are, and who makes room for whom."""

from __future__ import annotations

from itertools import count

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, ForgottenTopic
from barnabas_gateway.core.model.fetch_target import FetchKey, FetchTarget
from barnabas_gateway.core.requests.fetch_sessions import FetchSessions
from tests.unit.gateway.sessions.consumer import Consumer, answer_empty
from tests.unit.gateway.world import TOPIC_ID, World, topic


def partitions_of(size: int) -> dict[FetchKey, FetchTarget]:
    return {("t", index): FetchTarget("t", TOPIC_ID, FetchPartition(index)) for index in range(size)}


class Cache:
    def __init__(self, slots: int = 3, partitions: int = 100) -> None:
        self.sessions = FetchSessions(slots, partitions, 1_000, count(1).__next__)

    def create(self, size: int, now_ms: int) -> int:
        """The new session's id, 0 without one."""
        session = self.sessions.create_session(partitions_of(size), by_id=False, now_ms=now_ms)
        return 0 if session is None else session.session_id

    def use(self, session_id: int, now_ms: int, epoch: int = 1, grown_to: int = 0) -> bool:
        session = self.sessions.resume_session(session_id, epoch, by_id=False)
        assert not isinstance(session, ErrorCode)
        session.partitions.update(partitions_of(grown_to))
        return self.sessions.advance_session(session, now_ms)

    def has(self, session_id: int) -> bool:
        return self.sessions.resume_session(session_id, -7, by_id=False) is not ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_without_room_there_is_no_session_until_one_is_stale() -> None:
    cache = Cache()
    assert [cache.create(5, now_ms) for now_ms in (0, 10, 20)] == [1, 2, 3]
    assert cache.create(50, 1_000) == 0
    cache.use(1, 900)
    assert cache.create(1, 1_011) == 4
    assert [cache.has(session_id) for session_id in (1, 2, 3, 4)] == [True, False, True, True]


def test_a_larger_session_takes_the_place_of_the_smallest_that_is_not_new() -> None:
    cache = Cache()
    for size in (5, 4, 6):
        cache.create(size, 0)
    for session_id in (1, 2, 3):
        cache.use(session_id, 900)
    assert cache.create(4, 1_001) == 0, "it is not larger"
    assert cache.create(5, 1_001) == 4
    assert not cache.has(2)
    assert cache.create(90, 1_001) == 5
    assert [cache.has(session_id) for session_id in (1, 3, 4)] == [False, False, True], "as many as it takes"


def test_partitions_are_bounded_too() -> None:
    cache = Cache(partitions=10)
    assert cache.create(11, 0) == 0
    assert (cache.create(6, 0), cache.create(4, 0)) == (1, 2)
    assert cache.sessions.partitions == 10
    assert cache.create(1, 0) == 0
    assert cache.create(9, 1_001) == 3
    assert (len(cache.sessions), cache.sessions.partitions) == (1, 9)
    assert not cache.use(3, 1_001, grown_to=11), "a session that outgrows the room ends"
    assert (len(cache.sessions), cache.sessions.partitions) == (0, 0)


def test_a_session_that_shrinks_makes_room() -> None:
    cache = Cache(partitions=10)
    cache.create(10, 0)
    session = cache.sessions.resume_session(1, 1, by_id=False)
    assert not isinstance(session, ErrorCode)
    for _ in session.update_partitions([], [ForgottenTopic("t", partitions=list(range(8)))]):
        pass
    assert cache.sessions.advance_session(session, 1)
    assert cache.sessions.partitions == 2
    assert cache.create(8, 1) == 2


def test_an_id_in_use_is_not_given_again() -> None:
    ids = iter([7, 7, 7, 8])
    sessions = FetchSessions(10, 10, 1_000, ids.__next__)
    assert sessions.create_session(partitions_of(1), by_id=True, now_ms=0) is not None
    second = sessions.create_session(partitions_of(1), by_id=True, now_ms=0)
    assert second is not None
    assert second.session_id == 8


def test_a_client_in_a_session_that_outgrows_the_room_starts_over() -> None:
    world = World(topic(leaders=(1,) * 5), fetch_session_partitions_max=3)
    consumer = Consumer(world.client())
    consumer.begin({0: 0, 1: 0})
    consumer.next({2: 0, 3: 0})
    assert consumer.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    consumer.session_id, consumer.epoch = 0, 0
    consumer.poll(dict.fromkeys(range(4), 0), max_wait_ms=0)
    answer_empty(world)
    assert (consumer.answer.session_id, len(consumer.returned())) == (0, 4)
