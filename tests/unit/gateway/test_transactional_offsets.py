"""TxnOffsetCommit: the transaction's coordinator confirms the group's partition, then the group's keeps the offsets."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import CoordinateResponse, GroupAnswer
from barnabas.cluster.acls import ResourceType
from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas_gateway.core.backends import transaction_verifier
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient
from barnabas_gateway.core.handlers.api_28_txn_offset_commit import PendingTxnOffsetCommit
from barnabas_gateway.core.model.containment import REQUEST, VERIFICATION
from barnabas_gateway.core.requests.group_request import GROUP_CALL_ELEMENTS_MAX
from tests.unit.gateway.groups import OFFSETS_TOPIC_ID
from tests.unit.gateway.permissions import allow_if
from tests.unit.gateway.world import Client, World, topic

GUARD = 77
OF_GROUPS, OF_TRANSACTIONS = 1, 2
"""The logstores that coordinate."""
NONE = ErrorCode.NONE


def world_of() -> World:
    return World(
        topic("t", leaders=(1, 1)),
        topic("hidden", b"hidden topic id."),
        topic(OFFSETS_TOPIC, OFFSETS_TOPIC_ID, (OF_GROUPS,), 5),
        topic(TRANSACTION_STATE_TOPIC, b"states of trans.", (OF_TRANSACTIONS,), 5),
        nodes=(OF_GROUPS, OF_TRANSACTIONS),
    )


def commit(client: Client, *partitions: int, name: str = "t", version: int = 5) -> None:
    offsets = [TxnOffsetCommitRequestPartition(each, 10 + each) for each in partitions]
    request = TxnOffsetCommitRequest("tx", "g", 9, 3, 1, "member", None, [TxnOffsetCommitRequestTopic(name, offsets)])
    client.ask(request, ApiKey.TXN_OFFSET_COMMIT, version)


def send_back(world: World) -> None:
    """The group's coordinator has no confirmation of this transaction yet."""
    logstore = world.logstores[OF_GROUPS]
    call = logstore.group_calls.pop(0)
    answer = GroupAnswer(call.request_id, ErrorCode.INVALID_TXN_STATE, verification_guard=GUARD)
    logstore.coordinate(CoordinateResponse(answers=[answer]))


def confirm(world: World, error: ErrorCode = NONE) -> None:
    results = [AddPartitionsToTxnTopicResult(OFFSETS_TOPIC, [AddPartitionsToTxnPartitionResult(0, error)])]
    of_transaction = AddPartitionsToTxnResult("tx", results)
    world.logstores[OF_TRANSACTIONS].group_answer(AddPartitionsToTxnResponse(results_by_transaction=[of_transaction]))


def keep(world: World, *partitions: int) -> None:
    results = [TxnOffsetCommitResponsePartition(each, NONE) for each in partitions]
    response = TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic("t", results)])
    world.logstores[OF_GROUPS].group_answer(response)


def errors(client: Client) -> list[tuple[str, int, ErrorCode]]:
    (response,) = client.answers
    return [
        (of_topic.name, each.partition_index, ErrorCode(each.error_code))
        for of_topic in response.topics
        for each in of_topic.partitions
    ]


@pytest.mark.parametrize(("version", "adds"), [(4, False), (5, True)])
def test_the_first_one_of_a_transaction_waits_for_its_coordinator(version: int, adds: bool) -> None:
    world = world_of()
    client = world.client()
    commit(client, 0, version=version)
    assert world.logstores[OF_GROUPS].group_calls[0].verification_guard == 0
    send_back(world)
    (asked,) = world.logstores[OF_TRANSACTIONS].group_request().transactions
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("tx", 9, 3)
    assert asked.verify_only is not adds
    assert [(each.name, each.partitions) for each in asked.topics] == [(OFFSETS_TOPIC, [0])]
    assert world.logstores[OF_GROUPS].group_calls == []
    confirm(world)
    (call,) = world.logstores[OF_GROUPS].group_calls
    assert call.verification_guard == GUARD
    assert world.logstores[OF_GROUPS].group_request().topics[0].partitions[0].committed_offset == 10
    keep(world, 0)
    assert errors(client) == [("t", 0, NONE)]


def test_one_that_is_confirmed_asks_the_group_alone() -> None:
    world = world_of()
    client = world.client()
    commit(client, 0, 1)
    keep(world, 0, 1)
    assert errors(client) == [("t", 0, NONE), ("t", 1, NONE)]
    assert world.logstores[OF_TRANSACTIONS].group_calls == []


@pytest.mark.parametrize(
    ("version", "error", "returned"),
    [
        (5, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (1, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_its_coordinator_refuses_is_an_error_that_the_client_knows(
    version: int, error: ErrorCode, returned: ErrorCode
) -> None:
    world = world_of()
    client = world.client()
    commit(client, 0, version=version)
    send_back(world)
    confirm(world, error)
    assert errors(client) == [("t", 0, returned)]
    assert world.logstores[OF_GROUPS].group_calls == []


def test_a_coordinator_that_is_lost_meanwhile_is_one_that_loads() -> None:
    world = world_of()
    client = world.client()
    commit(client, 0)
    send_back(world)
    world.logstores[OF_TRANSACTIONS].down()
    assert errors(client) == [("t", 0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]


def test_a_client_that_has_left_is_not_answered() -> None:
    world = world_of()
    client = world.client()
    commit(client, 0)
    send_back(world)
    client.close()
    confirm(world)
    assert world.logstores[OF_GROUPS].group_calls == []


def test_what_does_not_exist_is_refused_and_the_rest_is_kept() -> None:
    world = world_of()
    client = world.client()
    commit(client, 0, 7)
    assert [each.partition_index for each in world.logstores[OF_GROUPS].group_request().topics[0].partitions] == [0]
    keep(world, 0)
    assert errors(client) == [("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("t", 0, NONE)]


def test_a_topic_that_may_not_be_read_is_refused_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of()
    client = world.client()

    def reads(_: Any, resource: tuple[ResourceType, str]) -> bool:
        return resource != (ResourceType.TOPIC, "hidden")

    allow_if(monkeypatch, reads)
    commit(client, 0, name="hidden")
    assert errors(client) == [("hidden", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert world.logstores[OF_GROUPS].group_calls == []


def test_more_than_one_batch_holds_is_refused() -> None:
    world = World(
        topic("t", leaders=(1,) * (GROUP_CALL_ELEMENTS_MAX + 1)),
        topic(OFFSETS_TOPIC, OFFSETS_TOPIC_ID, (1,), 5),
    )
    client = world.client()
    commit(client, *range(GROUP_CALL_ELEMENTS_MAX + 1))
    while not client.answers:
        world.turn()
    assert {error for _, _, error in errors(client)} == {ErrorCode.INVALID_REQUEST}


# --- unexpected exceptions ------------------------------------------------------------------------------------------


def raises(*args: object) -> None:
    raise RuntimeError("planted")


def fails_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one that is confirmed, or refused, raises."""
    original, left = PendingTxnOffsetCommit.call, [True]

    def call(self: PendingTxnOffsetCommit, verification_guard: int = 0) -> None:
        if verification_guard and left and left.pop():
            raise RuntimeError("planted")
        original(self, verification_guard)

    monkeypatch.setattr(PendingTxnOffsetCommit, "call", call)


def two_that_wait() -> tuple[World, Client, Client]:
    """In one transaction, so that one question is asked for both."""
    world = world_of()
    world.expects_fault = True
    first, second = world.client(), world.client()
    for client in (first, second):
        commit(client, 0)
    logstore = world.logstores[OF_GROUPS]
    answers = [
        GroupAnswer(call.request_id, ErrorCode.INVALID_TXN_STATE, verification_guard=GUARD)
        for call in logstore.group_calls
    ]
    logstore.group_calls.clear()
    logstore.coordinate(CoordinateResponse(answers=answers))
    assert len(world.logstores[OF_TRANSACTIONS].group_calls) == 1
    return world, first, second


def test_what_one_does_with_its_confirmation_costs_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world, first, second = two_that_wait()
    fails_once(monkeypatch)
    confirm(world)
    assert first.is_closed, "its response has no place for an error of the whole request"
    keep(world, 0)
    assert errors(second) == [("t", 0, NONE)]
    assert world.processor.log_lines.contained.counts[REQUEST] == 1


def test_an_answer_that_cannot_be_read_costs_none_of_those_that_wait_more_than_a_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, first, second = two_that_wait()
    monkeypatch.setattr(transaction_verifier, "_errors_in", raises)
    monkeypatch.setattr(CoordinatorClient, "forget_call", raises)
    confirm(world)
    for client in (first, second):
        assert errors(client) == [("t", 0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    assert world.processor.log_lines.contained.counts[VERIFICATION] == 1


def test_a_question_that_cannot_be_asked_costs_none_of_another_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of()
    world.expects_fault = True
    original, left = CoordinatorClient.submit_ask, [True]

    def submit_ask(self: CoordinatorClient, asker: Any, *call: Any) -> Any:
        if isinstance(asker, transaction_verifier._Verification) and left and left.pop():
            raise RuntimeError("planted")
        return original(self, asker, *call)

    monkeypatch.setattr(CoordinatorClient, "submit_ask", submit_ask)
    first, second = world.client(), world.client()
    commit(first, 0, version=4)
    commit(second, 0, version=5)
    logstore = world.logstores[OF_GROUPS]
    answers = [
        GroupAnswer(call.request_id, ErrorCode.INVALID_TXN_STATE, verification_guard=GUARD)
        for call in logstore.group_calls
    ]
    logstore.group_calls.clear()
    logstore.coordinate(CoordinateResponse(answers=answers))
    assert errors(first) == [("t", 0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    confirm(world)
    keep(world, 0)
    assert errors(second) == [("t", 0, NONE)]
