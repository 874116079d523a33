"""No turn of a processor is long, whatever one client asks: each API key with the costliest requests of its schema.

A turn's lines are counted, so that the tests are the same on every machine. Here a turn has a tenth of the steps
that it has in the field, and a request 3,000 elements: work that grows with them outside of steps is seen at once.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import CoordinateResponse, GroupAnswer
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.connections import steps
from barnabas_gateway.core.handlers import HANDLERS
from tests.costly.instructions import counted_lines
from tests.costly.requests import Costly, costly_requests
from tests.unit.gateway.world import TOPIC_ID, Client, World, topic

ELEMENTS = 3_000
PARTITIONS = 600
"""More than are asked of a leader at once."""
TURN_LINES_MAX = 15_000
"""Three milliseconds or so. The largest parts of it: a call of 500 elements is encoded, or its answer is read."""


def world_with_groups() -> World:
    offsets = topic("__consumer_offsets", b"offsets-offsets-", (1,) * 50)
    world = World(topic("t", TOPIC_ID, (1,) * PARTITIONS), offsets)
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
                self._answer_one()
            outputs = world.processor.take_outputs()
        world.carry_out(outputs)
        self.turns += 1
        self.longest = max(self.longest, count.lines)

    def _answer_one(self) -> None:
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


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS_PER_TURN", 100)
    monkeypatch.setattr(steps, "STEPS_AT_ONCE", 50)
    monkeypatch.setattr(steps, "DISCARDED_OBJECTS_PER_TURN", 400)


def is_plain(costly: Costly) -> bool:
    """Whether its elements differ and are of an existing topic, or it has none."""
    return costly.label.endswith(("different, known topic", "no arrays"))


def assert_turns_are_short(requests: list[Costly]) -> None:
    for costly in requests:
        world = world_with_groups()
        client, turns = world.client(), Turns(world)
        turns.take(data=client.frame(costly.request, costly.api_key, costly.version), client=client)
        turns.until_answered(client)
        told = f"v{costly.version} {costly.label}: {turns.longest} lines in one of {turns.turns} turns"
        assert turns.longest < TURN_LINES_MAX, told


@pytest.mark.parametrize("api_key", HANDLERS, ids=lambda number: ApiKey(number).name)
def test_no_turn_grows_with_what_a_request_names(api_key: int) -> None:
    requests = [each for each in costly_requests(ELEMENTS, "t", api_key) if is_plain(each)]
    assert requests
    assert_turns_are_short(requests)


@pytest.mark.deep
@pytest.mark.parametrize("api_key", HANDLERS, ids=lambda number: ApiKey(number).name)
def test_nor_with_what_it_repeats_or_what_does_not_exist(api_key: int) -> None:
    assert_turns_are_short([each for each in costly_requests(ELEMENTS, "t", api_key) if not is_plain(each)])
