"""Produce of transactional batches: the coordinator confirms the partition, then they are appended in their order."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.transaction_families import VERIFICATION_FAILURES, VERIFICATION_TIME
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.record_batch import Record, build_batch
from barnabas_gateway.core.backends.transaction_verifier import RETRY_MS, RETRY_MS_MAX
from tests.unit.gateway.world import Client, World, topic

GUARD = 77
ABORTABLE_FROM, ADDS_FROM = 11, 12
NONE = ErrorCode.NONE


def transactional(sequence: int) -> bytes:
    record = Record(b"k", b"v", 1)
    return build_batch([record], producer_id=9, producer_epoch=3, base_sequence=sequence, is_transactional=True)


def world_of(*, state_leader: int = 1) -> World:
    return World(topic("t"), topic(TRANSACTION_STATE_TOPIC, b"transaction stat", (state_leader,)))


def produce(client: Client, sequence: int, *, version: int = ADDS_FROM, transactional_id: str | None = "tx") -> None:
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, transactional(sequence))])]
    client.ask(ProduceRequest(transactional_id, -1, 30_000, data), ApiKey.PRODUCE, version)


def send_back(world: World, *, guard: int = GUARD) -> None:
    world.logstore.append_result(error_code=int(ErrorCode.INVALID_TXN_STATE), verification_guard=guard)


def answer(world: World, error: ErrorCode = NONE) -> None:
    results = [AddPartitionsToTxnPartitionResult(0, error)]
    of_transaction = AddPartitionsToTxnResult("tx", [AddPartitionsToTxnTopicResult("t", results)])
    world.logstore.group_answer(AddPartitionsToTxnResponse(results_by_transaction=[of_transaction]))


def sequences(world: World) -> list[int]:
    return [int.from_bytes(bytes(append.records[53:57]), "big") for append in world.logstore.appends]


@pytest.mark.parametrize(("version", "adds"), [(ABORTABLE_FROM, False), (ADDS_FROM, True)])
def test_the_first_batch_waits_for_the_coordinator(version: int, adds: bool) -> None:
    world = world_of()
    client = world.client()
    produce(client, 0, version=version)
    (append,) = world.logstore.appends
    assert (append.verification_guard, append.supports_epoch_bump) == (0, adds)
    send_back(world)
    asked = world.logstore.group_request().transactions[0]
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("tx", 9, 3)
    assert asked.verify_only is not adds
    assert [(each.name, each.partitions) for each in asked.topics] == [("t", [0])]
    assert client.answers == []
    answer(world)
    (append,) = world.logstore.appends
    assert append.verification_guard == GUARD
    world.logstore.append_result(committed=True)
    assert client.error_codes() == [[NONE]]


def test_later_batches_keep_their_order_while_it_waits() -> None:
    world = world_of()
    client = world.client()
    for sequence in (5, 6, 7):
        produce(client, sequence)
    assert sequences(world) == [5, 6, 7]
    send_back(world)
    answer(world)
    assert sequences(world) == [6, 7], "what is on its way may still come back"
    send_back(world)
    send_back(world)
    produce(client, 8)
    answer(world)
    assert sequences(world) == []
    answer(world)
    for sequence in (5, 6, 7, 8):
        assert sequences(world)[0] == sequence
        world.logstore.append_result(committed=True)
    assert client.error_codes() == [[NONE]] * 4


@pytest.mark.parametrize(
    ("error", "version", "reported"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ABORTABLE_FROM, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, ABORTABLE_FROM - 1, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, ADDS_FROM, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ADDS_FROM, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ABORTABLE_FROM, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, ADDS_FROM, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_the_coordinator_refuses_is_not_appended(error: ErrorCode, version: int, reported: ErrorCode) -> None:
    world = world_of()
    client = world.client()
    produce(client, 0, version=version)
    send_back(world)
    answer(world, error)
    assert client.error_codes() == [[reported]]
    assert not world.logstore.appends
    produce(client, 0, version=version)
    assert sequences(world) == [0], "the client may try again"


def test_a_coordinator_that_still_ends_the_last_transaction_is_asked_again() -> None:
    world = world_of()
    client = world.client()
    produce(client, 0)
    send_back(world)
    answer(world, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert client.answers == []
    world.pass_ms(RETRY_MS + 100)
    answer(world)
    world.logstore.append_result(committed=True)
    assert client.error_codes() == [[NONE]]


def test_it_is_not_asked_for_ever() -> None:
    world = world_of()
    client = world.client()
    produce(client, 0)
    send_back(world)
    world.pass_ms(RETRY_MS_MAX)
    answer(world, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert client.error_codes() == [[ErrorCode.NOT_ENOUGH_REPLICAS]]


def test_no_coordinator() -> None:
    world = world_of(state_leader=-1)
    client = world.client()
    produce(client, 0)
    send_back(world)
    assert client.error_codes() == [[ErrorCode.NOT_ENOUGH_REPLICAS]]


def test_a_coordinator_that_is_lost_or_silent() -> None:
    for lose in (lambda world: world.processor.coordinate_down(1, world.now_ms), lambda world: world.pass_ms(6_000)):
        world = world_of()
        client = world.client()
        produce(client, 0)
        send_back(world)
        lose(world)
        world.turn()
        assert client.error_codes() == [[ErrorCode.NOT_ENOUGH_REPLICAS]]


def test_a_guard_is_of_the_leader_that_gave_it() -> None:
    world = world_of()
    client = world.client()
    produce(client, 0)
    send_back(world)
    changes: Any = topic("t", epoch=6)
    world.update(changes)
    answer(world)
    (append,) = world.logstore.appends
    assert (append.leader_epoch, append.verification_guard) == (6, 0)


def test_a_closed_connection_leaves_nothing_behind() -> None:
    world = world_of()
    client = world.client()
    produce(client, 0)
    send_back(world)
    client.close()
    answer(world)
    assert not world.logstore.appends


def test_transactional_records_need_a_transactional_id() -> None:
    world = world_of()
    client = world.client()
    produce(client, 0, transactional_id=None)
    assert client.error_codes() == [[ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]]


def produce_to(client: Client, *partitions: int) -> None:
    data = [PartitionProduceData(each, transactional(0)) for each in partitions]
    client.ask(ProduceRequest("tx", -1, 30_000, [TopicProduceData("t", partition_data=data)]), ApiKey.PRODUCE, 12)


def answer_each(world: World, errors: dict[int, ErrorCode]) -> None:
    results = [AddPartitionsToTxnPartitionResult(*each) for each in errors.items()]
    of_transaction = AddPartitionsToTxnResult("tx", [AddPartitionsToTxnTopicResult("t", results)])
    world.logstore.group_answer(AddPartitionsToTxnResponse(results_by_transaction=[of_transaction]))


def world_of_partitions(count: int) -> World:
    return World(topic("t", leaders=(1,) * count), topic(TRANSACTION_STATE_TOPIC, b"transaction stat", (1,)))


def asked_partitions(world: World) -> list[int]:
    (asked,) = world.logstore.group_request().transactions
    return [partition for each in asked.topics for partition in each.partitions]


def send_all_back(world: World, count: int) -> None:
    """In one message, as the leader answers what came in one."""
    world.logstore.append_results(count, error_code=int(ErrorCode.INVALID_TXN_STATE), verification_guard=GUARD)


def test_one_call_asks_about_all_partitions_of_a_turn() -> None:
    world = world_of_partitions(10)
    client = world.client()
    produce_to(client, *range(10))
    send_all_back(world, 10)
    assert len(world.logstore.group_calls) == 1
    assert asked_partitions(world) == list(range(10))
    answer_each(world, dict.fromkeys(range(10), NONE))
    assert [each.verification_guard for each in world.logstore.appends] == [GUARD] * 10


def test_a_partition_that_the_coordinator_does_not_know_takes_no_other_with_it() -> None:
    world = world_of_partitions(3)
    client = world.client()
    produce_to(client, 0, 1, 2)
    send_all_back(world, 3)
    left_out = ErrorCode.OPERATION_NOT_ATTEMPTED
    answer_each(world, {0: left_out, 1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 2: left_out})
    assert asked_partitions(world) == [0, 2]
    answer_each(world, {0: NONE, 2: NONE})
    assert len(world.logstore.appends) == 2
    for _ in range(2):
        world.logstore.append_result(committed=True)
    assert client.error_codes() == [[NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE]]


def test_a_coordinator_that_adds_nothing_is_not_asked_for_ever() -> None:
    world = world_of_partitions(2)
    client = world.client()
    produce_to(client, 0, 1)
    send_all_back(world, 2)
    answer_each(world, dict.fromkeys(range(2), ErrorCode.OPERATION_NOT_ATTEMPTED))
    assert not world.logstore.group_calls
    assert client.error_codes() == [[ErrorCode.OPERATION_NOT_ATTEMPTED] * 2]


def measured(world: World) -> tuple[int, int, int]:
    """How many verifications, milliseconds of all together, and failures."""
    samples = {each.family: each.value for each in world.processor.verifier.samples()}
    times = samples[VERIFICATION_TIME]
    assert isinstance(times, Histogram)
    return times.count, times.sum // 1000, int(samples[VERIFICATION_FAILURES])


def test_the_time_of_a_verification_is_measured_to_its_end() -> None:
    world = world_of()
    client = world.client()
    produce(client, 0)
    send_back(world)
    world.pass_ms(7)
    answer(world, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert measured(world) == (0, 0, 0), "it is asked again"
    world.pass_ms(2 * RETRY_MS)
    answer(world)
    assert measured(world) == (1, 7 + 2 * RETRY_MS, 0)


@pytest.mark.parametrize(("error", "failures"), [(NONE, 0), (ErrorCode.INVALID_PRODUCER_EPOCH, 1)])
def test_a_partition_that_is_refused_is_a_failure(error: ErrorCode, failures: int) -> None:
    world = world_of()
    produce(world.client(), 0)
    send_back(world)
    answer(world, error)
    assert measured(world) == (1, 0, failures)


def test_without_a_coordinator_a_verification_has_failed() -> None:
    world = world_of(state_leader=-1)
    produce(world.client(), 0)
    send_back(world)
    assert measured(world) == (1, 0, 1)
