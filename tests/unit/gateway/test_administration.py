"""Requests that are put to logstores as calls, and DescribeTopicPartitions: grouping, errors, deadlines, lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.cluster import administration as contract
from barnabas.cluster.administration import (
    ActiveProducer,
    DeletedRecords,
    EndOffsetAnswer,
    EndOffsetQuery,
    EndOffsetsRequest,
    EndOffsetsResponse,
    LogDirDescription,
    LogDirReplica,
    PartitionProducers,
    ReplicaMove,
    TopicIdPartition,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, ProducerState
from barnabas.wire.messages.describe_producers import TopicRequest as ProducersTopic
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas_gateway.core.backends.logstore_admin_client import CALLS_UNDER_WAY_MAX
from barnabas_gateway.core.model.config import AddressPolicy
from tests.unit.gateway.world import TOPIC_ID, Client, World, topic

OTHER_ID = b"another topic id"
EPOCH_VERSIONS = range(ApiKey.OFFSET_FOR_LEADER_EPOCH.version_min, ApiKey.OFFSET_FOR_LEADER_EPOCH.version_max + 1)


def ask_epochs(
    client: Client, *partitions: int, name: str = "t", version: int = 4, replica_id: int = -1, current: int = 5
) -> None:
    asked = [OffsetForLeaderPartition(partition, current, 3) for partition in partitions or (0,)]
    request = OffsetForLeaderEpochRequest(replica_id, [OffsetForLeaderTopic(name, asked)])
    client.ask(request, ApiKey.OFFSET_FOR_LEADER_EPOCH, version)


def epochs(client: Client) -> list[tuple[int, int, int, int]]:
    return [
        (each.partition, each.error_code, each.leader_epoch, each.end_offset)
        for topic in client.answers[-1].topics
        for each in topic.partitions
    ]


def calls(world: World, node_id: int = 1) -> list[contract.AdministrationRequest]:
    return [call.request for call in world.logstores[node_id].calls]


# --- OffsetForLeaderEpoch, and what all calls have in common ---


@pytest.mark.parametrize("version", EPOCH_VERSIONS)
def test_leaders_are_asked_once_each_and_answers_keep_the_order(version: int) -> None:
    world = World(topic(leaders=(1, 2, 1)), nodes=(1, 2))
    client = world.client()
    ask_epochs(client, 2, 1, 0, version=version)
    assert calls(world, 1) == [EndOffsetsRequest([EndOffsetQuery(TOPIC_ID, each, 5, 3) for each in (2, 0)])]
    assert calls(world, 2) == [EndOffsetsRequest([EndOffsetQuery(TOPIC_ID, 1, 5, 3)])]
    world.logstores[2].answer_call(EndOffsetsResponse([EndOffsetAnswer(0, 3, 30)]))
    assert not client.answers
    fenced = ErrorCode.FENCED_LEADER_EPOCH
    world.logstores[1].answer_call(EndOffsetsResponse([EndOffsetAnswer(0, 2, 20), EndOffsetAnswer(fenced)]))
    assert epochs(client) == [(2, 0, 2, 20), (1, 0, 3, 30), (0, fenced, -1, -1)]


def test_what_is_unknown_or_a_replicas_business_is_not_asked() -> None:
    world = World()
    client = world.client()
    ask_epochs(client, 0, 9)
    ask_epochs(client, name="unknown")
    world.logstore.answer_call(EndOffsetsResponse([EndOffsetAnswer(0, 3, 30)]))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.error_code for answer in client.answers for partition in answer.topics[0].partitions] == [
        0,
        unknown,
        unknown,
    ]
    ask_epochs(client, replica_id=2)
    assert epochs(client) == [(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1)]
    assert not calls(world)


def test_a_leader_that_cannot_be_asked_is_no_leader() -> None:
    world = World(topic(leaders=(1, 2, -1)), nodes=(1, 2))
    client = world.client()
    world.logstores[2].down()
    ask_epochs(client, 0, 1, 2)
    world.logstores[1].answer_call(EndOffsetsResponse([EndOffsetAnswer(0, 3, 30)]))
    lost = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
    assert epochs(client) == [(0, 0, 3, 30), (1, *lost), (2, *lost)]


def test_calls_end_with_the_stream_and_by_an_answer_that_is_lost() -> None:
    world = World()
    client = world.client()
    ask_epochs(client)
    world.logstore.answer_call(None)
    assert epochs(client) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)]
    ask_epochs(client)
    world.logstore.down()
    assert epochs(client) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)]
    assert not calls(world), "cancelled at the logstore's end too"


def test_an_answer_after_the_deadline_changes_nothing() -> None:
    world = World(read_wait_ms_max=1_000)
    client = world.client()
    ask_epochs(client)
    late = world.logstore.calls[0]
    assert late.timeout_ms == 1_000
    world.pass_ms(1_100)
    assert epochs(client) == [(0, ErrorCode.REQUEST_TIMED_OUT, -1, -1)]
    assert not calls(world)
    world.processor.logstore_answered(late.call_id, EndOffsetsResponse([EndOffsetAnswer(0, 3, 30)]), world.now_ms)
    world.turn()
    assert len(client.answers) == 1


def test_a_client_that_goes_takes_its_calls_along() -> None:
    world = World()
    client = world.client()
    ask_epochs(client)
    client.close()
    assert not calls(world)


def test_a_short_answer_leaves_the_rest_unanswered() -> None:
    world = World(topic(leaders=(1, 1)))
    client = world.client()
    ask_epochs(client, 0, 1)
    world.logstore.answer_call(EndOffsetsResponse([EndOffsetAnswer(0, 3, 30)]))
    assert epochs(client) == [(0, 0, 3, 30), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)]


def test_calls_stand_in_line_by_kind() -> None:
    world = World()
    clients = [world.client() for _ in range(CALLS_UNDER_WAY_MAX + 2)]
    for client in clients:
        ask_epochs(client)
    assert len(calls(world)) == CALLS_UNDER_WAY_MAX
    other = world.client()
    describe_producers(other)
    assert isinstance(calls(world)[-1], contract.DescribeProducersRequest)
    clients[-1].close()
    world.logstore.answer_call(EndOffsetsResponse([EndOffsetAnswer(0, 3, 30)]))
    assert [type(call) for call in calls(world)].count(EndOffsetsRequest) == CALLS_UNDER_WAY_MAX
    clients[1].close()
    assert [type(call) for call in calls(world)].count(EndOffsetsRequest) == CALLS_UNDER_WAY_MAX - 1
    world.logstore.down()
    assert all(client.answers for client in clients[2:-1])
    assert len(other.answers) == 1


# --- DescribeProducers ---


def describe_producers(client: Client, *partitions: int, name: str = "t") -> None:
    request = DescribeProducersRequest([ProducersTopic(name, list(partitions or (0,)))])
    client.ask(request, ApiKey.DESCRIBE_PRODUCERS, 0)


def test_producers_come_from_the_leader() -> None:
    world = World()
    client = world.client()
    describe_producers(client, 0, 0, 4)
    assert calls(world) == [contract.DescribeProducersRequest([TopicIdPartition(TOPIC_ID, 0)])]
    world.logstore.answer_call(
        contract.DescribeProducersResponse([PartitionProducers(0, [ActiveProducer(7, 1, 9, 1234, -1, 55)])])
    )
    known, unknown = client.answers[0].topics[0].partitions
    assert (known.partition_index, known.error_code, known.error_message) == (0, 0, None)
    assert known.active_producers == [ProducerState(7, 1, 9, 1234, -1, 55)]
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (unknown.partition_index, unknown.error_code, unknown.error_message) == (4, error, error.message)


@pytest.mark.parametrize(
    ("name", "error"),
    [("no name!", ErrorCode.INVALID_TOPIC_EXCEPTION), ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_producers_of_no_topic(name: str, error: ErrorCode) -> None:
    client = World().client()
    describe_producers(client, name=name)
    assert client.answers[0].topics[0].partitions[0].error_code == error


# --- DeleteRecords ---


def delete_records(client: Client, *offsets: tuple[str, int, int], timeout_ms: int = 1_000, version: int = 2) -> None:
    topics = [DeleteRecordsTopic(name, [DeleteRecordsPartition(index, offset)]) for name, index, offset in offsets]
    client.ask(DeleteRecordsRequest(topics, timeout_ms), ApiKey.DELETE_RECORDS, version)


def deleted(client: Client) -> list[tuple[str, int, int, int]]:
    return [
        (topic.name, each.partition_index, each.error_code, each.low_watermark)
        for topic in client.answers[-1].topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_by_the_leader_at_the_offset_named_last(version: int) -> None:
    world = World()
    client = world.client()
    delete_records(client, ("t", 0, 4), ("absent", 0, 4), ("t", 0, 6), version=version)
    assert calls(world) == [contract.DeleteRecordsRequest(1_000, [contract.DeleteRecordsPartition(TOPIC_ID, 0, 6)])]
    world.logstore.answer_call(contract.DeleteRecordsResponse([DeletedRecords(0, 6)]))
    assert deleted(client) == [("t", 0, 0, 6), ("absent", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_internal_topics_keep_their_records() -> None:
    world = World(topic("__consumer_offsets"))
    client = world.client()
    delete_records(client, ("__consumer_offsets", 0, 4))
    assert deleted(client) == [("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]


def test_records_that_may_be_gone_are_a_timeout_and_those_that_are_not_are_not() -> None:
    world = World()
    client = world.client()
    delete_records(client, ("t", 0, 4), timeout_ms=-1)
    assert calls(world)[0] == contract.DeleteRecordsRequest(0, [contract.DeleteRecordsPartition(TOPIC_ID, 0, 4)])
    world.logstore.down()
    assert deleted(client) == [("t", 0, ErrorCode.REQUEST_TIMED_OUT, -1)]
    delete_records(client, ("t", 0, 4))
    assert deleted(client) == [("t", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


# --- log directories ---


def describe_log_dirs(client: Client, topics: list[DescribableLogDirTopic] | None = None, version: int = 5) -> Any:
    client.ask(DescribeLogDirsRequest(topics), ApiKey.DESCRIBE_LOG_DIRS, version)
    return client


def log_dirs(client: Client) -> list[tuple[str, int, list[str]]]:
    results = client.answers[-1].results
    return [(each.log_dir, each.error_code, [topic.name for topic in each.topics]) for each in results]


DIRS: Sequence[LogDirDescription] = [
    LogDirDescription(0, "/a", 100, 50, [LogDirReplica("t", 0, 17, 3, False), LogDirReplica("t", 1, 4, 0, True)]),
    LogDirDescription(ErrorCode.KAFKA_STORAGE_ERROR, "/b"),
]


@pytest.mark.parametrize("version", range(1, 6))
def test_a_brokers_own_port_describes_that_broker(version: int) -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2))
    client = world.client(node_id=2)
    describe_log_dirs(client, version=version)
    assert not calls(world, 1)
    assert calls(world, 2) == [contract.DescribeLogDirsRequest(True, [])]
    world.logstores[2].answer_call(contract.DescribeLogDirsResponse(list(DIRS)))
    assert log_dirs(client) == [("/a", 0, ["t"]), ("/b", ErrorCode.KAFKA_STORAGE_ERROR, [])]
    partitions = client.answers[0].results[0].topics[0].partitions
    assert [
        (each.partition_index, each.partition_size, each.offset_lag, each.is_future_key) for each in partitions
    ] == [
        (0, 17, 3, False),
        (1, 4, 0, True),
    ]
    if version >= 4:
        assert (client.answers[0].results[0].total_bytes, client.answers[0].results[0].usable_bytes) == (100, 50)


def test_the_bootstrap_address_describes_all_brokers_that_can_be_asked() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2, 3), address_policy=AddressPolicy.SHARED)
    world.logstores[3].down()
    client = world.client()
    describe_log_dirs(client, [DescribableLogDirTopic("t", [0, 9]), DescribableLogDirTopic("absent", [0])])
    for node_id in (1, 2):
        assert calls(world, node_id) == [contract.DescribeLogDirsRequest(False, [TopicIdPartition(TOPIC_ID, 0)])]
        world.logstores[node_id].answer_call(contract.DescribeLogDirsResponse([DIRS[0]]))
    assert log_dirs(client) == [("1:/a", 0, ["t"]), ("2:/a", 0, ["t"])]
    assert client.answers[0].error_code == 0


def test_a_broker_that_cannot_be_asked_is_an_error_of_the_whole() -> None:
    world = World()
    client = world.client(node_id=7)
    describe_log_dirs(client)
    assert (client.answers[0].error_code, client.answers[0].results) == (ErrorCode.BROKER_NOT_AVAILABLE, [])


def alter_log_dirs(client: Client, *places: tuple[str, str, int], version: int = 2) -> None:
    dirs = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(name, [index])]) for path, name, index in places]
    client.ask(AlterReplicaLogDirsRequest(dirs), ApiKey.ALTER_REPLICA_LOG_DIRS, version)


def altered(client: Client) -> list[tuple[str, int, int]]:
    return [
        (topic.topic_name, each.partition_index, each.error_code)
        for topic in client.answers[-1].results
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_moves_go_to_the_broker_of_the_port(version: int) -> None:
    world = World(topic(leaders=(1, 1)), nodes=(1, 2))
    client = world.client(node_id=2)
    alter_log_dirs(client, ("/a", "t", 0), ("/b", "t", 1), ("/b", "absent", 0), ("/c", "t", 0), version=version)
    assert calls(world, 2) == [
        contract.AlterReplicaLogDirsRequest([ReplicaMove("t", 0, "/c"), ReplicaMove("t", 1, "/b")])
    ]
    world.logstores[2].answer_call(contract.AlterReplicaLogDirsResponse([0, ErrorCode.LOG_DIR_NOT_FOUND]))
    assert altered(client) == [
        ("t", 0, 0),
        ("t", 1, ErrorCode.LOG_DIR_NOT_FOUND),
        ("absent", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_at_the_bootstrap_address_the_path_names_the_broker() -> None:
    world = World(topic(leaders=(1, 1, 1, 1)), nodes=(1, 2))
    client = world.client()
    alter_log_dirs(client, ("1:/a", "t", 0), ("2:/a", "t", 1), ("/a", "t", 2), ("9:/a", "t", 3))
    assert calls(world, 1) == [contract.AlterReplicaLogDirsRequest([ReplicaMove("t", 0, "/a")])]
    assert calls(world, 2) == [contract.AlterReplicaLogDirsRequest([ReplicaMove("t", 1, "/a")])]
    world.logstores[1].answer_call(contract.AlterReplicaLogDirsResponse([0]))
    world.logstores[2].answer_call(None)
    assert altered(client) == [
        ("t", 0, 0),
        ("t", 1, ErrorCode.REQUEST_TIMED_OUT),
        ("t", 2, ErrorCode.LOG_DIR_NOT_FOUND),
        ("t", 3, ErrorCode.BROKER_NOT_AVAILABLE),
    ]


# --- DescribeTopicPartitions ---


def describe_topics(
    world: World, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    client = world.client()
    place = None if cursor is None else Cursor(*cursor)
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, place)
    client.ask(request, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    answer = client.answers[0]
    assert isinstance(answer, DescribeTopicPartitionsResponse)
    return answer


def pages(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(each.name, [partition.partition_index for partition in each.partitions]) for each in answer.topics]


@pytest.fixture
def topics() -> World:
    return World(topic("b", b"b" * 16, (1, 1, 1)), topic("a", b"a" * 16, (1, -1)), topic("c", b"c" * 16, (1,)))


def test_all_topics_in_pages_by_name(topics: World) -> None:
    first = describe_topics(topics, limit=4)
    assert pages(first) == [("a", [0, 1]), ("b", [0, 1])]
    assert first.next_cursor == Cursor("b", 2)
    second = describe_topics(topics, limit=4, cursor=("b", 2))
    assert pages(second) == [("b", [2]), ("c", [0])]
    assert second.next_cursor is None


def test_a_page_that_ends_with_a_topic_goes_on_at_the_next(topics: World) -> None:
    assert describe_topics(topics, limit=2).next_cursor == Cursor("b", 0)
    assert pages(describe_topics(topics, limit=0)) == [("a", [0])]
    topics_of_two = World(topic("a", b"a" * 16, (1, 1)), topic("b", b"b" * 16, (1,)), request_partitions_max=2)
    assert pages(describe_topics(topics_of_two)) == [("a", [0, 1])]


def test_a_partition_without_leader_and_offline_replicas(topics: World) -> None:
    (described,) = describe_topics(topics, "a").topics
    assert (described.error_code, described.topic_id, described.is_internal) == (0, b"a" * 16, False)
    with_leader, without = described.partitions
    assert (with_leader.leader_id, with_leader.leader_epoch, with_leader.offline_replicas) == (1, 5, [])
    assert (with_leader.eligible_leader_replicas, with_leader.last_known_elr) == ([], [])
    assert (without.error_code, without.leader_id) == (0, -1)
    topics.update(topic("a", b"a" * 16, (7,)))
    (dead,) = describe_topics(topics, "a").topics[0].partitions
    assert (dead.leader_id, dead.replica_nodes, dead.offline_replicas) == (-1, [7], [7])


def test_topics_that_are_not_there(topics: World) -> None:
    answer = describe_topics(topics, "x", "c", "no name!")
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("c", 0),
        ("no name!", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("cursor", [("c", 0), ("a", -1)])
def test_a_cursor_has_to_be_among_the_topics_and_valid(topics: World, cursor: tuple[str, int]) -> None:
    answer = describe_topics(topics, "a", "b", cursor=cursor)
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]


def test_a_cursor_past_the_end_of_its_topic(topics: World) -> None:
    assert pages(describe_topics(topics, cursor=("b", 9))) == [("b", []), ("c", [0])]
    assert pages(describe_topics(topics, cursor=("bb", 0))) == [("c", [0])]
