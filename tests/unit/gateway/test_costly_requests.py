"""No turn of a processor is long, whatever one client asks: each API key with the costliest requests of its schema.

A turn's instructions are counted, so that the tests are the same on every machine. Here a turn has a tenth of the steps
that it has in the field, and a request 10,000 elements: work that grows with them outside of steps is seen at once.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import GroupCall
from barnabas.cluster.messages import CreateTopicsRequest
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from services.gateway.core import steps
from services.gateway.core.controller_calls import CALL_ELEMENTS_MAX, UNKNOWN_NAMES_MAX
from services.gateway.core.group_call import GROUP_CALL_ELEMENTS_MAX
from services.gateway.core.handlers import HANDLERS
from services.gateway.core.handlers.api_02_list_offsets import QUERIES_AT_ONCE
from services.gateway.core.handlers.api_03_metadata import CREATED_MAX
from tests.costly.instructions import counted
from tests.costly.requests import Costly, costly_requests
from tests.unit.gateway.world import TOPIC_ID, Client, World, topic

ELEMENTS = 10_000
PARTITIONS = 600
"""More than are asked of a leader at once."""
TURN_INSTRUCTIONS_MAX = 60_000
"""Two milliseconds or so. The largest parts of it: a call of 500 elements is encoded, or its answer is read."""

COSTLY = list(costly_requests(ELEMENTS, "t"))


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
        with counted() as count:
            if client is not None:
                world.processor.bytes_received(client.connection_id, data, world.now_ms)
            else:
                self._answer_one()
            world.turn()
        self.turns += 1
        self.longest = max(self.longest, count.instructions)

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
            self.calls.append(logstore.group_calls[0])
            logstore.group_answer(error_code=16)
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
            if not self.world.processor.requests.steps.has_work():
                self.world.now_ms += 1_000
        raise AssertionError("it is never answered")


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS_PER_TURN", 100)
    monkeypatch.setattr(steps, "STEPS_AT_ONCE", 50)


def test_every_api_key_has_costly_requests() -> None:
    assert {costly.api_key for costly in COSTLY} == set(HANDLERS)


@pytest.mark.parametrize("costly", COSTLY, ids=lambda each: f"{each.api_key.name} v{each.version} {each.label}")
def test_no_turn_grows_with_what_a_request_names(costly: Costly) -> None:
    world = world_with_groups()
    client, turns = world.client(), Turns(world)
    # Its code is compiled when it is first met.
    frame = client.frame(costly.request, costly.api_key, costly.version)
    turns.take(data=frame, client=client)
    turns.until_answered(client)
    assert turns.longest < TURN_INSTRUCTIONS_MAX, f"{turns.longest} instructions in one of {turns.turns} turns"
