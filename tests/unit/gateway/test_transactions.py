"""Requests about transactions: each is asked of the coordinator of its transactional id."""

from __future__ import annotations

import pytest

from barnabas.cluster.acls import ResourceType
from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.runtime.patterns import compile_pattern
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from barnabas.wire.messages.describe_transactions import TransactionState as DescribedState
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from barnabas_gateway.core.backends.pattern_matcher import NAMES_PER_MATCHING, PatternMatching
from tests.unit.gateway.groups import OFFSETS_TOPIC_ID
from tests.unit.gateway.permissions import allow_if
from tests.unit.gateway.world import World, topic

ON_ONE, ON_TWO = "b", "a"
"""Their hashes are even and odd."""


def transaction_world(*leaders: int) -> World:
    return World(
        topic("t", leaders=(1, 1)),
        topic(OFFSETS_TOPIC, OFFSETS_TOPIC_ID, (1,), 5),
        topic(TRANSACTION_STATE_TOPIC, b"states of trans.", leaders or (1, 2), 5),
        nodes=(1, 2),
    )


def test_the_coordinator_of_an_id_is_the_leader_of_its_partition() -> None:
    client = transaction_world().client()
    client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[ON_ONE, ON_TWO]), ApiKey.FIND_COORDINATOR, 4)
    assert [(each.error_code, each.node_id) for each in client.answers[-1].coordinators] == [(0, 1), (0, 2)]


def test_the_topic_is_created_with_the_first_transactional_id() -> None:
    world = World()
    client = world.client()
    client.ask(InitProducerIdRequest("x", 1000), ApiKey.INIT_PRODUCER_ID, 5)
    assert client.answers[-1].error_code == ErrorCode.NOT_COORDINATOR
    (call,) = world.calls
    assert [(each.topic, each.partitions) for each in call.request.topics] == [(TRANSACTION_STATE_TOPIC, -1)]


@pytest.mark.parametrize(
    ("api_key", "request_", "response"),
    [
        (ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(ON_TWO, 1000), InitProducerIdResponse(producer_id=7)),
        (ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest(ON_TWO, 7, 0, "g"), AddOffsetsToTxnResponse(error_code=90)),
        (ApiKey.END_TXN, EndTxnRequest(ON_TWO, 7, 0, committed=True), EndTxnResponse(producer_id=7, producer_epoch=1)),
    ],
)
def test_a_request_and_its_answer_pass_unchanged(api_key: ApiKey, request_: object, response: object) -> None:
    world = transaction_world()
    client = world.client()
    client.ask(request_, api_key, api_key.version_max)
    assert world.logstores[2].group_request() == request_
    assert world.logstores[2].group_calls[0].partition == 1
    world.logstores[2].group_answer(response)
    assert client.answers == [response]


@pytest.mark.parametrize("api_key", [ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN])
def test_what_may_have_been_received_is_not_called_undone(api_key: ApiKey) -> None:
    world = transaction_world()
    client = world.client()
    request = InitProducerIdRequest(ON_TWO, 1000) if api_key is ApiKey.INIT_PRODUCER_ID else EndTxnRequest(ON_TWO)
    client.ask(request, api_key, 4)
    world.logstores[2].down()
    assert client.answers[-1].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    client.ask(request, api_key, 4)
    assert client.answers[-1].error_code == ErrorCode.NOT_COORDINATOR


def added(client: object, topics: list[AddPartitionsToTxnTopic], transactional_id: str = ON_TWO) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id, v3_and_below_producer_id=7, v3_and_below_topics=topics
    )
    client.ask(request, ApiKey.ADD_PARTITIONS_TO_TXN, 3)  # type: ignore[attr-defined]


def test_partitions_are_added_by_the_coordinator() -> None:
    world = transaction_world()
    client = world.client()
    added(client, [AddPartitionsToTxnTopic("t", [0, 1])])
    asked = world.logstores[2].group_request()
    assert asked.v3_and_below_topics == [AddPartitionsToTxnTopic("t", [0, 1])]
    results = [AddPartitionsToTxnTopicResult("t", [AddPartitionsToTxnPartitionResult(each, 0) for each in (0, 1)])]
    world.logstores[2].group_answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))
    assert client.answers[-1].results_by_topic_v3_and_below == results


def test_none_is_added_if_one_is_unknown() -> None:
    world = transaction_world()
    client = world.client()
    added(client, [AddPartitionsToTxnTopic("t", [0, 2]), AddPartitionsToTxnTopic("absent", [0])])
    errors = [
        each.partition_error_code
        for results in client.answers[-1].results_by_topic_v3_and_below
        for each in results.results_by_partition
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED, unknown, unknown]
    assert not world.logstores[2].group_calls


def test_brokers_ask_several_coordinators_at_once() -> None:
    world = transaction_world()
    client = world.client()
    asked = [
        AddPartitionsToTxnTransaction(each, 7, 0, verify_only=True, topics=[AddPartitionsToTxnTopic("t", [0])])
        for each in (ON_ONE, ON_TWO)
    ]
    client.ask(AddPartitionsToTxnRequest(asked), ApiKey.ADD_PARTITIONS_TO_TXN, 5)
    assert world.logstores[1].group_request().transactions == asked[:1]
    assert world.logstores[2].group_request().transactions == asked[1:]


def test_transactions_are_described_without_topics_that_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    world = transaction_world()
    client = world.client()
    hidden = (ResourceType.TOPIC, "hidden")
    allow_if(monkeypatch, lambda _, resource: resource != hidden)
    client.ask(DescribeTransactionsRequest([ON_ONE, ON_TWO]), ApiKey.DESCRIBE_TRANSACTIONS, 0)
    state = DescribedState(transactional_id=ON_ONE, topics=[TopicData("t", [0]), TopicData("hidden", [0])])
    world.logstores[1].group_answer(DescribeTransactionsResponse(transaction_states=[state]))
    world.logstores[2].group_answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    first, second = client.answers[-1].transaction_states
    assert (first.transactional_id, [each.topic for each in first.topics]) == (ON_ONE, ["t"])
    assert (second.transactional_id, second.error_code) == (ON_TWO, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.parametrize("version", range(3))
def test_transactions_of_all_brokers_are_listed(version: int) -> None:
    world = transaction_world()
    client = world.client()
    client.ask(ListTransactionsRequest(["Ongoing", "Sleeping", "Sleeping"]), ApiKey.LIST_TRANSACTIONS, version)
    for node_id, name in ((1, ON_ONE), (2, ON_TWO)):
        assert world.logstores[node_id].group_request().state_filters == ["Ongoing"]
        found = ListTransactionsResponse(transaction_states=[TransactionState(name, 7, "Ongoing")])
        world.logstores[node_id].group_answer(found)
    listed = client.answers[-1]
    assert [each.transactional_id for each in listed.transaction_states] == [ON_ONE, ON_TWO]
    assert listed.unknown_state_filters == ["Sleeping"]


def take_turn(world: World) -> None:
    """A long answer is read over several."""
    world.processor.expire(world.now_ms)
    world.turn()


def match_pattern(world: World, fault: str = "") -> None:
    """Match the names of the oldest matching, as the host's worker does; or fail with `fault`."""
    matching = world.pattern_matchings.pop(0)
    matching.fault = fault
    if not fault:
        matching.run(compile_pattern)
    world.processor.pattern_matched(matching, world.now_ms)
    world.turn()


def listing_of(names: list[str]) -> ListTransactionsResponse:
    return ListTransactionsResponse(transaction_states=[TransactionState(name, 7, "Ongoing") for name in names])


def test_only_ids_that_match_the_pattern_are_listed() -> None:
    world = transaction_world()
    client = world.client()
    asked = ListTransactionsRequest(transactional_id_pattern="orders-[0-9]+")
    client.ask(asked, ApiKey.LIST_TRANSACTIONS, 2)
    names = [f"orders-{number}" for number in range(2 * NAMES_PER_MATCHING)]
    world.logstores[1].group_answer(listing_of(["orders-", *names, "my orders-1"]))
    while not world.logstores[2].group_calls:
        take_turn(world)
    world.logstores[2].group_answer(listing_of(["orders-x", "orders-7000", "Orders-1"]))
    for _ in range(3):
        assert not client.answers, "others have their turns between the parts of a long list"
        while not world.pattern_matchings:
            take_turn(world)
        match_pattern(world)
    while not client.answers:
        take_turn(world)
    listed = client.answers[-1]
    assert [each.transactional_id for each in listed.transaction_states] == [*names, "orders-7000"]
    assert listed.error_code == ErrorCode.NONE


def test_long_ids_are_matched_some_at_a_time() -> None:
    world = transaction_world()
    client = world.client(node_id=1)
    client.ask(ListTransactionsRequest(transactional_id_pattern="a*"), ApiKey.LIST_TRANSACTIONS, 2)
    world.logstores[1].group_answer(listing_of(["a" * 30_000] * 9))
    for _ in range(3):
        assert not client.answers
        (matching,) = world.pattern_matchings
        assert isinstance(matching, PatternMatching)
        assert len(matching.names) == 3
        match_pattern(world)
    assert len(client.answers[-1].transaction_states) == 9


@pytest.mark.parametrize("names", [[], ["a", "b"]], ids=["no ids", "some ids"])
@pytest.mark.parametrize("states", [[], ["Sleeping"]], ids=["all states", "no known state"])
def test_a_text_that_is_no_pattern_is_refused_whatever_there_is(names: list[str], states: list[str]) -> None:
    world = transaction_world()
    client = world.client(node_id=1)
    client.ask(ListTransactionsRequest(states, transactional_id_pattern="(a"), ApiKey.LIST_TRANSACTIONS, 2)
    if not states:
        world.logstores[1].group_answer(listing_of(names))
    match_pattern(world)
    assert client.answers[-1] == ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)


@pytest.mark.parametrize("pattern", ["", None])
def test_an_empty_pattern_is_no_filter(pattern: str | None) -> None:
    world = transaction_world()
    client = world.client(node_id=1)
    client.ask(ListTransactionsRequest(transactional_id_pattern=pattern), ApiKey.LIST_TRANSACTIONS, 2)
    world.logstores[1].group_answer(listing_of(["a", "b"]))
    assert len(client.answers[-1].transaction_states) == 2
    assert not world.pattern_matchings


def test_a_coordinator_that_loads_comes_before_the_pattern() -> None:
    world = transaction_world()
    client = world.client(node_id=1)
    client.ask(ListTransactionsRequest(transactional_id_pattern="(a"), ApiKey.LIST_TRANSACTIONS, 2)
    world.logstores[1].group_answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert client.answers[-1].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_list_whose_pattern_takes_long_has_no_deadline() -> None:
    world = transaction_world()
    client = world.client(node_id=1)
    client.ask(ListTransactionsRequest(transactional_id_pattern="a"), ApiKey.LIST_TRANSACTIONS, 2)
    world.logstores[1].group_answer(listing_of(["a", "b"]))
    world.pass_ms(2 * world.processor.config.group_call_ms_max)
    assert not client.answers
    match_pattern(world)
    assert [each.transactional_id for each in client.answers[-1].transaction_states] == ["a"]


def test_what_a_pattern_would_match_is_dropped_with_its_connection() -> None:
    world = transaction_world()
    client = world.client(node_id=1)
    client.ask(ListTransactionsRequest(transactional_id_pattern="a"), ApiKey.LIST_TRANSACTIONS, 2)
    world.logstores[1].group_answer(listing_of(["a"] * 2 * NAMES_PER_MATCHING))
    while not world.pattern_matchings:
        take_turn(world)
    client.close()
    match_pattern(world)
    assert not world.pattern_matchings


def test_a_fault_of_the_matching_costs_one_request() -> None:
    world = transaction_world()
    client, other = world.client(node_id=1), world.client(node_id=1)
    client.ask(ListTransactionsRequest(transactional_id_pattern="a"), ApiKey.LIST_TRANSACTIONS, 2)
    world.logstores[1].group_answer(listing_of(["a"]))
    world.expects_fault = True
    match_pattern(world, "Traceback")
    (response,) = client.answers
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[union-attr]
    assert not client.is_closed
    assert not other.is_closed


def test_a_fault_of_the_matching_is_reported_though_its_client_has_gone() -> None:
    world = transaction_world()
    client = world.client(node_id=1)
    client.ask(ListTransactionsRequest(transactional_id_pattern="a"), ApiKey.LIST_TRANSACTIONS, 2)
    world.logstores[1].group_answer(listing_of(["a"]))
    world.expects_fault = True
    client.close()
    match_pattern(world, "Traceback")
    assert [each.traceback for each in world.contained] == ["Traceback"]


def test_no_incomplete_list_is_taken_for_a_complete_one() -> None:
    world = transaction_world()
    client = world.client()
    client.ask(ListTransactionsRequest(), ApiKey.LIST_TRANSACTIONS, 2)
    world.logstores[1].group_answer(ListTransactionsResponse(transaction_states=[TransactionState(ON_ONE, 7, "Empty")]))
    world.logstores[2].group_answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    listed = client.answers[-1]
    assert (listed.error_code, listed.transaction_states) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
