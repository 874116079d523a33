"""No turn of a processor is long, whatever one client asks: each API key with the costliest requests of its schema.

A turn's lines are counted, so that the tests are the same on every machine. Here a turn has a tenth of the steps
that it has in the field, and a request 3,000 elements: work that grows with them outside of steps is seen at once.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import CoordinateResponse, GroupAnswer
from barnabas.cluster.acls import CLUSTER_NAME, Acl, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.connections import steps
from barnabas_gateway.core.handlers import HANDLERS
from barnabas_gateway.core.model.config import AuthorizerConfig
from tests.costly.instructions import counted_lines
from tests.costly.requests import Costly, costly_requests
from tests.unit.gateway.world import TOPIC_ID, Client, World, topic

ELEMENTS = 3_000
PARTITIONS = 600
"""More than are asked of a leader at once."""
TURN_LINES_MAX = 15_000
"""Three milliseconds or so. The largest parts of it: a call of 500 elements is encoded, or its answer is read."""


def world_with_groups(*, is_authorized: bool = False) -> World:
    """`is_authorized`: an authorizer allows everything, by ACLs among others."""
    topics = (topic("t", TOPIC_ID, (1,) * PARTITIONS), topic("__consumer_offsets", b"offsets-offsets-", (1,) * 50))
    world = World(*topics, authorizer=AuthorizerConfig(is_authorized))
    types = tuple(ResourceType)
    allowed = [
        Acl(each, 3, CLUSTER_NAME if each is ResourceType.CLUSTER else "*", "User:*", "*", 2, 3) for each in types
    ]
    others = [Acl(each, 4, "x" * length, "User:a", "*", 3, 3) for each in types for length in range(1, 60)]
    world.update(*topics, acls=[*allowed, *others], knows_acls=True)
    world.logstores[1].up()
    return world


class Turns:
    """Answers everything that the core asks, one message a turn, and notes the longest turn."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.longest = 0
        self.turns = 0
        self.calls: list[Any] = []

    def take(self, *, data: bytes = b"", client: Client | None = None) -> None:
        world = self.world
        with counted_lines() as count:
            if client is not None:
                world.processor.bytes_received(client.connection_id, data, world.now_ms)
            else:
                self.answer_one()
            outputs = world.processor.take_outputs()
        world.carry_out(outputs)
        self.turns += 1
        self.longest = max(self.longest, count.lines)

    def answer_one(self) -> None:
        world, logstore = self.world, self.world.logstores[1]
        processor, now_ms = world.processor, world.now_ms
        if world.calls:
            self.calls.append(world.calls[0].request)
            processor.controller_answered(world.calls.pop(0).call_id, None, now_ms)
        elif logstore.calls:
            self.calls.append(logstore.calls[0].request)
            processor.logstore_answered(logstore.calls.pop(0).call_id, None, now_ms)
        elif logstore.group_calls:
            call = logstore.group_calls.pop(0)
            self.calls.append(call)
            answer = GroupAnswer(call.request_id, ErrorCode.NOT_COORDINATOR)
            processor.coordinate_response(1, CoordinateResponse(answers=[answer]), now_ms)
        elif logstore.offset_queries:
            self.calls.append(len(logstore.offset_queries))
            logstore.offset_queries.clear()
            processor.expire(now_ms)
        elif world.pattern_matchings:
            # On a worker of the host: its end is what the turn sees.
            processor.pattern_matched(world.pattern_matchings.pop(0), now_ms)
        else:
            processor.expire(now_ms)

    def until_answered(self, client: Client) -> None:
        for _ in range(20_000):
            if client.answers or client.is_closed:
                return
            self.take()
            if not self.world.processor.responder.steps.has_work():
                self.world.now_ms += 1_000
        raise AssertionError("it is never answered")

    def until_freed(self) -> None:
        """A full collection of garbage is postponed until a long request has left nothing behind."""
        while self.world.processor.responder.steps.has_work():
            self.take()
        assert not self.world.processor.holds_long_requests()


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS_PER_TURN", 100)
    monkeypatch.setattr(steps, "STEPS_AT_ONCE", 50)
    monkeypatch.setattr(steps, "DISCARDED_OBJECTS_PER_TURN", 400)


def is_plain(costly: Costly) -> bool:
    """Whether its elements differ and are of an existing topic, or it has none."""
    return costly.label.endswith(("different, known topic", "no arrays"))


def assert_turns_are_short(requests: list[Costly], *, is_authorized: bool = False) -> None:
    for costly in requests:
        world = world_with_groups(is_authorized=is_authorized)
        client, turns = world.client(), Turns(world)
        turns.take(data=client.frame(costly.request, costly.api_key, costly.version), client=client)
        turns.until_answered(client)
        turns.until_freed()
        reported = f"v{costly.version} {costly.label}: {turns.longest} lines in one of {turns.turns} turns"
        assert turns.longest < TURN_LINES_MAX, reported


@pytest.mark.parametrize("api_key", HANDLERS, ids=lambda number: ApiKey(number).name)
def test_no_turn_grows_with_what_a_request_names(api_key: int) -> None:
    requests = [each for each in costly_requests(ELEMENTS, "t", api_key) if is_plain(each)]
    assert requests
    assert_turns_are_short(requests)


@pytest.mark.deep
@pytest.mark.parametrize("api_key", HANDLERS, ids=lambda number: ApiKey(number).name)
def test_nor_with_what_is_authorized(api_key: int) -> None:
    assert_turns_are_short(costly_requests(ELEMENTS, "t", api_key), is_authorized=True)


@pytest.mark.deep
@pytest.mark.parametrize("api_key", HANDLERS, ids=lambda number: ApiKey(number).name)
def test_nor_with_what_it_repeats_or_what_does_not_exist(api_key: int) -> None:
    assert_turns_are_short([each for each in costly_requests(ELEMENTS, "t", api_key) if not is_plain(each)])


def test_a_long_request_is_held_until_it_is_answered_or_its_connection_closes() -> None:
    costly = next(each for each in costly_requests(ELEMENTS, "t", ApiKey.DELETE_TOPICS) if is_plain(each))
    world = world_with_groups()
    client, turns = world.client(), Turns(world)
    assert not world.processor.holds_long_requests()
    turns.take(data=client.frame(costly.request, costly.api_key, costly.version), client=client)
    assert not client.answers
    assert world.processor.holds_long_requests()
    world.processor.connection_closed(client.connection_id, world.now_ms)
    turns.until_freed()


def test_the_timing_of_a_long_request_holds_nothing_of_it_while_the_client_does_not_read() -> None:
    """It held the request and its results, half a million objects, until the response was sent: in one turn all of them
    were looked at for garbage, and in another one freed."""
    costly = next(each for each in costly_requests(ELEMENTS, "t", ApiKey.DESCRIBE_CONFIGS) if is_plain(each))
    world = world_with_groups()
    client, turns = world.client(), Turns(world)
    turns.take(data=client.frame(costly.request, costly.api_key, costly.version), client=client)
    (pending,) = world.processor.connections.long_requests
    timing = pending.timing
    assert timing is not None
    assert timing.pending is pending
    turns.until_answered(client)
    assert timing.pending is not pending
    assert timing.pending.header == pending.header
