"""A timeout that reaches back before the clock began hung its processor: the deadline was never taken off its list.

Found by `make fuzz` (gateway). Monotonic time is below 2^31 ms on a machine that runs for less than 25 days.
"""

from __future__ import annotations

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from tests.unit.gateway.world import World

LONG_AGO = -(2**31)


@pytest.mark.parametrize(
    ("request_", "key", "version"),
    [
        (CreateTopicsRequest([CreatableTopic("new", 1, 1)], LONG_AGO), ApiKey.CREATE_TOPICS, 5),
        (DeleteTopicsRequest(topic_names=["t"], timeout_ms=LONG_AGO), ApiKey.DELETE_TOPICS, 4),
    ],
)
def test_a_request_to_the_controller_ends(request_: object, key: ApiKey, version: int) -> None:
    world = World()
    client = world.client()
    client.ask(request_, key, version)
    world.pass_ms(1000)
    assert len(client.answers) == 1


def test_a_produce_ends() -> None:
    world = World(pods=("pod-0",))
    client = world.client()
    client.produce(acks=-1, timeout_ms=LONG_AGO)
    world.logstore.append_result()
    world.pass_ms(10_000)
    assert len(client.answers) == 1


def test_a_fetch_ends() -> None:
    world = World(pods=("pod-0",))
    client = world.client()
    client.fetch(max_wait_ms=LONG_AGO)
    world.logstore.read_result(b"")
    world.pass_ms(1000)
    assert len(client.answers) == 1
