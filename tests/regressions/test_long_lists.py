"""A list of everything that coordinators have was made, and read by a gateway, in one turn of each.

100,000 transactional ids took a logstore's data process 155 ms, in which no produce was answered; ListGroups has the
same form, and in the gateway the answers were decoded at once.
"""

from __future__ import annotations

from barnabas.channel.messages import GroupCall
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas_logstore.core.coordinator.runtime.listings import ENTRIES_PER_STEP
from barnabas_logstore.core.coordinator.runtime.shard import FROM_LOG
from barnabas_logstore.core.coordinator.transactions.store import TransactionPut
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction
from tests.compiled import COUNTS, interpreted_only
from tests.costly.instructions import counted_lines
from tests.unit.gateway.groups import group_world
from tests.unit.logstore.coordinator.support import World as GroupWorld
from tests.unit.logstore.transactions.support import PARTITION, STREAM
from tests.unit.logstore.transactions.support import World as TransactionWorld

COUNT = 20_000


def with_groups() -> GroupWorld:
    world = GroupWorld()
    (led,) = world.coordinator.shards
    for number in range(COUNT):
        led.shard.groups.get_or_add(f"group-{number}", 0)
    return world


def with_transactions() -> TransactionWorld:
    world = TransactionWorld()
    (led,) = world.coordinator.shards
    for number in range(COUNT):
        transaction = Transaction(f"id-{number}", number, 60_000, 0)
        led.shard.store.replay(TransactionPut(transaction, FROM_LOG, 0), number)
    return world


def test_groups_are_listed_over_several_turns() -> None:
    world = with_groups()
    request_id = world.begin(ApiKey.LIST_GROUPS, 5, encode_body(ListGroupsRequest(), 5))
    turns = 1
    world.turn()
    while not world.is_answered(request_id):
        assert world.coordinator.has_work
        world.turn()
        turns += 1
    response = world.body_of(request_id, ListGroupsResponse)
    assert [each.group_id for each in response.groups] == [f"group-{number}" for number in range(COUNT)]
    assert turns >= 2 * COUNT / ENTRIES_PER_STEP
    assert not world.coordinator.has_work


def test_a_list_of_a_partition_that_was_lost_meanwhile_is_none() -> None:
    world = with_groups()
    request_id = world.begin(ApiKey.LIST_GROUPS, 5, encode_body(ListGroupsRequest(), 5))
    world.turn()
    world.lose()
    while world.coordinator.has_work:
        world.turn()
    assert world.error_of(request_id) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_transactions_are_listed_over_several_turns() -> None:
    world = with_transactions()
    request = ListTransactionsRequest()
    call = GroupCall(99, PARTITION, ApiKey.LIST_TRANSACTIONS, 1, "", "", encode_body(request, 1))
    world.coordinator.on_call(STREAM, call)
    turns = 0
    while world.coordinator.has_work:
        world.coordinator.step(world.now_ms)
        turns += 1
    ((_, answer),) = world.coordinator.take_answers()
    assert turns >= 2 * COUNT / ENTRIES_PER_STEP
    assert answer.error_code == ErrorCode.NONE


@interpreted_only(COUNTS)
def test_no_step_of_a_list_is_long() -> None:
    world = with_transactions()
    call = GroupCall(99, PARTITION, ApiKey.LIST_TRANSACTIONS, 1, "", "", encode_body(ListTransactionsRequest(), 1))
    longest = 0
    with counted_lines() as count:
        world.coordinator.on_call(STREAM, call)
    longest = count.lines
    while world.coordinator.has_work:
        with counted_lines() as count:
            world.coordinator.step(world.now_ms)
        longest = max(longest, count.lines)
    # The first step names all that is to be listed, in one instruction each.
    assert longest < COUNT * 2 + ENTRIES_PER_STEP * 20


def test_a_gateway_reads_a_long_list_over_several_turns() -> None:
    world = group_world(1)
    client, other = world.client(), world.client()
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 5)
    groups = [ListedGroup(f"group-{number}", "consumer", "Stable", "classic") for number in range(COUNT)]
    world.logstore.group_answer(ListGroupsResponse(groups=groups))
    assert not client.answers, "this is not done in the turn of the answer"
    other.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 5)
    world.logstore.group_answer(ListGroupsResponse(groups=groups[:1]))
    world.pass_ms(0)
    assert len(other.answers[-1].groups) == 1
    assert client.answers[-1].groups == groups


def test_a_long_list_that_takes_too_long_is_given_up() -> None:
    world = group_world(1)
    client = world.client()
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 5)
    groups = [ListedGroup(f"group-{number}", "consumer", "Stable", "classic") for number in range(COUNT)]
    world.logstore.group_answer(ListGroupsResponse(groups=groups))
    world.now_ms += 2 * world.processor.config.group_call_ms_max
    world.processor.expire(world.now_ms)
    world.turn()
    world.pass_ms(0)
    assert [each.error_code for each in client.answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
