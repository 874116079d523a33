"""WriteTxnMarkers of operators: the leader of each partition is asked, whichever broker the client has asked."""

from __future__ import annotations

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.gateway.permissions import deny_everything
from tests.unit.gateway.world import Client, World, topic

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def marker(producer_id: int, *topics: WritableTxnMarkerTopic, epoch: int = 3) -> WritableTxnMarker:
    return WritableTxnMarker(producer_id, epoch, False, list(topics), 9, 2)


def world_of_two() -> World:
    return World(topic("t", leaders=(1, 2, 1, -1)), topic("u", b"u" * 16, (2,)), nodes=(1, 2))


def write(client: Client, *markers: WritableTxnMarker, version: int = 2) -> None:
    client.ask(WriteTxnMarkersRequest(list(markers)), ApiKey.WRITE_TXN_MARKERS, version)


def results(client: Client) -> list[tuple[int, str, int, int]]:
    return [
        (of_marker.producer_id, of_topic.name, each.partition_index, each.error_code)
        for of_marker in client.answers[-1].markers
        for of_topic in of_marker.topics
        for each in of_topic.partitions
    ]


def answer(world: World, node_id: int, *errors: int) -> None:
    """Answer what the logstore was asked with these errors, in order."""
    request = world.logstores[node_id].group_request()
    left = list(errors)
    markers = [
        WritableTxnMarkerResult(
            each.producer_id,
            [
                WritableTxnMarkerTopicResult(
                    of.name, [WritableTxnMarkerPartitionResult(index, left.pop(0)) for index in of.partition_indexes]
                )
                for of in each.topics
            ],
        )
        for each in request.markers
    ]
    assert not left
    world.logstores[node_id].group_answer(WriteTxnMarkersResponse(markers))


@pytest.mark.parametrize("version", [1, 2])
def test_each_leader_gets_its_partitions_and_the_marker_unchanged(version: int) -> None:
    world = world_of_two()
    client = world.client()
    topics = [WritableTxnMarkerTopic("t", [0, 1, 2]), WritableTxnMarkerTopic("u", [0])]
    write(client, marker(7, *topics), marker(8, WritableTxnMarkerTopic("t", [2])), version=version)
    first, second = (world.logstores[node_id].group_request().markers for node_id in (1, 2))
    expected = marker(7, WritableTxnMarkerTopic("t", [0, 2])), marker(8, WritableTxnMarkerTopic("t", [2]))
    others = marker(7, WritableTxnMarkerTopic("t", [1]), WritableTxnMarkerTopic("u", [0]))
    for each in (*expected, others):
        each.transaction_version = 2 if version >= 2 else 0
    assert first == list(expected)
    assert second == [others]
    answer(world, 2, ErrorCode.INVALID_PRODUCER_EPOCH, 0)
    assert not client.answers
    answer(world, 1, 0, NOT_LEADER, 0)
    assert results(client) == [
        (7, "t", 0, 0),
        (7, "t", 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (7, "t", 2, NOT_LEADER),
        (7, "u", 0, 0),
        (8, "t", 2, 0),
    ]


def test_a_producer_that_is_named_twice_has_each_of_its_results() -> None:
    world = world_of_two()
    client = world.client()
    twice = [marker(7, WritableTxnMarkerTopic("t", [0]), epoch=epoch) for epoch in (3, 4)]
    write(client, *twice)
    assert [each.producer_epoch for each in world.logstores[1].group_request().markers] == [3, 4]
    answer(world, 1, ErrorCode.INVALID_PRODUCER_EPOCH, 0)
    assert [each[3] for each in results(client)] == [ErrorCode.INVALID_PRODUCER_EPOCH, 0]


def test_what_does_not_exist_and_what_has_no_leader() -> None:
    world = world_of_two()
    client = world.client()
    write(client, marker(7, WritableTxnMarkerTopic("t", [3, 4]), WritableTxnMarkerTopic("absent", [0])))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each[3] for each in results(client)] == [NOT_LEADER, unknown, unknown]


def test_a_leader_that_does_not_answer_may_be_asked_again() -> None:
    world = world_of_two()
    client = world.client()
    write(client, marker(7, WritableTxnMarkerTopic("t", [0])))
    world.logstores[1].group_answer(error_code=ErrorCode.NOT_COORDINATOR)
    assert [each[3] for each in results(client)] == [NOT_LEADER]
    write(client, marker(7, WritableTxnMarkerTopic("t", [0])))
    world.pass_ms(60_000)
    assert [each[3] for each in results(client)] == [NOT_LEADER]


def test_without_a_right_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of_two()
    client = world.client()
    deny_everything(monkeypatch)
    write(client, marker(7, WritableTxnMarkerTopic("t", [0])))
    assert [each[3] for each in results(client)] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert not world.logstores[1].group_calls


def test_no_markers_are_none_to_write() -> None:
    world = world_of_two()
    client = world.client()
    write(client)
    assert client.answers[-1].markers == []
