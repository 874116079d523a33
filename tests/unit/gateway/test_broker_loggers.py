"""Broker loggers at the gateway: described and changed by the logstore with the broker's id (KIP-412)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cluster import administration as contract
from barnabas.cluster.administration import DescribedConfig, DescribedResource, LoggerChange
from barnabas.cluster.messages import AlterConfigsResponse, AlterConfigsResult
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs
from tests.unit.gateway.permissions import deny_everything
from tests.unit.gateway.test_configs import BROKER, BROKER_LOGGER, TOPIC, describe, incremental, outcomes
from tests.unit.gateway.world import World

SET, DELETE = 0, 1
DEBUG = [("logstore", SET, "DEBUG")]
TIMED_OUT = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)


def test_loggers_are_described_by_their_broker() -> None:
    world = World(nodes=(1, 2))
    client = world.client(node_id=1)
    describe(client, (BROKER_LOGGER, "2"), (BROKER, "2"), keys=["logstore", "root"])
    assert not world.logstores[1].calls
    loggers, broker = world.logstores[2].calls
    resource = contract.ConfigResource(BROKER_LOGGER, "2", False, ["logstore", "root"])
    assert loggers.request == contract.DescribeConfigsRequest([resource], False, False)
    assert broker.request.resources[0].resource_type == BROKER  # type: ignore[union-attr]
    found = [DescribedConfig(name, False, "INFO", False, 6, False, [], 0, "") for name in ("root", "logstore")]
    world.logstores[2].answer_call(contract.DescribeConfigsResponse([DescribedResource(0, configs=found)]))
    world.logstores[2].answer_call(contract.DescribeConfigsResponse([DescribedResource(0)]))
    described, of_broker = client.answers[0].results
    assert (described.error_code, described.resource_type, described.resource_name) == (0, BROKER_LOGGER, "2")
    assert [(each.name, each.value, each.config_source) for each in described.configs] == [
        ("logstore", "INFO", 6),
        ("root", "INFO", 6),
    ]
    assert of_broker.configs == []


@pytest.mark.parametrize("validate_only", [False, True])
def test_levels_are_changed_by_their_broker_and_the_controller_is_not_asked(validate_only: bool) -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    changes: list[tuple[str, int, str | None]] = [("logstore", SET, "DEBUG"), ("streams", DELETE, None)]
    incremental(client, (BROKER_LOGGER, "2", changes), validate_only=validate_only)
    assert not world.logstores[1].calls
    (call,) = world.logstores[2].calls
    asked = [LoggerChange("logstore", SET, "DEBUG"), LoggerChange("streams", DELETE, "")]
    assert call.request == contract.AlterBrokerLoggersRequest(2, asked, validate_only)
    world.logstores[2].answer_call(contract.AlterBrokerLoggersResponse(0))
    assert outcomes(client.answers[0]) == [(0, None)]
    assert not world.calls
    audited = [(log.event, log.fields["verdict"]) for log in world.logs if log.event.startswith("config")]
    assert audited == ([] if validate_only else [("config changed", "done")])


def test_brokers_change_their_loggers_before_the_controller_is_asked() -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    incremental(
        client,
        (TOPIC, "t", [("flush.ms", SET, "5")]),
        (BROKER_LOGGER, "1", DEBUG),
        (BROKER_LOGGER, "2", DEBUG),
        (BROKER_LOGGER, "2", DEBUG),
        (BROKER_LOGGER, "02", DEBUG),
        (7, "x", []),
    )
    refused = contract.AlterBrokerLoggersResponse(ErrorCode.INVALID_CONFIG, "Why.")
    world.logstores[2].answer_call(refused)
    assert not world.calls
    world.logstores[1].answer_call(contract.AlterBrokerLoggersResponse(0))
    (call,) = world.calls
    assert [each.resource_name for each in call.request.resources] == ["t"]  # type: ignore[union-attr]
    world.controller_answers(AlterConfigsResponse([AlterConfigsResult(0)], 0))
    twice = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert outcomes(client.answers[0]) == [
        (0, None),
        (0, None),
        twice,
        twice,
        (ErrorCode.INVALID_CONFIG, "Why."),
        (ErrorCode.INVALID_REQUEST, "Unknown resource type 7"),
    ]


@pytest.mark.parametrize("lost", [True, False])
def test_a_broker_that_does_not_answer_does_not_keep_the_rest_waiting(lost: bool) -> None:
    world = World()
    client = world.client()
    incremental(client, (BROKER_LOGGER, "1", DEBUG), (TOPIC, "t", []))
    if lost:
        world.logstore.answer_call(None)
    else:
        world.pass_ms(5_100)
        assert not world.logstore.calls
    world.controller_answers(AlterConfigsResponse([AlterConfigsResult(0)], 0))
    assert outcomes(client.answers[0]) == [TIMED_OUT, (0, None)]
    audited = [(log.event, log.fields["verdict"]) for log in world.logs if "perhaps" in log.event]
    assert audited == [("config perhaps changed", "unknown")]


def test_a_controller_that_does_not_answer_leaves_loggers_changed() -> None:
    world = World()
    client = world.client()
    incremental(client, (BROKER_LOGGER, "1", DEBUG), (TOPIC, "t", []))
    world.logstore.answer_call(contract.AlterBrokerLoggersResponse(0))
    world.pass_ms(31_000)
    assert outcomes(client.answers[0]) == [(0, None), TIMED_OUT]


def test_a_broker_that_is_not_connected_has_timed_out() -> None:
    world = World()
    world.logstore.down()
    client = world.client()
    assert outcomes(incremental(client, (BROKER_LOGGER, "1", DEBUG))) == [TIMED_OUT]


def test_a_client_that_is_gone_waits_for_no_broker() -> None:
    world = World()
    client = world.client()
    incremental(client, (BROKER_LOGGER, "1", DEBUG))
    client.close()
    assert not world.logstore.calls


def test_what_no_broker_can_change_is_refused_here() -> None:
    world = World()
    client = world.client()
    incremental(
        client,
        (BROKER_LOGGER, "", DEBUG),
        (BROKER_LOGGER, "one", DEBUG),
        (BROKER_LOGGER, "7", DEBUG),
        (BROKER_LOGGER, "1", [("logstore", SET, None)]),
        (BROKER_LOGGER, "01", [*DEBUG, *DEBUG]),
        (BROKER_LOGGER, "001", [(f"logger{number}", SET, "DEBUG") for number in range(501)]),
    )
    while world.processor.responder.steps.has_work():
        world.turn()
    wrong = ErrorCode.INVALID_REQUEST
    assert outcomes(client.answers[0]) == [
        (wrong, "Node id must be an integer, but it is: "),
        (wrong, "Node id must be an integer, but it is: one"),
        (wrong, "Unexpected node id. Expected one of 1, but received 7"),
        (wrong, "Null value not supported for : logstore"),
        (wrong, "Error due to duplicate config keys"),
        (wrong, "A broker has no more than 500 loggers."),
    ]
    assert not world.logstore.calls
    assert not world.calls


def test_alter_configs_knows_no_loggers() -> None:
    world = World()
    client = world.client()
    resource = alter_configs.AlterConfigsResource(BROKER_LOGGER, "1", [])
    client.ask(alter_configs.AlterConfigsRequest([resource]), ApiKey.ALTER_CONFIGS, 2)
    assert outcomes(client.answers[0]) == [(ErrorCode.INVALID_REQUEST, "Unknown resource type 8")]


def test_rights_on_the_cluster_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    deny_everything(monkeypatch)
    world = World()
    answer: Any = describe(world.client(), (BROKER_LOGGER, "1"))
    assert answer.results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = incremental(world.client(), (BROKER_LOGGER, "1", DEBUG))
    assert answer.responses[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not world.logstore.calls


def test_an_answer_that_its_failed_request_does_not_know_is_dropped() -> None:
    """Seed 17 of runs with exceptions: the call was made as one ended the request, and its answer was a second one."""
    world = World()
    world.expects_fault = True
    client = world.client()
    incremental(client, (BROKER_LOGGER, "1", DEBUG))
    (connection,) = world.processor.connections._connections.values()
    (pending,) = connection.requests
    pending._logger_calls.clear()
    pending.failed(ValueError("planted"))
    world.turn()
    assert len(world.contained) == 1
    world.logstore.answer_call(contract.AlterBrokerLoggersResponse(0, ""))
    assert len(world.contained) == 1
