"""What every test of fetch sessions has."""

from __future__ import annotations

import pytest

from tests.unit.gateway.sessions.consumer import BY_ID, BY_NAME, Consumer
from tests.unit.gateway.world import World, topic


@pytest.fixture
def world() -> World:
    return World(topic(leaders=(1, 1, 1)), pods=("pod-0",))


@pytest.fixture(params=[BY_NAME, BY_ID])
def consumer(world: World, request: pytest.FixtureRequest) -> Consumer:
    return Consumer(world.client(), request.param)
