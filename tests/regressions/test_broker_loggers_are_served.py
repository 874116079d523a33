"""Broker loggers were INVALID_REQUEST: `kafka-configs.sh --entity-type broker-loggers` neither showed nor changed any.

Each request goes through a gateway's core to a logstore's, and back.
"""

from __future__ import annotations

from tests.unit.gateway.test_configs import BROKER_LOGGER, describe, incremental, outcomes
from tests.unit.gateway.world import World
from tests.unit.logstore.service.support import Host
from tests.unit.logstore.service.test_administration import ask

SET, DELETE = 0, 1


def carry(world: World, host: Host) -> None:
    """Have the logstore answer the gateway's only call."""
    (call,) = world.logstore.calls
    world.logstore.answer_call(ask(host, call.request, call.call_id))


def test_a_level_is_changed_shown_and_taken_back() -> None:
    world, host = World(), Host()
    client = world.client()
    for change, shown in ((("logstore.links", SET, "DEBUG"), "DEBUG"), (("logstore.links", DELETE, None), "INFO")):
        incremental(client, (BROKER_LOGGER, "1", [change]))
        carry(world, host)
        assert outcomes(client.answers.pop()) == [(0, None)]
        describe(client, (BROKER_LOGGER, "1"))
        carry(world, host)
        (result,) = client.answers.pop().results
        assert result.error_code == 0
        assert {each.name: each.value for each in result.configs} == {
            "root": "INFO",
            "logstore": "INFO",
            "logstore.links": shown,
        }
