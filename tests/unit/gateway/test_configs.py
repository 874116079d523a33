"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, CreatePartitions and ListConfigResources."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cluster import administration as contract
from barnabas.cluster.administration import DescribedConfig, DescribedResource
from barnabas.cluster.config_description import Setting
from barnabas.cluster.messages import (
    ALL_BROKERS,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    Assignment,
    BrokerConfigs,
    ConfigChange,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    NewPartitions,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs, create_partitions, describe_configs, incremental_alter_configs
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.unit.gateway.permissions import deny_everything
from tests.unit.gateway.world import Client, World, topic

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SETTINGS = {
    "num.network.threads": Setting("3", "3", False),
    "listeners": Setting("PLAINTEXT://:9092", "PLAINTEXT://127.0.0.1:9092", True),
    "log.level": Setting("debug", "info", True),
}


def versions(key: ApiKey) -> range:
    return range(key.version_min, key.version_max + 1)


def config(name: str, value: str | None = "1", source: int = 5) -> DescribedConfig:
    return DescribedConfig(name, value is None, value or "", False, source, False, [], 3, "")


# --- DescribeConfigs ---


def describe(
    client: Client, *resources: tuple[int, str], version: int = 4, keys: list[str] | None = None, **flags: bool
) -> Any:
    asked = [describe_configs.DescribeConfigsResource(kind, name, keys) for kind, name in resources]
    client.ask(describe_configs.DescribeConfigsRequest(asked, **flags), ApiKey.DESCRIBE_CONFIGS, version)
    return client.answers[-1] if client.answers else None


def described(*results: DescribedResource) -> contract.DescribeConfigsResponse:
    return contract.DescribeConfigsResponse(list(results))


def refusals(answer: Any) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in answer.results]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
def test_topics_are_described_by_a_logstore(version: int) -> None:
    world = World()
    client = world.client()
    assert describe(client, (TOPIC, "t"), version=version, keys=["flush.ms"], include_synonyms=True) is None
    (call,) = world.logstore.calls
    assert call.request == contract.DescribeConfigsRequest(
        [contract.ConfigResource(TOPIC, "t", False, ["flush.ms"])], True, False
    )
    world.logstore.answer_call(described(DescribedResource(0, configs=[config("flush.ms", "5", source=1)])))
    (result,) = client.answers[0].results
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "t")
    (reported,) = result.configs
    assert (reported.name, reported.value, reported.config_source) == ("flush.ms", "5", 1)
    assert reported.config_type == (3 if version >= 3 else 0)


@pytest.mark.parametrize("keys", [None, []])
def test_no_keys_are_all_keys(keys: list[str] | None) -> None:
    world = World()
    describe(world.client(), (TOPIC, "t"), keys=keys)
    assert world.logstore.calls[0].request.resources == [contract.ConfigResource(TOPIC, "t", True, [])]  # type: ignore[union-attr]


def test_the_next_logstore_is_asked_when_one_does_not_answer() -> None:
    world = World(nodes=(1, 2, 3))
    client = world.client()
    describe(client, (TOPIC, "t"))
    order = [node_id for node_id, each in world.logstores.items() if each.calls]
    for _ in range(2):
        (asked,) = [each for each in world.logstores.values() if each.calls]
        asked.answer_call(None)
        order += [node_id for node_id, each in world.logstores.items() if each.calls]
    assert sorted(order) == [1, 2, 3]
    (asked,) = [each for each in world.logstores.values() if each.calls]
    asked.answer_call(described(DescribedResource(0, configs=[config("flush.ms")])))
    assert client.answers[0].results[0].error_code == ErrorCode.NONE


def test_when_no_logstore_answers_it_has_timed_out() -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    describe(client, (TOPIC, "t"))
    for _ in range(2):
        (asked,) = [each for each in world.logstores.values() if each.calls]
        asked.answer_call(None)
    assert refusals(client.answers[0]) == [(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)]
    silent = world.client()
    describe(silent, (TOPIC, "t"))
    world.pass_ms(31_000)
    assert refusals(silent.answers[0]) == [(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)]


def test_a_broker_that_is_live_but_not_connected_yet_is_waited_for() -> None:
    """Just after a start it would have been REQUEST_TIMED_OUT, at once."""
    world = World(nodes=(1, 2))
    world.logstores[2].down()
    client = world.client()
    describe(client, (BROKER, "2"), (BROKER, "1"))
    world.logstores[1].answer_call(described(DescribedResource(0, configs=[config("flush.ms")])))
    world.pass_ms(1_000)
    assert not client.answers
    world.logstores[2].up()
    world.pass_ms(60)
    world.logstores[2].answer_call(described(DescribedResource(0, configs=[config("flush.ms")])))
    assert [each.error_code for each in client.answers[0].results] == [ErrorCode.NONE] * 2


def test_a_broker_that_stays_unconnected_has_timed_out_after_five_seconds() -> None:
    world = World(nodes=(1, 2))
    world.logstores[2].down()
    client = world.client()
    describe(client, (BROKER, "2"))
    world.pass_ms(4_900)
    assert not client.answers
    world.pass_ms(200)
    assert refusals(client.answers[0]) == [(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)]


def test_many_topics_are_asked_for_in_pieces() -> None:
    names = [f"t{number}" for number in range(250)]
    world = World(*(topic(name, name.encode().ljust(16, b"x")) for name in names))
    client = world.client()
    describe(client, *((TOPIC, name) for name in names))
    while world.logstore.calls:
        request = world.logstore.calls[0].request
        assert isinstance(request, contract.DescribeConfigsRequest)
        assert len(request.resources) <= 100
        results = [DescribedResource(0, configs=[config(each.resource_name)]) for each in request.resources]
        world.logstore.answer_call(described(*results))
    while world.processor.responder.steps.has_work():
        world.turn()
    assert [each.configs[0].name for each in client.answers[0].results] == names


def test_a_broker_is_described_by_itself_and_this_gateway() -> None:
    world = World(nodes=(1, 2), settings=SETTINGS)
    client = world.client(node_id=1)
    describe(client, (BROKER, "2"))
    assert not world.logstores[1].calls
    answer = [config("node.id", "2", 4), config("listeners", "127.0.0.1:9300"), config("log.level", "info")]
    world.logstores[2].answer_call(described(DescribedResource(0, configs=answer)))
    reported = {each.name: (each.value, each.config_source) for each in client.answers[0].results[0].configs}
    assert reported == {
        "listeners": ("PLAINTEXT://:9092", 4),
        "log.level": ("info", 5),
        "node.id": ("2", 4),
        "num.network.threads": ("3", 5),
    }
    assert list(reported) == sorted(reported)
    world.update(topic(), broker_configs=[BrokerConfigs(ALL_BROKERS, {"num.network.threads": "7"})])
    describe(client, (BROKER, "2"), keys=["num.network.threads"])
    world.logstores[2].answer_call(described(DescribedResource(0)))
    (found,) = client.answers[1].results[0].configs
    assert (found.value, found.config_source, found.read_only) == ("7", 3, False)


def test_what_all_brokers_were_given_is_known_here() -> None:
    world = World()
    world.update(topic(), broker_configs=[BrokerConfigs(ALL_BROKERS, {"log.roll.ms": "5"}), BrokerConfigs(1, {})])
    answer = describe(world.client(), (BROKER, ""))
    assert not world.logstore.calls
    assert [(each.name, each.value, each.config_source) for each in answer.results[0].configs] == [
        ("log.roll.ms", "5", 3)
    ]


def test_what_can_not_be_described_is_refused_here() -> None:
    world = World()
    answer = describe(
        world.client(),
        (TOPIC, "nobody"),
        (TOPIC, "a/b"),
        (BROKER, "x"),
        (BROKER, "7"),
        (BROKER_LOGGER, ""),
        (BROKER_LOGGER, "one"),
        (BROKER_LOGGER, "7"),
        (GROUP, "g"),
        (3, "z"),
        (3, "z"),
    )
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    wrong = ErrorCode.INVALID_REQUEST
    assert refusals(answer) == [
        (unknown, unknown.message),
        (invalid, invalid.message),
        (wrong, "Broker id must be an integer, but it is: x"),
        (wrong, "Unexpected broker id, expected one of 1, but received 7"),
        (wrong, "Broker id must not be empty"),
        (wrong, "Broker id must be an integer, but it is: one"),
        (wrong, "Unexpected broker id, expected one of 1, but received 7"),
        (wrong, "Configs of groups are not supported."),
        (wrong, "Unsupported resource type: 3"),
        (wrong, "Each resource must appear at most once."),
    ]
    assert not world.logstore.calls


def test_a_client_that_is_gone_waits_for_no_description() -> None:
    world = World()
    client = world.client()
    describe(client, (TOPIC, "t"))
    client.close()
    assert not world.logstore.calls


def test_only_who_may_describe_configs_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    deny_everything(monkeypatch)
    world = World()
    answer = describe(world.client(), (TOPIC, "t"), (BROKER, "1"), (GROUP, "g"))
    assert [each.error_code for each in answer.results] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ]
    assert not world.logstore.calls


# --- AlterConfigs and IncrementalAlterConfigs ---


def incremental(
    client: Client, *resources: tuple[int, str, list[tuple[str, int, str | None]]], version: int = 1, **flags: bool
) -> Any:
    asked = [
        incremental_alter_configs.AlterConfigsResource(
            kind, name, [incremental_alter_configs.AlterableConfig(*change) for change in changes]
        )
        for kind, name, changes in resources
    ]
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(asked, **flags)
    client.ask(request, ApiKey.INCREMENTAL_ALTER_CONFIGS, version)
    return client.answers[-1] if client.answers else None


def outcomes(answer: Any) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in answer.responses]


@pytest.mark.parametrize("version", versions(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_an_incremental_change_is_the_controllers_and_answered_when_this_gateway_knows(version: int) -> None:
    world = World()
    client = world.client()
    changes: list[tuple[str, int, str | None]] = [("flush.ms", 0, "5"), ("retention.ms", 1, None)]
    assert incremental(client, (TOPIC, "t", changes), version=version, validate_only=True) is None
    (call,) = world.calls
    asked = [ConfigChange("flush.ms", 0, "5"), ConfigChange("retention.ms", 1, "")]
    assert call.request == AlterConfigsRequest([AlterConfigsResource(TOPIC, "t", False, asked)], 30_000, True)
    world.controller_answers(AlterConfigsResponse([AlterConfigsResult(0)], world.revision + 1))
    assert client.answers == []
    world.update(topic())
    assert outcomes(client.answers[0]) == [(0, None)]
    assert (client.answers[0].responses[0].resource_type, client.answers[0].responses[0].resource_name) == (TOPIC, "t")


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
def test_a_full_change_replaces(version: int) -> None:
    world = World()
    client = world.client()
    resource = alter_configs.AlterConfigsResource(BROKER, "", [alter_configs.AlterableConfig("log.roll.ms", "5")])
    client.ask(alter_configs.AlterConfigsRequest([resource]), ApiKey.ALTER_CONFIGS, version)
    (call,) = world.calls
    change = AlterConfigsResource(BROKER, "", True, [ConfigChange("log.roll.ms", 0, "5")])
    assert call.request == AlterConfigsRequest([change], 30_000, False)
    world.controller_answers(AlterConfigsResponse([AlterConfigsResult(ErrorCode.INVALID_REQUEST, "No.")], -1))
    assert outcomes(client.answers[0]) == [(ErrorCode.INVALID_REQUEST, "No.")]


def test_what_is_wrong_by_itself_never_reaches_the_controller() -> None:
    world = World()
    client = world.client()
    nothing: list[tuple[str, int, str | None]] = []
    answer = incremental(
        client,
        (TOPIC, "twice", nothing),
        (TOPIC, "twice", nothing),
        (TOPIC, "t", [("a", 0, None), ("b", 1, None), ("c", 2, None)]),
        (TOPIC, "u", [("a", 0, "1"), ("a", 0, "2")]),
        (CLIENT_METRICS, "m", nothing),
        (7, "x", nothing),
    )
    wrong = ErrorCode.INVALID_REQUEST
    assert outcomes(answer) == [
        (wrong, "Each resource must appear at most once."),
        (wrong, "Each resource must appear at most once."),
        (wrong, "Null value not supported for : a, c"),
        (wrong, "Error due to duplicate config keys"),
        (wrong, "Client metrics are not supported."),
        (wrong, "Unknown resource type 7"),
    ]
    assert not world.calls


def test_a_message_that_quotes_the_request_fits_into_any_response() -> None:
    world = World()
    names = [letter * 20_000 for letter in "ab"]
    answer = incremental(world.client(), (TOPIC, "t", [(name, 0, None) for name in names]), version=0)
    ((code, message),) = outcomes(answer)
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert len(message) == 1000


def test_refused_and_asked_resources_keep_their_places() -> None:
    world = World()
    client = world.client()
    incremental(client, (7, "x", []), (TOPIC, "t", []), (TOPIC, "u", []))
    answer = AlterConfigsResponse([AlterConfigsResult(0), AlterConfigsResult(ErrorCode.INVALID_CONFIG, "Why.")], 0)
    world.controller_answers(answer)
    assert [each.error_code for each in client.answers[0].responses] == [42, 0, ErrorCode.INVALID_CONFIG]


@pytest.mark.parametrize("lost", [True, False])
def test_no_answer_of_a_controller_is_a_timeout(lost: bool) -> None:
    world = World()
    client = world.client()
    incremental(client, (TOPIC, "t", []))
    if lost:
        world.controller_answers(None)
    else:
        world.pass_ms(31_000)
    assert outcomes(client.answers[0]) == [(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)]


def test_what_was_decided_is_reported_though_this_gateway_is_behind() -> None:
    world = World()
    client = world.client()
    incremental(client, (TOPIC, "t", []))
    world.controller_answers(AlterConfigsResponse([AlterConfigsResult(0)], world.revision + 1))
    world.pass_ms(31_000)
    assert outcomes(client.answers[0]) == [(0, None)]


def test_only_who_may_alter_configs_changes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    deny_everything(monkeypatch)
    world = World()
    answer = incremental(world.client(), (TOPIC, "t", []), (BROKER, "", []))
    assert [each.error_code for each in answer.responses] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]
    assert not world.calls


# --- CreatePartitions ---


def grow(client: Client, *topics: create_partitions.CreatePartitionsTopic, version: int = 3) -> Any:
    request = create_partitions.CreatePartitionsRequest(list(topics), 5_000)
    client.ask(request, ApiKey.CREATE_PARTITIONS, version)
    return client.answers[-1] if client.answers else None


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
def test_partitions_are_the_controllers_and_returned_when_this_gateway_knows_them(version: int) -> None:
    world = World()
    client = world.client()
    by_hand = [create_partitions.CreatePartitionsAssignment([1]), create_partitions.CreatePartitionsAssignment([2])]
    grow(
        client,
        create_partitions.CreatePartitionsTopic("t", 3, by_hand),
        create_partitions.CreatePartitionsTopic("u", 5, None),
        version=version,
    )
    (call,) = world.calls
    assert call.request == CreatePartitionsRequest(
        [NewPartitions("t", 3, [Assignment(0, [1]), Assignment(1, [2])]), NewPartitions("u", 5)], 5_000, False
    )
    results = [CreatePartitionsResult(0), CreatePartitionsResult(ErrorCode.INVALID_PARTITIONS, "Why.")]
    world.controller_answers(CreatePartitionsResponse(results, world.revision + 1))
    assert client.answers == []
    world.update(topic(leaders=(1, 1, 1)))
    reported = [(each.name, each.error_code, each.error_message) for each in client.answers[0].results]
    assert reported == [("t", 0, None), ("u", ErrorCode.INVALID_PARTITIONS, "Why.")]


def test_a_topic_that_is_asked_for_twice_is_refused_once() -> None:
    world = World()
    asked = create_partitions.CreatePartitionsTopic("t", 3, None)
    answer = grow(world.client(), asked, asked)
    assert [(each.name, each.error_code, each.error_message) for each in answer.results] == [
        ("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    ]
    assert not world.calls


def test_partitions_without_an_answer_are_a_timeout() -> None:
    world = World()
    client = world.client()
    grow(client, create_partitions.CreatePartitionsTopic("t", 3, None))
    world.pass_ms(6_000)
    assert client.answers[0].results[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_only_who_may_alter_a_topic_adds_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    deny_everything(monkeypatch)
    world = World()
    answer = grow(world.client(), create_partitions.CreatePartitionsTopic("t", 3, None))
    assert answer.results[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not world.calls


# --- ListConfigResources ---


def listed(world: World, *types: int, version: int = 1) -> Any:
    client = world.client()
    client.ask(ListConfigResourcesRequest(list(types)), ApiKey.LIST_CONFIG_RESOURCES, version)
    return client.answers[-1]


def test_topics_and_brokers_are_listed() -> None:
    world = World(nodes=(1, 2))
    every = [(each.resource_type, each.resource_name) for each in listed(world).config_resources]
    loggers = [(BROKER_LOGGER, "1"), (BROKER_LOGGER, "2")]
    assert every == [(TOPIC, "t"), *loggers, (BROKER, "1"), (BROKER, "2")]
    assert [each.resource_name for each in listed(world, BROKER).config_resources] == ["1", "2"]
    assert listed(world, GROUP, CLIENT_METRICS).config_resources == []
    assert listed(world, version=0).config_resources == []
    assert listed(world, 3).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_only_who_may_describe_configs_gets_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    deny_everything(monkeypatch)
    answer = listed(World())
    assert (answer.error_code, answer.config_resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
