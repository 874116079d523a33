"""One slip of num.network.threads started a hundred processes at once, and no client was answered for minutes."""

from __future__ import annotations

import pytest

from barnabas.cluster.config_description import Setting
from barnabas.cluster.messages import ALL_BROKERS, BrokerConfigs
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import incremental_alter_configs as wire
from tests.unit.gateway.world import Client, World

_BROKER, _SET, _DELETE = 4, 0, 1
_KEY = "num.network.threads"
_SETTINGS = {_KEY: Setting("3", "3", False)}


def _asked(client: Client, value: str | None, operation: int = _SET) -> None:
    change = wire.AlterableConfig(_KEY, operation, value)
    request = wire.IncrementalAlterConfigsRequest([wire.AlterConfigsResource(_BROKER, "", [change])])
    client.ask(request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        ("7", "not be greater than double the current value 3"),
        ("100", "not be greater than double the current value 3"),
    ],
)
def test_processors_at_most_double_at_a_time(value: str, limit: str) -> None:
    world = World(nodes=(1,), settings=_SETTINGS)
    client = world.client()
    _asked(client, value)
    assert world.calls == []
    (outcome,) = client.answers[0].responses
    said = f"Dynamic thread count update validation failed for {_KEY}={value}, value should {limit}"
    assert (outcome.error_code, outcome.error_message) == (ErrorCode.INVALID_REQUEST, said)


def test_what_is_set_at_run_time_is_the_current_number() -> None:
    world = World(nodes=(1,), settings=_SETTINGS)
    world.update(broker_configs=[BrokerConfigs(ALL_BROKERS, {_KEY: "16"})])
    client = world.client()
    _asked(client, "7")
    assert world.calls == []
    assert client.answers[0].responses[0].error_message.endswith("value should be at least half the current value 16")


@pytest.mark.parametrize(("value", "operation"), [("6", _SET), ("1", _SET), ("x", _SET), ("0", _SET), (None, _DELETE)])
def test_steps_that_are_small_and_values_that_are_none_are_the_controllers(value: str | None, operation: int) -> None:
    world = World(nodes=(1,), settings=_SETTINGS)
    _asked(world.client(), value, operation)
    assert len(world.calls) == 1
