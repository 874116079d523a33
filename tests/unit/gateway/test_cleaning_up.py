"""What was registered in part when a request failed: its later answer, and the loss of its stream, end nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.cluster import administration as contract
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient
from barnabas_gateway.core.backends.credited_stream import CreditedStream
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.backends.logstore_admin_client import CALLS_UNDER_WAY_MAX, LogstoreAdminClient
from barnabas_gateway.core.backends.purgatory_client import PurgatoryClient
from barnabas_gateway.core.model.containment import REQUEST
from tests.unit.gateway.test_containment import PLANTINGS, after, holds_nothing, raises
from tests.unit.gateway.world import BATCH, Client, World

TOPIC_CONFIGS = 2


@pytest.fixture
def world() -> World:
    world = World(pods=("purgatory-0",))
    world.expects_fault = True
    return world


def ask_producers(client: Client) -> None:
    client.ask(DescribeProducersRequest([TopicRequest("t", [0])]), ApiKey.DESCRIBE_PRODUCERS, 0)


def ask_configs(client: Client) -> None:
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_CONFIGS, "t")])
    client.ask(request, ApiKey.DESCRIBE_CONFIGS, 4)


def others_go_on(world: World) -> None:
    other = world.client()
    other.fetch(version=12, max_wait_ms=0)
    world.logstore.read_result(BATCH)
    assert len(other.answers) == 1
    assert holds_nothing(world)


@PLANTINGS
def test_a_reply_whose_memory_is_not_resized_costs_its_fetch(
    world: World, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]]
) -> None:
    """The pool had resized the reservation, and its request released the earlier size: the processor ended."""
    client = world.client()
    client.fetch(version=12, max_wait_ms=0)
    with monkeypatch.context() as planted:
        planted.setattr(FetchMemory, "resize", planting(FetchMemory.resize))
        world.logstore.read_result(BATCH)
    assert [each.error_code for each in client.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]  # type: ignore[union-attr]
    assert [each.place for each in world.contained] == [REQUEST]
    client.close()
    others_go_on(world)


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "lost"])
def test_a_read_that_fails_while_it_enters_is_withdrawn(
    world: World, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """It stayed in the line of its stream, was sent when there was credit, and its reply held memory for ever."""
    client = world.client()
    lane = world.processor.reads.lanes[1]
    with monkeypatch.context() as planted:
        planted.setattr(type(lane.credit), "try_spend", lambda *_: False)
        planted.setattr(CreditedStream, "try_enter", after(CreditedStream.try_enter))
        client.fetch(version=12, max_wait_ms=0)
    assert [each.error_code for each in client.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]  # type: ignore[union-attr]
    assert not lane.waiting
    if is_lost:
        world.logstore.down()
        world.logstore.up()
    others_go_on(world)


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "lost"])
@pytest.mark.parametrize("ask", [ask_producers, ask_configs])
def test_a_call_to_a_logstore_that_its_request_does_not_know(
    world: World, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Client], None], is_lost: bool
) -> None:
    """The KeyError at its answer closed the connection, and at the loss of the stream it ended the processor."""
    client = world.client()
    with monkeypatch.context() as planted:
        planted.setattr(LogstoreAdminClient, "call_logstore", after(LogstoreAdminClient.call_logstore))
        ask(client)
    closed = client.is_closed
    assert len(client.answers) + closed == 1
    assert len(world.logstore.calls) == 1
    if is_lost:
        world.logstore.down()
        world.logstore.up()
    else:
        world.logstore.answer_call(contract.DescribeProducersResponse([]))
    assert client.is_closed == closed
    assert [each.place for each in world.contained] == [REQUEST], "the late answer is none"
    others_go_on(world)


@PLANTINGS
def test_a_call_to_a_logstore_that_is_not_sent_leaves_its_line(
    world: World, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]]
) -> None:
    """Its place among the calls under way was lost until the stream was."""
    for _ in range(CALLS_UNDER_WAY_MAX):
        with monkeypatch.context() as planted:
            planted.setattr(LogstoreAdminClient, "_send", planting(LogstoreAdminClient._send))
            ask_producers(world.client())
    world.logstore.calls.clear()
    client = world.client()
    ask_producers(client)
    world.logstore.answer_call(contract.DescribeProducersResponse([]))
    assert len(client.answers) == 1
    assert holds_nothing(world)


def test_the_loss_of_a_logstore_costs_each_call_of_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [world.client() for _ in range(3)]
    for client in clients:
        ask_producers(client)
    asker, _ = next(iter(world.processor.logstore_admin._askers.values()))
    failing = clients[0]
    with monkeypatch.context() as planted:
        answered = type(asker).logstore_answered
        planted.setattr(
            type(asker),
            "logstore_answered",
            lambda self, *args: raises() if self is asker else answered(self, *args),
        )
        world.logstore.down()
    assert len(failing.answers) + failing.is_closed == 1
    assert [len(client.answers) for client in clients[1:]] == [1, 1]
    assert [each.place for each in world.contained] == [REQUEST]


@pytest.mark.parametrize("is_lost", [False, True], ids=["answered", "lost"])
def test_a_call_to_a_coordinator_that_its_request_does_not_know(
    world: World, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """The KeyError at its answer closed the connection of a request that was answered already."""
    client = world.client()
    with monkeypatch.context() as planted:
        planted.setattr(CoordinatorClient, "submit_ask", after(CoordinatorClient.submit_ask))
        client.ask(ListGroupsRequest(), ApiKey.LIST_GROUPS, 4)
    assert len(client.answers) == 1
    assert len(world.logstore.group_calls) == 1
    if is_lost:
        world.logstore.down()
        world.logstore.up()
    else:
        world.logstore.group_answer(ListGroupsResponse())
    assert not client.is_closed
    assert [each.place for each in world.contained] == [REQUEST], "the late answer is none"
    others_go_on(world)


@pytest.mark.parametrize("name", ["_enter", "park_fetch"])
@PLANTINGS
def test_a_fetch_that_fails_while_it_is_parked_waits_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]], name: str
) -> None:
    """The entry stayed with its pod, and its end read for a request that was answered already."""
    client = world.client()
    client.fetch(version=12, max_wait_ms=500)
    with monkeypatch.context() as planted:
        planted.setattr(PurgatoryClient, name, planting(getattr(PurgatoryClient, name)))
        world.logstore.read_result(b"")
    assert [each.error_code for each in client.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]  # type: ignore[union-attr]
    assert not world.processor.purgatory.has_entries()
    world.pod.down()
    assert not world.logstore.reads
    assert not client.is_closed
    others_go_on(world)
