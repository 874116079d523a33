"""Which logstore coordinates a group, FindCoordinator, and the making of `__consumer_offsets`."""

from __future__ import annotations

import pytest

from barnabas.cluster.internal_topics import java_hash, partition_of_group
from barnabas.cluster.messages import CreateTopicResult, CreateTopicsRequest, CreateTopicsResponse, NewTopic
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from tests.unit.gateway.groups import by_partition, group_world, offsets_topic
from tests.unit.gateway.permissions import deny_everything
from tests.unit.gateway.world import Client, World, topic

UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("group_id", "number", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("hello", 99162322, 22),
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -(1 << 31), 0),
        ("group-\u00e9", 293427483, 33),
        ("\U0001f600-orders", 1731754639, 39),
    ],
)
def test_a_group_has_the_partition_that_kafka_gives_it(group_id: str, number: int, partition: int) -> None:
    """The numbers are those of a JVM with Kafka's `Utils.abs`."""
    assert java_hash(group_id) == number
    assert partition_of_group(group_id, 50) == partition


def find(client: Client, *keys: str, version: int = 4) -> list[tuple[int, int, str, int]]:
    if version >= 4:
        client.ask(FindCoordinatorRequest(coordinator_keys=list(keys)), ApiKey.FIND_COORDINATOR, version)
        found = client.answers[-1].coordinators
        assert [each.key for each in found] == list(keys)
    else:
        client.ask(FindCoordinatorRequest(keys[0]), ApiKey.FIND_COORDINATOR, version)
        found = [client.answers[-1]]
    return [(each.error_code, each.node_id, each.host, each.port) for each in found]


@pytest.mark.parametrize("version", range(7))
def test_the_leader_of_its_partition_coordinates_a_group(version: int) -> None:
    client = group_world(1, 2).client()
    (first,), (second,) = by_partition(2)
    assert find(client, first, version=version) == [(0, 1, "kafka.example", 9094)]
    assert find(client, second, version=version) == [(0, 2, "kafka.example", 9095)]


def test_several_groups_are_found_at_once() -> None:
    client = group_world(1, 2).client()
    (first,), (second,) = by_partition(2)
    assert [node_id for _, node_id, _, _ in find(client, second, first, second)] == [2, 1, 2]


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_the_first_who_looks_for_a_coordinator_has_the_topic_made(version: int) -> None:
    world = World()
    client = world.client()
    nowhere = [(UNAVAILABLE, -1, "", -1)]
    assert find(client, "g", version=version) == nowhere
    assert [call.request for call in world.calls] == [
        CreateTopicsRequest([NewTopic("__consumer_offsets", -1, -1)], 5_000)
    ]
    assert find(client, "g", version=version) == nowhere
    assert len(world.calls) == 1, "it has been asked for"
    made = CreateTopicResult("__consumer_offsets", bytes(16), ErrorCode.NONE, "", 1, 1, {})
    world.controller_answers(CreateTopicsResponse([made], world.revision + 1))
    world.update(topic(), offsets_topic(1))
    assert find(client, "g", version=version) == [(0, 1, "kafka.example", 9094)]
    assert not world.calls


def test_a_topic_that_could_not_be_made_is_asked_for_again_after_a_while() -> None:
    world = World()
    client = world.client()
    find(client, "g")
    world.controller_answers(None)
    find(client, "g")
    assert not world.calls, "clients ask ten times a second"
    world.pass_ms(1_000)
    find(client, "g")
    assert len(world.calls) == 1
    # The controller says nothing at all.
    world.pass_ms(5_000)
    find(client, "g")
    assert len(world.calls) == 2


def test_a_group_request_has_the_topic_made_too() -> None:
    world = World()
    client = world.client()
    client.ask(HeartbeatRequest("g", 1, "m"), ApiKey.HEARTBEAT, 4)
    assert client.answers[-1].error_code == ErrorCode.NOT_COORDINATOR
    assert len(world.calls) == 1


def test_a_partition_without_a_leader_that_lives_has_no_coordinator() -> None:
    world = group_world(1, -1, 1, 9)
    client = world.client()
    (_,), (leaderless,), (_,), (dead,) = by_partition(4)
    del world.logstores[9]
    world.update(topic(), offsets_topic(1, -1, 1, 9))
    assert [error for error, _, _, _ in find(client, leaderless, dead)] == [UNAVAILABLE, UNAVAILABLE]
    for group_id in (leaderless, dead):
        client.ask(HeartbeatRequest(group_id, 1, "m"), ApiKey.HEARTBEAT, 4)
        assert client.answers[-1].error_code == ErrorCode.NOT_COORDINATOR
    assert not world.calls


def test_who_may_not_describe_a_group_does_not_learn_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    deny_everything(monkeypatch)
    client = group_world().client()
    assert find(client, "g") == [(ErrorCode.GROUP_AUTHORIZATION_FAILED, -1, "", -1)]


def test_a_request_is_served_wherever_it_comes_in() -> None:
    world = group_world(1, 2)
    (_,), (second,) = by_partition(2)
    client = world.client(node_id=1)
    client.ask(HeartbeatRequest(second, 1, "m"), ApiKey.HEARTBEAT, 4)
    assert [call.partition for call in world.logstores[2].group_calls] == [1]
    assert not world.logstores[1].group_calls


def test_only_who_joins_is_named_to_the_coordinator() -> None:
    world = group_world()
    world.client().ask(HeartbeatRequest("g", 1, "m"), ApiKey.HEARTBEAT, 4)
    world.client().ask(JoinGroupRequest("g", 10_000, 60_000, "", None, "consumer", []), ApiKey.JOIN_GROUP, 9)
    assert [(call.client_id, call.client_host) for call in world.logstore.group_calls] == [
        ("", ""),
        ("client", "/10.0.0.1"),
    ]
