"""What an unexpected exception costs in a processor: one request, or one connection, and nothing else.

The parts of the core are replaced by ones that raise, before they have done anything or behind it.
"""

from __future__ import annotations

import gc
import struct
import tracemalloc
from collections.abc import Callable

import pytest

from barnabas.containment import REPORTS_MAX, Uncontained
from barnabas.wire.api_keys import SERVED_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas_gateway.core.backends.append_router import AppendRouter
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient, _Stream
from barnabas_gateway.core.connections.connections import Connections
from barnabas_gateway.core.connections.dispatcher import RequestDispatcher
from barnabas_gateway.core.connections.responder import error_response
from barnabas_gateway.core.model.client_quotas import ClientQuotas
from barnabas_gateway.core.model.containment import CONNECTION, QUOTAS, REQUEST, end_by
from barnabas_gateway.core.requests.fetch import PendingFetch
from barnabas_gateway.core.requests.produce import PendingProduce
from tests.unit.gateway.groups import group_world
from tests.unit.gateway.world import BATCH, World


class Fault(Exception):  # noqa: N818 - as what it stands for
    pass


def raises(*args: object, **options: object) -> None:
    raise Fault("planted")


def after(method: Callable[..., object]) -> Callable[..., object]:
    def call(*args: object, **options: object) -> object:
        method(*args, **options)
        raise Fault("planted behind the work")

    return call


PLANTINGS = pytest.mark.parametrize("planting", [lambda method: raises, after], ids=["before", "behind"])


@pytest.fixture
def world() -> World:
    world = World()
    world.expects_fault = True
    return world


def holds_nothing(world: World) -> bool:
    core = world.processor
    return core.request_memory.held_bytes == 0 and core.fetch_memory.reserved_bytes == 0


def test_a_response_with_an_error_of_its_own_names_it() -> None:
    """And one without, in this version, is None: it would be taken for a success."""
    named = {
        (key.name, version)
        for key in SERVED_KEYS
        for version in range(key.version_min, key.version_max + 1)
        if error_response(RequestHeader(int(key), version, 1, None)) is not None
    }
    assert ("FETCH", 7) in named
    assert ("FETCH", 6) not in named
    assert ("HEARTBEAT", 0) in named
    assert {name for name, _ in named}.isdisjoint({"PRODUCE", "OFFSET_COMMIT", "LIST_OFFSETS", "CREATE_TOPICS"})


def test_a_request_that_fails_is_answered_and_its_connection_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = world.client()
    with monkeypatch.context() as planted:
        planted.setattr(CoordinatorClient, "submit_ask", raises)
        client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 4)
    (response,) = client.answers
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[union-attr]
    assert not client.is_closed
    assert [each.place for each in world.contained] == [REQUEST]
    assert world.contained[0].fields["api_key"] == ApiKey.LIST_GROUPS
    assert holds_nothing(world)


@PLANTINGS
def test_a_call_that_fails_while_it_is_added_does_not_stop_its_stream(
    world: World, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]]
) -> None:
    """The stream was left with a message that never went, or the loss of the stream ended the processor."""
    client = world.client()
    with monkeypatch.context() as planted:
        planted.setattr(_Stream, "add_message", planting(_Stream.add_message))
        client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 4)
    assert [each.error_code for each in client.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]  # type: ignore[union-attr]
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 4)
    world.turn()
    assert world.processor.coordinators.sending == [], "the next call left with the next turn"
    (stream,) = world.processor.coordinators._streams.values()
    world.processor.coordinate_down(stream.node_id, world.now_ms)
    assert not client.is_closed
    assert holds_nothing(world)


def test_a_request_that_can_not_be_ended_closes_its_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was answered by nothing, and its client waited until its own time was over (seed 101 with exceptions)."""
    client = world.client()
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 4)
    connection = world.processor.connections.find_connection(client.connection_id)
    assert connection is not None
    (pending,) = connection.requests
    with monkeypatch.context() as planted:
        planted.setattr(world.processor.connections, "request_failed", raises)
        end_by(pending, RuntimeError("planted"))
    world.turn()
    assert client.is_closed
    assert [each.place for each in world.contained] == [CONNECTION]
    assert holds_nothing(world)


def test_a_connection_that_can_not_give_back_what_it_holds_ends_the_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for closed by the guard of the request that closed it: its other requests held memory for ever."""
    client = world.client()
    client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 4)
    connection = world.processor.connections.find_connection(client.connection_id)
    assert connection is not None
    (pending,) = connection.requests
    with monkeypatch.context() as planted:
        planted.setattr(type(pending), "cancel", raises)
        with pytest.raises(Uncontained):
            world.processor.responder.refuse(connection, pending.header, "it is malformed")
    assert connection.is_closed


def test_what_can_not_be_ended_at_all_ends_the_process() -> None:
    with pytest.raises(Uncontained):
        end_by(_Endless(), RuntimeError("planted"))


class _Endless:
    def failed(self, error: Exception) -> None:
        raise AssertionError


@PLANTINGS
def test_a_result_of_an_append_costs_its_connection(
    world: World, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]]
) -> None:
    """A produce has no error for the whole request. The other client's is answered."""
    client, other = world.client(), world.client()
    client.produce(0)
    with monkeypatch.context() as planted:
        planted.setattr(PendingProduce, "append_answered", planting(PendingProduce.append_answered))
        world.logstore.append_result()
    assert client.is_closed or client.answers
    other.produce(0)
    world.logstore.append_result()
    assert len(other.answers) == 1
    assert REQUEST in {each.place for each in world.contained}
    assert holds_nothing(world)


@PLANTINGS
def test_a_result_of_a_read_costs_one_request(
    world: World, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]]
) -> None:
    client, other = world.client(), world.client()
    client.fetch(version=12, max_wait_ms=0)
    with monkeypatch.context() as planted:
        planted.setattr(PendingFetch, "read_answered", planting(PendingFetch.read_answered))
        world.logstore.read_result(BATCH)
    assert client.is_closed or client.answers, "behind its response it costs the connection, which is in doubt"
    assert len(client.answers) <= 1
    other.fetch(version=12, max_wait_ms=0)
    world.logstore.read_result(BATCH)
    assert len(other.answers) == 1
    assert holds_nothing(world)


def test_a_deadline_that_fails_costs_one_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client, other = world.client(), world.client()
    client.fetch(version=12, max_wait_ms=100)
    other.fetch(version=12, max_wait_ms=100)
    with monkeypatch.context() as planted:
        planted.setattr(PendingFetch, "expire", raises)
        world.pass_ms(60_000)
    assert len(client.answers) + client.is_closed == 1
    assert world.processor.next_deadline_ms() is None or not client.is_closed
    assert REQUEST in {each.place for each in world.contained}


def test_bytes_that_fail_close_their_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client, other = world.client(), world.client()
    with monkeypatch.context() as planted:
        planted.setattr(RequestDispatcher, "bytes_received", raises)
        client.send(struct.pack(">i", 4))
    assert client.is_closed
    assert [each.place for each in world.contained] == [CONNECTION]
    other.produce(0)
    world.logstore.append_result()
    assert len(other.answers) == 1


def test_the_time_of_a_connection_closes_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = world.client()
    with monkeypatch.context() as planted:
        planted.setattr(Connections, "check_idle", raises)
        world.pass_ms(700_000)
    assert client.is_closed
    assert CONNECTION in {each.place for each in world.contained}


def test_an_order_of_appends_that_fails_closes_its_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client, other = world.client(), world.client()
    client.produce(0)
    with monkeypatch.context() as planted:
        planted.setattr(AppendRouter, "decided", raises)
        world.logstore.append_result()
    assert client.is_closed
    other.produce(0)
    world.logstore.append_result()
    assert len(other.answers) == 1


def test_shares_of_quotas_that_can_not_be_taken_cost_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClientQuotas, "shares_granted", raises)
    world.processor.quota_shares([], world.now_ms)
    world.turn()
    assert [each.place for each in world.contained] == [QUOTAS]


def test_a_poisonous_request_costs_itself_each_time_and_nothing_grows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = world.client(), world.client()
    monkeypatch.setattr(CoordinatorClient, "submit_ask", raises)
    sizes = []
    for number in range(1_000):
        client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 4)
        assert client.answers.pop().error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[union-attr]
        assert len(world.contained) <= REPORTS_MAX
        world.contained.clear()
        client.correlation_ids.clear()
        client._asked.clear()
        if number == 100:
            gc.collect()
            tracemalloc.start()
        if number in (200, 999):
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[1] < sizes[0] + 60_000, "less than a tenth of a kilobyte for each of them"
    assert world.processor.log_lines.contained.counts[REQUEST] == 1_000
    assert holds_nothing(world)
    other.produce(0)
    world.logstore.append_result()
    assert len(other.answers) == 1


@pytest.mark.parametrize("version", [2, 9])
def test_what_is_answered_after_its_request_has_failed_gives_nothing_back_twice(version: int) -> None:
    """Seed 9 of runs with exceptions: the call had been sent as an exception ended the request, which did not know of
    it. Its answer came when the connection was closed, and its bytes were given back again.
    """
    world = group_world()
    world.expects_fault = True
    client = world.client()
    partitions = [OffsetCommitRequestPartition(0, 70, 5, "")]
    commit = OffsetCommitRequest("g", 3, "m", topics=[OffsetCommitRequestTopic("t", bytes(16), partitions)])
    client.ask(commit, ApiKey.OFFSET_COMMIT, version)
    (connection,) = world.processor.connections._connections.values()
    (pending,) = [each for each in connection.requests if each.header.api_key == ApiKey.OFFSET_COMMIT]
    pending._ask = None
    pending.failed(Fault("planted"))
    world.turn()
    world.logstore.group_answer(OffsetCommitResponse())
    assert client.is_closed or client.answers
    assert holds_nothing(world)
