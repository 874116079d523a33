"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments; replicas in what Metadata tells."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from barnabas.cluster.messages import (
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    ElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionMetadata,
    Reassignment,
    ReassignmentResult,
    TopicMetadata,
    TopicPartition,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest as WireElectLeaders
from barnabas.wire.messages.elect_leaders import TopicPartitions
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.wire.messages.metadata import MetadataRequest
from tests.unit.gateway.permissions import deny_everything
from tests.unit.gateway.world import TOPIC_ID, Client, World, topic

PENDING = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch) -> None:
    deny_everything(monkeypatch)


# --- ElectLeaders ----------------------------------------------------------------------------------------------------


def elect(client: Client, *topics: TopicPartitions, version: int = 2, kind: int = 0, everything: bool = False) -> None:
    asked = None if everything else list(topics)
    client.ask(WireElectLeaders(kind, asked, 1000), ApiKey.ELECT_LEADERS, version)


def elections(client: Client) -> dict[tuple[str, int], tuple[int, str | None]]:
    return {
        (topic.topic, each.partition_id): (each.error_code, each.error_message)
        for topic in client.answers[-1].replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_controller_elects_and_the_answer_waits_for_its_revision(version: int) -> None:
    world = World()
    client = world.client()
    elect(client, TopicPartitions("a", [0, 1]), TopicPartitions("b", [0]), version=version)
    asked = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
    assert [call.request for call in world.calls] == [ElectLeadersRequest(0, False, asked, 1000)]
    needless = ErrorCode.ELECTION_NOT_NEEDED
    results = [
        ElectionResult("a", 0, 0),
        ElectionResult("a", 1, needless, needless.message),
        ElectionResult("b", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as b"),
    ]
    world.controller_answers(ElectLeadersResponse(results, world.revision + 1))
    assert client.answers == []
    world.update()
    assert elections(client) == {
        ("a", 0): (0, None),
        ("a", 1): (needless, needless.message),
        ("b", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as b"),
    }
    assert client.answers[-1].error_code == 0


def test_null_asks_for_all_that_need_an_election_and_tells_what_was_elected() -> None:
    world = World(topic("a", leaders=(1, -1)))
    client = world.client()
    elect(client, kind=1, everything=True)
    asked = [TopicPartition("a", 1)]
    assert [call.request for call in world.calls] == [ElectLeadersRequest(1, False, asked, 1000)]
    world.controller_answers(ElectLeadersResponse([ElectionResult("a", 1, 0)], world.revision))
    assert elections(client) == {("a", 1): (0, None)}
    assert client.answers[-1].error_code == 0


def test_an_election_without_an_answer_has_timed_out() -> None:
    world = World(topic("a", leaders=(1, -1)))
    named, everything = world.client(), world.client()
    elect(named, TopicPartitions("a", [0]))
    elect(everything, kind=1, everything=True)
    world.pass_ms(60_000)
    assert elections(named) == {("a", 0): PENDING}
    assert everything.answers[-1].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_an_election_type_that_kafka_does_not_have_is_invalid() -> None:
    world = World()
    client = world.client()
    elect(client, TopicPartitions("a", [0]), kind=2)
    assert world.calls == []
    assert client.answers[-1].error_code == ErrorCode.INVALID_REQUEST
    assert elections(client)["a", 0][0] == ErrorCode.INVALID_REQUEST


def test_an_election_of_nothing_is_answered_at_once() -> None:
    world = World()
    client = world.client()
    elect(client)
    assert world.calls == []
    assert (client.answers[-1].error_code, elections(client)) == (0, {})


@pytest.mark.usefixtures("denied")
def test_elections_and_moves_need_to_be_allowed() -> None:
    world = World()
    client = world.client()
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elect(client, TopicPartitions("a", [0]))
    assert (client.answers[-1].error_code, elections(client)["a", 0][0]) == (code, code)
    move(client, {"a": {0: [1]}})
    assert (client.answers[-1].error_code, moves(client)["a", 0][0]) == (code, code)
    client.ask(ListPartitionReassignmentsRequest(), ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    assert client.answers[-1].error_code == code
    assert world.calls == []


# --- AlterPartitionReassignments -------------------------------------------------------------------------------------


def move(client: Client, topics: dict[str, dict[int, list[int] | None]], version: int = 1, **asked: Any) -> None:
    wanted = [
        ReassignableTopic(name, [ReassignablePartition(*each) for each in partitions.items()])
        for name, partitions in topics.items()
    ]
    request = AlterPartitionReassignmentsRequest(1000, topics=wanted, **asked)
    client.ask(request, ApiKey.ALTER_PARTITION_REASSIGNMENTS, version)


def moves(client: Client) -> dict[tuple[str, int], tuple[int, str | None]]:
    return {
        (topic.name, each.partition_index): (each.error_code, each.error_message)
        for topic in client.answers[-1].responses
        for each in topic.partitions
    }


def test_moves_and_cancellations_are_the_controller_s() -> None:
    world = World()
    client = world.client()
    move(client, {"a": {0: [1, 2], 1: None}, "b": {0: []}}, allow_replication_factor_change=False)
    asked = [Reassignment("a", 0, [1, 2]), Reassignment("a", 1, [])]
    assert [call.request for call in world.calls] == [AlterReassignmentsRequest(asked, 1000, False)]
    none = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    results = [ReassignmentResult(0), ReassignmentResult(none, none.message)]
    world.controller_answers(AlterReassignmentsResponse(results, world.revision + 1))
    assert client.answers == []
    world.update()
    empty = "The manual partition assignment includes an empty replica list."
    assert moves(client) == {
        ("a", 0): (0, None),
        ("a", 1): (none, none.message),
        ("b", 0): (ErrorCode.INVALID_REPLICA_ASSIGNMENT, empty),
    }
    assert not client.answers[-1].allow_replication_factor_change


def test_version_0_may_change_the_number_of_replicas() -> None:
    world = World()
    move(world.client(), {"a": {0: [1]}}, version=0)
    assert [call.request for call in world.calls] == [
        AlterReassignmentsRequest([Reassignment("a", 0, [1])], 1000, True)
    ]


def test_a_move_without_an_answer_has_timed_out() -> None:
    world = World()
    client = world.client()
    move(client, {"a": {0: [1]}})
    world.pass_ms(60_000)
    assert moves(client) == {("a", 0): PENDING}


def test_a_partition_that_is_asked_for_twice_is_not_moved() -> None:
    world = World()
    client = world.client()
    twice = [ReassignableTopic("a", [ReassignablePartition(0, [1]), ReassignablePartition(0, [2])])]
    request = AlterPartitionReassignmentsRequest(1000, topics=twice)
    client.ask(request, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1)
    assert [each.error_code for each in client.answers[-1].responses[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2
    assert world.calls == []


# --- answers about replicas ----------------------------------------------------------------------------------------


def moving_topic() -> TopicMetadata:
    still = PartitionMetadata(0, 1, 5, 0, (1, 9), (1,), eligible_leader_replicas=(9,))
    moving = PartitionMetadata(1, 1, 5, 0, (3, 1, 2), (1, 2), adding_replicas=(3,), removing_replicas=(1, 2))
    return TopicMetadata("t", TOPIC_ID, {}, [still, moving])


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        (None, [("t", 1)]),
        ([("t", [0, 1, 7]), ("t", [1]), ("nothing", [0])], [("t", 1)]),
        ([("t", [0])], []),
        ([], []),
    ],
)
def test_moves_under_way_are_listed(asked: list[tuple[str, list[int]]] | None, reported: list[tuple[str, int]]) -> None:
    world = World()
    world.update(moving_topic())
    client = world.client()
    topics = None if asked is None else [ListPartitionReassignmentsTopics(*each) for each in asked]
    client.ask(ListPartitionReassignmentsRequest(1000, topics), ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    found = [(topic.name, each) for topic in client.answers[-1].topics for each in topic.partitions]
    assert [(name, each.partition_index) for name, each in found] == reported
    for _, each in found:
        assert (each.replicas, each.adding_replicas, each.removing_replicas) == ([3, 1, 2], [3], [1, 2])


def test_metadata_tells_replicas_that_are_offline() -> None:
    world = World()
    world.update(moving_topic())
    client = world.client()
    client.ask(MetadataRequest(None), ApiKey.METADATA, 12)
    first = client.answers[-1].topics[0].partitions[0]
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ([1, 9], [1], [9])


def test_describe_topic_partitions_tells_who_else_may_lead() -> None:
    world = World()
    world.update(moving_topic())
    client = world.client()
    request = DescribeTopicPartitionsRequest([TopicRequest("t")])
    client.ask(request, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    first, second = client.answers[-1].topics[0].partitions
    assert (first.eligible_leader_replicas, first.offline_replicas) == ([9], [9])
    assert second.eligible_leader_replicas == []


def test_a_leader_that_a_logstore_names_leaves_the_rest_of_a_partition_as_it_is() -> None:
    world = World()
    world.update(moving_topic())
    image = world.processor.image
    before = image.partition(TOPIC_ID, 1)
    assert before is not None
    assert image.adopt_leader(TOPIC_ID, 1, 2, 6)
    assert image.partition(TOPIC_ID, 1) == structs.replace(before, leader=2, leader_epoch=6)
