"""Incremental fetch sessions: epochs, answers, order, topics that come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchResponse
from barnabas_gateway.core.model.containment import CONNECTION, REQUEST
from barnabas_gateway.core.requests.fetch import PendingFetch
from tests.unit.gateway.sessions.consumer import BY_ID, BY_NAME, OTHER_ID, Consumer, answer_empty, answer_read, key
from tests.unit.gateway.world import TOPIC_ID, World, topic

# --- epochs ---


def test_a_session_begins_with_a_full_answer_and_goes_on_with_news(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10, 1: 10})
    assert consumer.returned() == {key(consumer, 0): (0, b""), key(consumer, 1): (0, b"")}
    consumer.next(max_wait_ms=0)
    assert answer_read(world.logstore) == [0, 1]
    assert (consumer.returned(), consumer.answer.session_id) == ({}, consumer.session_id)
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore, {1: b"batch"})
    assert consumer.returned() == {key(consumer, 1): (0, b"batch")}


@pytest.mark.parametrize("field", ["high_watermark", "last_stable_offset", "log_start_offset"])
def test_offsets_that_moved_are_news_once(world: World, consumer: Consumer, field: str) -> None:
    consumer.begin({0: 10})
    for expected in ({key(consumer, 0): (0, b"")}, {}):
        consumer.next(max_wait_ms=0)
        answer_read(world.logstore, None, **{field: 9})
        assert consumer.returned() == expected


def test_errors_are_reported_each_time_and_their_end_too(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    error = ErrorCode.OFFSET_OUT_OF_RANGE
    for _ in range(2):
        consumer.next(max_wait_ms=0)
        answer_read(world.logstore, error_code=error)
        assert consumer.returned() == {key(consumer, 0): (error, b"")}
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore)
    assert consumer.returned() == {key(consumer, 0): (0, b"")}


def test_partitions_are_added_changed_and_forgotten(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10, 1: 10})
    consumer.next({2: 7, 0: 8}, max_wait_ms=0)
    assert [(each.partition, each.fetch_offset) for each in world.logstore.reads[0].partitions] == [
        (0, 8),
        (1, 10),
        (2, 7),
    ]
    answer_read(world.logstore)
    assert consumer.returned() == {key(consumer, 2): (0, b"")}
    consumer.next(forget=(0, 2, 9), max_wait_ms=0)
    assert answer_read(world.logstore) == [1]


def test_a_session_without_partitions_ends(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next(forget=(0,))
    assert (consumer.answer.session_id, consumer.answer.error_code, consumer.returned()) == (0, 0, {})
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
    assert consumer.returned() == {key(consumer, 1): (0, b"")}
    assert (consumer.answer.session_id > old) == (epoch == 0)
    consumer.epoch = 1
    consumer.poll()
    assert consumer.answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_epoch_wraps_to_one(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    session = world.processor.fetch_sessions.resume_session(consumer.session_id, 1, by_id=consumer.version == BY_ID)
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
    assert consumer.returned() == {key(consumer, 0): (0, b"batch")}


def failing_once(*, is_done: bool) -> Callable[[PendingFetch], None]:
    """Return a `PendingFetch.cancel` whose first call raises; `is_done`: behind the work."""
    cancel = PendingFetch.cancel
    calls: list[PendingFetch] = []

    def call(pending: PendingFetch) -> None:
        calls.append(pending)
        is_first = len(calls) == 1
        if is_done or not is_first:
            cancel(pending)
        if is_first:
            raise RuntimeError("planted")

    return call


def test_what_the_end_of_an_overtaken_request_raises_is_answered_by_that_request(
    world: World, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for one about the request that overtakes, and the other one, before it in line, had no answer."""
    world.expects_fault = True
    consumer.begin({0: 10})
    consumer.next()
    with monkeypatch.context() as planted:
        planted.setattr(PendingFetch, "cancel", failing_once(is_done=True))
        consumer.next({0: 11}, max_wait_ms=0)
    assert consumer.answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [each.place for each in world.contained] == [REQUEST]
    answer_empty(world)
    assert consumer.answer.error_code == ErrorCode.NONE
    assert [answer.error_code for answer in consumer.client.answers[-2:]] == [-1, 0]


def test_a_request_whose_connection_closes_as_it_overtakes_leaves_nothing(
    world: World, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the one before closed the connection that both were on, and the next one went on for a client that
    was gone: it read, and a read that waited for memory ended the processor (seed 67 with exceptions).
    """

    def can_not_end(pending: PendingFetch, error: Exception) -> None:
        raise RuntimeError("planted")

    world.expects_fault = True
    consumer.begin({0: 10})
    consumer.next()
    with monkeypatch.context() as planted:
        planted.setattr(PendingFetch, "cancel", failing_once(is_done=False))
        planted.setattr(world.processor.connections, "request_failed", can_not_end)
        consumer.next({0: 11})
    assert consumer.client.is_closed
    assert [each.place for each in world.contained] == [CONNECTION]
    memory = world.processor.fetch_memory
    assert (memory.reserved_bytes, memory.unsent_bytes) == (0, 0)
    world.now_ms += world.processor.config.read_wait_ms_max
    world.turn()
    assert [each.place for each in world.contained] == [CONNECTION], "its deadline had passed"


def test_another_connection_may_go_on_with_the_session(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.client.close()
    consumer.client = world.client()
    consumer.next(max_wait_ms=0)
    answer_read(world.logstore, {0: b"batch"})
    assert consumer.returned() == {key(consumer, 0): (0, b"batch")}


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
    refused = {("t", 0): (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")}
    assert (consumer.returned(), consumer.answer.session_id) == (refused, 0)


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
        (served_now,) = [partition for (_, partition), (_, records) in consumer.returned().items() if records]
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
    assert [error for error, _ in consumer.returned().values()] == [unknown]
    world.update(topic(), topic("new", OTHER_ID))
    consumer.next(max_wait_ms=0)
    assert [each.topic_id for each in world.logstore.reads[0].partitions] == [TOPIC_ID, OTHER_ID]
    answer_read(world.logstore)
    assert list(consumer.returned().values()) == [(0, b"")]


def test_unknown_topics_do_not_end_a_long_poll_and_are_reported_after_it(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next({0: 0}, name="unknown")
    answer_read(world.logstore)
    for _ in range(2):
        answers = len(consumer.client.answers)
        world.pass_ms(400)
        assert len(consumer.client.answers) == answers
        world.pass_ms(200)
        assert [error for error, _ in consumer.returned().values()] != [0]
        assert len(consumer.returned()) == 1
        consumer.next()
    world.pass_ms(600)
    consumer.next(max_wait_ms=0)
    assert len(consumer.returned()) == 1
    assert not world.logstore.reads


def test_a_deleted_topic_and_its_successor(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    world.update(topic("other", OTHER_ID))
    consumer.next(max_wait_ms=0)
    assert consumer.returned() == {key(consumer, 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b"")}
    world.update(topic("t", OTHER_ID))
    consumer.next(max_wait_ms=0)
    if consumer.version == BY_ID:
        assert consumer.returned() == {key(consumer, 0): (ErrorCode.INCONSISTENT_TOPIC_ID, b"")}
    else:
        assert world.logstore.reads[0].partitions[0].topic_id == OTHER_ID
        answer_read(world.logstore, {0: b"new"})
        assert consumer.returned() == {("t", 0): (0, b"new")}


def test_a_partition_that_appears(world: World, consumer: Consumer) -> None:
    consumer.begin({0: 10})
    consumer.next({5: 0}, max_wait_ms=0)
    answer_read(world.logstore)
    assert consumer.returned() == {key(consumer, 5): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b"")}
    world.update(topic(leaders=(1,) * 6))
    consumer.next(max_wait_ms=0)
    assert answer_read(world.logstore, {5: b"batch"}) == [0, 5]
    assert consumer.returned() == {key(consumer, 5): (0, b"batch")}
