"""Incremental fetch sessions: epochs, what is told, order, room, topics that come and go, and the wait that stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from barnabas.channel.messages import Outcome, ReadPartitionResult, ReadPiece, ReadResponse
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from services.gateway.core.fetch_sessions import FetchSessions
from services.gateway.core.fetch_target import FetchKey, FetchTarget
from tests.unit.gateway.world import TOPIC_ID, Client, ScriptedLogstore, World, topic

BY_NAME, BY_ID = 12, 16
OTHER_ID = b"fedcba9876543210"


@dataclass
class Consumer:
    """A client that fetches in a session, by name or by id."""

    client: Client
    version: int = BY_NAME
    session_id: int = 0
    epoch: int = 0
    ids: dict[str, bytes] = field(default_factory=lambda: {"t": TOPIC_ID})

    def poll(
        self,
        partitions: dict[int, int] | None = None,
        *,
        name: str = "t",
        forget: tuple[int, ...] = (),
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        **fields: Any,
    ) -> None:
        """Fetch these partitions, by offset, beside what the session has."""
        asked = [
            FetchPartition(index, -1, offset, partition_max_bytes=1 << 20)
            for index, offset in (partitions or {}).items()
        ]
        topic_id = self.ids.get(name, bytes(16))
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(name, topic_id, asked)] if asked else [],
            forgotten_topics_data=[ForgottenTopic(name, topic_id, list(forget))] if forget else [],
            **fields,
        )
        self.client.ask(request, ApiKey.FETCH, self.version)

    @property
    def answer(self) -> FetchResponse:
        answer = self.client.answers[-1]
        assert isinstance(answer, FetchResponse)
        return answer

    def begin(self, partitions: dict[int, int], **fields: Any) -> None:
        """A full fetch that is answered at once, and the session that it begins."""
        self.epoch = 0
        self.poll(partitions, max_wait_ms=0, **fields)
        answer_empty(self.client.world)
        self.session_id, self.epoch = self.answer.session_id, 1
        assert self.session_id > 0

    def next(self, partitions: dict[int, int] | None = None, **fields: Any) -> None:
        """The session's next fetch."""
        self.poll(partitions, **fields)
        self.epoch += 1

    def told(self) -> dict[tuple[str | bytes, int], tuple[int, bytes]]:
        """Error and records by partition."""
        return {
            (each.topic_id if self.version >= 13 else each.topic, one.partition_index): (
                one.error_code,
                bytes(one.records or b""),
            )
            for each in self.answer.responses
            for one in each.partitions
        }


def answer_read(logstore: ScriptedLogstore, records: dict[int, bytes] | None = None, **result: Any) -> list[int]:
    """Answer the oldest read with records by partition; the partitions that it was about, in its order."""
    read = logstore.reads.pop(0)
    known = {"high_watermark": 10, "last_stable_offset": 10, "log_start_offset": 0, "leader_epoch": 5}
    results = [
        ReadPartitionResult(index, records=(records or {}).get(asked.partition, b""), **(known | result))
        for index, asked in enumerate(read.partitions)
    ]
    piece = ReadPiece(read.request_id, True, results)
    logstore.world.processor.read_response(logstore.node_id, ReadResponse(pieces=[piece]), logstore.world.now_ms)
    logstore.world.turn()
    return [asked.partition for asked in read.partitions]


def answer_empty(world: World) -> None:
    for logstore in world.logstores.values():
        while logstore.reads:
            answer_read(logstore)


@pytest.fixture
def world() -> World:
    return World(topic(leaders=(1, 1, 1)), pods=("pod-0",))


@pytest.fixture(params=[BY_NAME, BY_ID])
def consumer(world: World, request: pytest.FixtureRequest) -> Consumer:
    return Consumer(world.client(), request.param)


def key(consumer: Consumer, partition: int) -> tuple[str | bytes, int]:
    return (TOPIC_ID if consumer.version == BY_ID else "t", partition)


# --- epochs ---


def test_a_session_begins_with_a_full_answer_and_goes_on_with_news(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10, 1: 10})
    assert consumer.told() == {key(consumer, 0): (0, b""), key(consumer, 1): (0, b"")}
    consumer.next(max_wait_ms=0)
    assert answer_read(world.logstore) == [0, 1]
    assert (consumer.told(), consumer.answer.session_id) == ({}, consumer.session_id)
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore, {1: b"batch"})
    assert consumer.told() == {key(consumer, 1): (0, b"batch")}


@pytest.mark.parametrize("field", ["high_watermark", "last_stable_offset", "log_start_offset"])
def test_offsets_that_moved_are_news_once(world: World, consumer: Consumer, field: str) -> None:
    consumer.begin({0: 10})
    for expected in ({key(consumer, 0): (0, b"")}, {}):
        consumer.next(max_wait_ms=0)
        answer_read(world.logstore, None, **{field: 9})
        assert consumer.told() == expected


def test_errors_are_told_each_time_and_their_end_too(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    error = ErrorCode.OFFSET_OUT_OF_RANGE
    for _ in range(2):
        consumer.next(max_wait_ms=0)
        answer_read(world.logstore, error_code=error)
        assert consumer.told() == {key(consumer, 0): (error, b"")}
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore)
    assert consumer.told() == {key(consumer, 0): (0, b"")}


def test_partitions_are_added_changed_and_forgotten(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10, 1: 10})
    consumer.next({2: 7, 0: 8}, max_wait_ms=0)
    assert [(each.partition, each.fetch_offset) for each in world.logstore.reads[0].partitions] == [
        (0, 8),
        (1, 10),
        (2, 7),
    ]
    answer_read(world.logstore)
    assert consumer.told() == {key(consumer, 2): (0, b"")}
    consumer.next(forget=(0, 2, 9), max_wait_ms=0)
    assert answer_read(world.logstore) == [1]


def test_a_session_without_partitions_ends(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next(forget=(0,))
    assert (consumer.answer.session_id, consumer.answer.error_code, consumer.told()) == (0, 0, {})
    consumer.next({0: 10})
    assert consumer.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_errors_of_the_session_itself(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    session_id, epoch = consumer.session_id, consumer.epoch
    for other_epoch in (epoch + 1, -2, 2**31 - 1):
        consumer.epoch = other_epoch
        consumer.poll()
        assert consumer.answer == FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    consumer.session_id, consumer.epoch = 99, epoch
    consumer.poll()
    assert consumer.answer == FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    consumer.session_id = session_id
    consumer.version = BY_ID + BY_NAME - consumer.version
    consumer.poll()
    assert consumer.answer == FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    consumer.version = BY_ID + BY_NAME - consumer.version
    consumer.next(max_wait_ms=0)
    assert answer_read(world.logstore) == [0], "the session has suffered nothing by all this"


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_closes_the_session_that_it_names(world: World, consumer: Consumer, epoch: int) -> None:
    consumer.begin({0: 10})
    old, consumer.epoch = consumer.session_id, epoch
    consumer.poll({1: 10}, max_wait_ms=0)
    answer_read(world.logstore)
    assert consumer.told() == {key(consumer, 1): (0, b"")}
    assert (consumer.answer.session_id > old) == (epoch == 0)
    consumer.epoch = 1
    consumer.poll()
    assert consumer.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_epoch_wraps_to_one(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    session = world.processor.fetch_sessions.resume(consumer.session_id, 1, by_id=consumer.version == BY_ID)
    assert not isinstance(session, ErrorCode)
    session.epoch = consumer.epoch = 2**31 - 1
    consumer.poll(max_wait_ms=0)
    answer_read(world.logstore)
    consumer.epoch = 1
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore)
    assert consumer.answer.error_code == 0


def test_a_request_that_overtakes_ends_the_one_before(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next()
    consumer.next({0: 11}, max_wait_ms=0)
    assert consumer.answer == FetchResponse(
        error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=consumer.session_id
    )
    assert world.logstore.cancels == [world.logstore.reads.pop(0).request_id]
    answer_read(world.logstore, {0: b"batch"})
    assert consumer.told() == {key(consumer, 0): (0, b"batch")}


def test_another_connection_may_go_on_with_the_session(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.client.close()
    consumer.client = world.client()
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore, {0: b"batch"})
    assert consumer.told() == {key(consumer, 0): (0, b"batch")}


def test_a_session_whose_client_goes_while_it_waits_can_be_gone_on_with(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next()
    consumer.client.close()
    assert world.logstore.cancels == [world.logstore.reads.pop(0).request_id]
    consumer.client = world.client()
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore)
    assert consumer.answer.error_code == 0


@pytest.mark.parametrize("version", range(4, 7))
def test_versions_without_sessions_get_none(world: World, version: int) -> None:
    client = world.client()
    client.fetch(0, version=version)
    world.logstore.read_result(b"batch")
    assert client.answers[0].session_id == 0
    assert len(world.processor.fetch_sessions) == 0


def test_replicas_get_no_session(world: World) -> None:
    consumer = Consumer(world.client())
    consumer.poll({0: 10}, replica_id=3)
    assert (consumer.told(), consumer.answer.session_id) == ({("t", 0): (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")}, 0)


# --- fairness ---


def test_partitions_with_records_go_to_the_end(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 0, 1: 0, 2: 0})
    consumer.next(max_wait_ms=0)
    assert answer_read(world.logstore, {0: b"batch"}) == [0, 1, 2]
    consumer.next({0: 5}, max_wait_ms=0)
    assert answer_read(world.logstore, {1: b"batch", 2: b"batch"}) == [1, 2, 0]
    consumer.next({1: 5, 2: 5}, max_wait_ms=0)
    assert answer_read(world.logstore) == [0, 1, 2]


def test_no_partition_starves_when_one_batch_is_all_that_fits() -> None:
    world = World(topic(leaders=(1, 2, 1)), nodes=(1, 2))
    consumer = Consumer(world.client())
    consumer.begin({0: 0, 1: 0, 2: 0})
    served = []
    for _ in range(6):
        consumer.next(max_wait_ms=0, max_bytes=1)
        for logstore in world.logstores.values():
            first = logstore.reads[0].partitions[0].partition
            answer_read(logstore, {first: b"a large batch"})
        (served_now,) = [partition for (_, partition), (_, records) in consumer.told().items() if records]
        served.append(served_now)
    assert sorted(served[:3]) == [0, 1, 2]
    assert served[3:] == served[:3]


# --- topics that come and go ---


def test_a_topic_that_appears_is_read_from_the_next_request_on(world: World, consumer: Consumer) -> None:
    consumer.ids["new"] = OTHER_ID
    consumer.begin({0: 10})
    consumer.next({0: 0}, name="new", max_wait_ms=0)
    answer_read(world.logstore)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if consumer.version == BY_ID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [error for error, _ in consumer.told().values()] == [unknown]
    world.update(topic(), topic("new", OTHER_ID))
    consumer.next(max_wait_ms=0)
    assert [each.topic_id for each in world.logstore.reads[0].partitions] == [TOPIC_ID, OTHER_ID]
    answer_read(world.logstore)
    assert list(consumer.told().values()) == [(0, b"")]


def test_unknown_topics_do_not_end_a_long_poll_and_are_told_after_it(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next({0: 0}, name="unknown")
    answer_read(world.logstore)
    for _ in range(2):
        answers = len(consumer.client.answers)
        world.pass_ms(400)
        assert len(consumer.client.answers) == answers
        world.pass_ms(200)
        assert [error for error, _ in consumer.told().values()] != [0]
        assert len(consumer.told()) == 1
        consumer.next()
    world.pass_ms(600)
    consumer.next(max_wait_ms=0)
    assert len(consumer.told()) == 1
    assert not world.logstore.reads


def test_a_deleted_topic_and_its_successor(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    world.update(topic("other", OTHER_ID))
    consumer.next(max_wait_ms=0)
    assert consumer.told() == {key(consumer, 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b"")}
    world.update(topic("t", OTHER_ID))
    consumer.next(max_wait_ms=0)
    if consumer.version == BY_ID:
        assert consumer.told() == {key(consumer, 0): (ErrorCode.INCONSISTENT_TOPIC_ID, b"")}
    else:
        assert world.logstore.reads[0].partitions[0].topic_id == OTHER_ID
        answer_read(world.logstore, {0: b"new"})
        assert consumer.told() == {("t", 0): (0, b"new")}


def test_a_partition_that_appears(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next({5: 0}, max_wait_ms=0)
    answer_read(world.logstore)
    assert consumer.told() == {key(consumer, 5): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b"")}
    world.update(topic(leaders=(1,) * 6))
    consumer.next(max_wait_ms=0)
    assert answer_read(world.logstore, {5: b"batch"}) == [0, 5]
    assert consumer.told() == {key(consumer, 5): (0, b"batch")}


# --- the wait that stands ---


def idle(world: World, consumer: Consumer) -> None:
    """A session that has found nothing and has waited for it in vain."""
    consumer.begin({0: 10, 1: 10})
    consumer.next()
    answer_empty(world)
    world.pass_ms(600)
    assert consumer.told() == {}


def test_an_idle_session_parks_once_for_many_polls(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    for _ in range(5):
        consumer.next()
        world.pass_ms(600)
        assert (consumer.told(), consumer.answer.session_id) == ({}, consumer.session_id)
    assert len(world.pod.fetches) == 1
    assert not world.logstore.reads
    assert not world.pod.cancels


def test_what_ends_a_standing_wait_ends_the_poll_that_has_taken_it_up(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    consumer.next()
    world.pod.complete(world.pod.fetches[0].entry_id, Outcome.SATISFIED)
    assert answer_read(world.logstore, {1: b"batch"}) == [0, 1]
    assert consumer.told() == {key(consumer, 1): (0, b"batch")}
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
    assert consumer.told() == {key(consumer, 1): (0, b"batch")}


def test_a_poll_without_time_is_answered_from_the_wait(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    consumer.next(max_wait_ms=0)
    assert consumer.told() == {}
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
    assert list(consumer.told()) == [key(consumer, 0), key(consumer, 1)]


def test_a_lost_pod_has_the_poll_read(world: World, consumer: Consumer) -> None:
    idle(world, consumer)
    consumer.next()
    world.pod.down()
    assert answer_read(world.logstore, {0: b"batch"}) == [0, 1]
    assert consumer.told() == {key(consumer, 0): (0, b"batch")}


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
    assert consumer.told() == {}
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
    assert (consumer.told(), consumer.answer.error_code) == ({}, 0)
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
    assert consumer.told() == {}
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
    session = world.processor.fetch_sessions.resume(
        consumer.session_id, consumer.epoch, by_id=consumer.version == BY_ID
    )
    assert not isinstance(session, ErrorCode)
    assert [bytes(target.records) for target in session.partitions.values()] == [b""]
    assert world.processor.fetch_memory.reserved_bytes == 0


# --- room ---


def partitions_of(size: int) -> dict[FetchKey, FetchTarget]:
    return {("t", index): FetchTarget("t", TOPIC_ID, FetchPartition(index)) for index in range(size)}


class Cache:
    def __init__(self, slots: int = 3, partitions: int = 100) -> None:
        self.sessions = FetchSessions(slots, partitions, 1_000, count(1).__next__)

    def create(self, size: int, now_ms: int) -> int:
        """The new session's id, 0 without one."""
        session = self.sessions.create(partitions_of(size), by_id=False, now_ms=now_ms)
        return 0 if session is None else session.session_id

    def use(self, session_id: int, now_ms: int, epoch: int = 1, grown_to: int = 0) -> bool:
        session = self.sessions.resume(session_id, epoch, by_id=False)
        assert not isinstance(session, ErrorCode)
        session.partitions.update(partitions_of(grown_to))
        return self.sessions.advance(session, now_ms)

    def has(self, session_id: int) -> bool:
        return self.sessions.resume(session_id, -7, by_id=False) is not ErrorCode.FETCH_SESSION_ID_NOT_FOUND


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
    session = cache.sessions.resume(1, 1, by_id=False)
    assert not isinstance(session, ErrorCode)
    session.update([], [ForgottenTopic("t", partitions=list(range(8)))])
    assert cache.sessions.advance(session, 1)
    assert cache.sessions.partitions == 2
    assert cache.create(8, 1) == 2


def test_an_id_in_use_is_not_given_again() -> None:
    ids = iter([7, 7, 7, 8])
    sessions = FetchSessions(10, 10, 1_000, ids.__next__)
    assert sessions.create(partitions_of(1), by_id=True, now_ms=0) is not None
    second = sessions.create(partitions_of(1), by_id=True, now_ms=0)
    assert second is not None
    assert second.session_id == 8


def test_a_client_in_a_session_that_outgrows_the_room_begins_anew() -> None:
    world = World(topic(leaders=(1,) * 5), fetch_session_partitions_max=3)
    consumer = Consumer(world.client())
    consumer.begin({0: 0, 1: 0})
    consumer.next({2: 0, 3: 0})
    assert consumer.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    consumer.session_id, consumer.epoch = 0, 0
    consumer.poll(dict.fromkeys(range(4), 0), max_wait_ms=0)
    answer_empty(world)
    assert (consumer.answer.session_id, len(consumer.told())) == (0, 4)
