"""Appends gather while a logstore has more than enough to do; never when it might wait for them."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas_gateway.core.backends.logstores import (
    GATHER_APPENDS_MAX,
    GATHER_BYTES_MAX,
    GATHER_IN_FLIGHT_MIN,
    GATHER_MS,
)
from tests.unit.gateway.world import BATCH, Client, World

BUSY = GATHER_IN_FLIGHT_MIN + 4


def busy_world() -> tuple[World, Client]:
    """A logstore with `BUSY` appends of one turn in flight."""
    world = World()
    client = world.client()
    for _ in range(BUSY):
        client.produce(0)
    assert len(world.logstore.appends) == GATHER_IN_FLIGHT_MIN
    world.pass_ms(GATHER_MS)
    assert len(world.logstore.appends) == BUSY
    return world, client


def test_appends_go_at_once_while_little_is_in_flight() -> None:
    world = World()
    client = world.client()
    for count in range(1, GATHER_IN_FLIGHT_MIN + 1):
        client.produce(0)
        assert len(world.logstore.appends) == count


def test_appends_gather_behind_more_of_them_and_leave_in_one_message() -> None:
    world, client = busy_world()
    messages = world.logstore.messages
    for _ in range(BUSY - 1):
        client.produce(0)
    assert len(world.logstore.appends) == BUSY
    client.produce(0)
    assert len(world.logstore.appends) == 2 * BUSY, "as many have gathered as are in flight"
    assert world.logstore.messages == messages + 1


def test_answers_let_go_what_has_gathered() -> None:
    world, client = busy_world()
    client.produce(0)
    assert len(world.logstore.appends) == BUSY
    for _ in range(BUSY - GATHER_IN_FLIGHT_MIN + 1):
        world.logstore.append_result(committed=True)
    assert len(world.logstore.appends) == GATHER_IN_FLIGHT_MIN


def test_nothing_gathers_for_longer_than_its_time() -> None:
    world, client = busy_world()
    client.produce(0)
    world.pass_ms(GATHER_MS - 1)
    assert len(world.logstore.appends) == BUSY
    world.pass_ms(1)
    assert len(world.logstore.appends) == BUSY + 1


def test_a_message_that_is_large_enough_goes() -> None:
    world, client = busy_world()
    client.produce(0, records=BATCH + bytes(GATHER_BYTES_MAX))
    assert len(world.logstore.appends) == BUSY + 1
    for _ in range(3 * GATHER_APPENDS_MAX):
        client.produce(0)
    assert len(world.logstore.appends) > BUSY + 2 * GATHER_APPENDS_MAX


def test_a_question_takes_along_what_has_gathered() -> None:
    world, client = busy_world()
    client.produce(0)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])], 5000)
    world.client().ask(request, ApiKey.LIST_OFFSETS, 11)
    assert len(world.logstore.appends) == BUSY + 1
    assert len(world.logstore.offset_queries) == 1


def test_what_has_gathered_when_the_stream_is_lost_is_not_sent_later() -> None:
    world, client = busy_world()
    client.produce(0)
    world.logstore.down()
    world.logstore.up()
    world.pass_ms(10 * GATHER_MS)
    assert world.logstore.appends == []
    assert len(client.answers) == BUSY + 1
