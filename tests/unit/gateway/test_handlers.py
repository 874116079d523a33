"""The other APIs, each by its contract, and every advertised version of every key."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import ExchangeResponse, OffsetAnswer
from barnabas.cluster.config_description import ConfigSource
from barnabas.cluster.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    CreateTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.cluster.topic_config_keys import TOPIC_KEYS
from barnabas.wire.api_keys import SERVED_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import MESSAGES
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from barnabas.wire.messages.create_topics import CreateTopicsRequest as WireCreateTopics
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest as WireDeleteTopics
from barnabas.wire.messages.delete_topics import DeleteTopicState
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas_gateway.core.model.config import AddressPolicy
from tests.unit.gateway.world import TOPIC_ID, Client, World, topic


def ask(client: Client, request: Any, api_key: ApiKey, version: int) -> Any:
    """The answer, when it comes at once."""
    client.ask(request, api_key, version)
    return client.answers[-1] if client.answers else None


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(key, version) for key in SERVED_KEYS for version in range(key.advertised_min, key.version_max + 1)],
)
def test_every_advertised_version_is_answered(api_key: ApiKey, version: int) -> None:
    world = World()
    client = world.client()
    request = MESSAGES[api_key][0]()
    if api_key is ApiKey.METADATA:
        request = MetadataRequest([])
    if api_key is ApiKey.PRODUCE:
        request.acks = 1  # type: ignore[union-attr]
    client.ask(request, api_key, version)
    if world.calls:
        world.controller_answers(None)
    if world.logstore.calls:
        world.logstore.answer_call(None)
    if world.logstore.group_calls:
        world.logstore.group_answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert len(client.answers) == 1
    assert not client.is_closed


# --- ApiVersions ---


def test_api_versions_reports_what_is_served() -> None:
    answer = ask(World().client(), ApiVersionsRequest("librdkafka", "2.16.0"), ApiKey.API_VERSIONS, 4)
    reported = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert reported[ApiKey.PRODUCE] == (0, 13)
    assert reported[ApiKey.FETCH] == (0, 18)
    assert set(reported) == set(SERVED_KEYS)


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a b", "1"), ("-a", "1"), ("a", ""), ("a\n", "1"), ("a", "1-")]
)
def test_a_bad_software_name_is_an_invalid_request(name: str, version: str) -> None:
    answer = ask(World().client(), ApiVersionsRequest(name, version), ApiKey.API_VERSIONS, 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


# --- Metadata ---


def test_metadata_of_all_none_named_and_by_id() -> None:
    world = World(topic("a", b"a" * 16), topic("b", b"b" * 16))
    client = world.client()

    def names(topics: list[MetadataRequestTopic] | None, version: int) -> list[str | None]:
        return [each.name for each in ask(client, MetadataRequest(topics), ApiKey.METADATA, version).topics]

    assert names(None, 1) == ["a", "b"]
    assert names([], 0) == ["a", "b"]
    assert names([], 1) == []
    assert names([MetadataRequestTopic(name="b")], 13) == ["b"]
    assert names([MetadataRequestTopic(b"a" * 16, None)], 13) == ["a"]


def test_metadata_of_an_unknown_id() -> None:
    asked = [MetadataRequestTopic(b"x" * 16, None)]
    answer = ask(World().client(), MetadataRequest(asked), ApiKey.METADATA, 12)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_metadata_addresses_per_broker_port() -> None:
    answer = ask(World(nodes=(1, 3)).client(), MetadataRequest([]), ApiKey.METADATA, 9)
    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
        (1, "kafka.example", 9094),
        (3, "kafka.example", 9096),
    ]
    assert (answer.controller_id, answer.cluster_id) == (1, "cluster")


def test_metadata_addresses_shared() -> None:
    world = World(nodes=(1, 3), address_policy=AddressPolicy.SHARED)
    answer = ask(world.client(), MetadataRequest([]), ApiKey.METADATA, 9)
    assert [each.port for each in answer.brokers] == [9092, 9092]


def test_metadata_of_leaderless_partitions() -> None:
    world = World(topic(leaders=(1, -1, 7)))
    answer = ask(world.client(), MetadataRequest(None), ApiKey.METADATA, 9)
    reported = [(each.error_code, each.leader_id, each.offline_replicas) for each in answer.topics[0].partitions]
    unavailable = ErrorCode.LEADER_NOT_AVAILABLE
    assert reported == [(0, 1, []), (unavailable, -1, []), (unavailable, -1, [7])]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250])
def test_metadata_of_an_illegal_name(name: str) -> None:
    world = World()
    answer = ask(world.client(), MetadataRequest([MetadataRequestTopic(name=name)]), ApiKey.METADATA, 9)
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not world.calls


@pytest.mark.parametrize(("allowed", "enabled"), [(False, True), (True, False)])
def test_metadata_creates_only_when_both_allow_it(allowed: bool, enabled: bool) -> None:
    world = World(auto_create_topics=enabled)
    asked = MetadataRequest([MetadataRequestTopic(name="new")], allowed)
    answer = ask(world.client(), asked, ApiKey.METADATA, 9)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not world.calls


def new_topic_asked(world: World) -> Client:
    client = world.client()
    assert ask(client, MetadataRequest([MetadataRequestTopic(name="new")]), ApiKey.METADATA, 9) is None
    request = world.calls[0].request
    assert isinstance(request, CreateTopicsRequest)
    assert [(each.topic, each.partitions, each.replication_factor) for each in request.topics] == [("new", -1, -1)]
    return client


def test_metadata_waits_for_the_topic_that_it_creates() -> None:
    world = World()
    client = new_topic_asked(world)
    created = CreateTopicResult("new", b"n" * 16, 0)
    world.controller_answers(CreateTopicsResponse([created], revision=world.revision + 1))
    assert not client.answers
    world.update(topic(), topic("new", b"n" * 16))
    assert [(each.name, each.error_code) for each in client.answers[0].topics] == [("new", 0)]


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
        (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
def test_metadata_tells_why_a_topic_was_not_created(code: ErrorCode, reported: ErrorCode) -> None:
    world = World()
    client = new_topic_asked(world)
    world.controller_answers(CreateTopicsResponse([CreateTopicResult("new", bytes(16), code)], -1))
    assert client.answers[0].topics[0].error_code == reported


def test_metadata_waits_for_a_creation_only_so_long() -> None:
    world = World()
    client = new_topic_asked(world)
    world.pass_ms(world.processor.config.topic_creation_wait_ms_max + 100)
    assert client.answers[0].topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    world.controller_answers(CreateTopicsResponse([CreateTopicResult("new", b"n" * 16, 0)], 1))
    assert len(client.answers) == 1


def test_metadata_of_no_controller() -> None:
    world = World()
    client = new_topic_asked(world)
    world.controller_answers(None)
    assert client.answers[0].topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


# --- ListOffsets ---


def list_offsets(client: Client, *asked: tuple[int, int], version: int = 11, replica_id: int = -1) -> None:
    partitions = [ListOffsetsPartition(partition, timestamp=timestamp) for partition, timestamp in asked]
    request = ListOffsetsRequest(replica_id, 0, [ListOffsetsTopic("t", partitions)], 5000)
    client.ask(request, ApiKey.LIST_OFFSETS, version)


def offsets(client: Client) -> list[tuple[int, int]]:
    return [(each.error_code, each.offset) for each in client.answers[0].topics[0].partitions]


def test_list_offsets_asks_the_leaders() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2))
    client = world.client()
    list_offsets(client, (0, -1), (1, -2))
    for node_id, offset in ((2, 5), (1, 9)):
        query = world.logstores[node_id].offset_queries[0]
        world.logstores[node_id].say(
            ExchangeResponse(offset_answers=[OffsetAnswer(query.request_id, 0, -1, offset, 5)])
        )
    assert offsets(client) == [(0, 9), (0, 5)]


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_list_offsets_of_special_timestamps_needs_their_version(timestamp: int, version: int) -> None:
    world = World()
    client = world.client()
    list_offsets(client, (0, timestamp), version=version)
    assert offsets(client) == [(ErrorCode.UNSUPPORTED_VERSION, -1)]


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_list_offsets_beyond_what_a_new_leader_knows(version: int, error: ErrorCode) -> None:
    world = World()
    client = world.client()
    list_offsets(client, (0, -1), version=version)
    query = world.logstore.offset_queries[0]
    world.logstore.say(
        ExchangeResponse(offset_answers=[OffsetAnswer(query.request_id, ErrorCode.OFFSET_NOT_AVAILABLE)])
    )
    assert offsets(client) == [(error, -1)]


def test_list_offsets_refusals() -> None:
    world = World()
    twice, unknown, replica = world.client(), world.client(), world.client()
    list_offsets(twice, (0, -1), (0, -2))
    assert offsets(twice) == [(ErrorCode.INVALID_REQUEST, -1)] * 2
    list_offsets(unknown, (8, -1))
    assert offsets(unknown) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    list_offsets(replica, (0, -1), replica_id=1)
    assert offsets(replica) == [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)]


def test_list_offsets_without_the_leader() -> None:
    world = World()
    asking, late, later = world.client(), world.client(), world.client()
    list_offsets(asking, (0, -1))
    world.logstore.down()
    assert offsets(asking) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    list_offsets(late, (0, -1))
    assert offsets(late) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    world.logstore.up()
    list_offsets(later, (0, -1))
    world.pass_ms(5_100)
    assert offsets(later) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]


# --- topics ---


def test_create_topics_answers_when_this_gateway_knows_them() -> None:
    world = World()
    client = world.client()
    topics = [CreatableTopic("new", 3, 1, configs=[CreatableTopicConfig("retention.ms", "1000")])]
    assert ask(client, WireCreateTopics(topics, 5000), ApiKey.CREATE_TOPICS, 7) is None
    created = CreateTopicResult("new", b"n" * 16, 0, "", 3, 1, {"retention.ms": "1000"})
    world.controller_answers(CreateTopicsResponse([created], world.revision + 1))
    assert not client.answers
    world.update(topic(), topic("new", b"n" * 16))
    reported = client.answers[0].topics[0]
    assert (reported.error_code, reported.topic_id, reported.num_partitions, reported.replication_factor) == (
        0,
        b"n" * 16,
        3,
        1,
    )
    configs = {config.name: (config.value, config.config_source) for config in reported.configs}
    assert configs["retention.ms"] == ("1000", ConfigSource.TOPIC)
    assert configs["cleanup.policy"] == ("delete", ConfigSource.DEFAULT)
    assert list(configs) == list(TOPIC_KEYS)


def test_create_topics_refusals_of_the_gateway() -> None:
    world = World()
    topics = [
        CreatableTopic("twice", 1, 1),
        CreatableTopic("twice", 1, 1),
        CreatableTopic("both", 1, 1, [CreatableReplicaAssignment(0, [1])]),
        CreatableTopic("null", 1, 1, configs=[CreatableTopicConfig("retention.ms", None)]),
    ]
    answer = ask(world.client(), WireCreateTopics(topics, 5000), ApiKey.CREATE_TOPICS, 7)
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("both", ErrorCode.INVALID_REQUEST),
        ("null", ErrorCode.INVALID_CONFIG),
    ]
    assert not world.calls


def test_create_topics_without_an_answer_is_a_timeout() -> None:
    world = World()
    client = world.client()
    client.ask(WireCreateTopics([CreatableTopic("new", 1, 1)], 1000), ApiKey.CREATE_TOPICS, 7)
    world.pass_ms(1_500)
    assert client.answers[0].topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_create_topics_of_a_client_that_is_gone() -> None:
    world = World()
    client = world.client()
    client.ask(WireCreateTopics([CreatableTopic("new", 1, 1)], 1000), ApiKey.CREATE_TOPICS, 7)
    client.close()
    world.controller_answers(CreateTopicsResponse([], 1))
    assert not client.answers


def test_delete_topics_by_name_and_id() -> None:
    world = World()
    client = world.client()
    states = [DeleteTopicState("t"), DeleteTopicState(None, b"x" * 16), DeleteTopicState("a", b"y" * 16)]
    client.ask(WireDeleteTopics(states, timeout_ms=1000), ApiKey.DELETE_TOPICS, 6)
    request = world.calls[0].request
    assert isinstance(request, DeleteTopicsRequest)
    assert [(each.topic, each.topic_id) for each in request.topics] == [("t", bytes(16)), ("", b"x" * 16)]
    results = [DeleteTopicResult("t", TOPIC_ID, 0), DeleteTopicResult("", b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID)]
    world.controller_answers(DeleteTopicsResponse(results, world.revision))
    assert [(each.name, each.error_code) for each in client.answers[0].responses] == [
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("a", ErrorCode.INVALID_REQUEST),
    ]


def test_delete_topics_of_the_old_versions() -> None:
    world = World()
    client = world.client()
    client.ask(WireDeleteTopics(topic_names=["t"], timeout_ms=1000), ApiKey.DELETE_TOPICS, 1)
    world.controller_answers(DeleteTopicsResponse([DeleteTopicResult("t", TOPIC_ID, 0)], world.revision + 1))
    assert not client.answers
    world.update()
    assert [(each.name, each.error_code) for each in client.answers[0].responses] == [("t", 0)]


# --- InitProducerId ---


def test_producer_ids_come_from_blocks() -> None:
    world = World()
    client = world.client()
    for _ in range(3):
        client.ask(InitProducerIdRequest(), ApiKey.INIT_PRODUCER_ID, 5)
    assert [call.request for call in world.calls] == [AllocateProducerIdsRequest("gateway-0")]
    world.controller_answers(AllocateProducerIdsResponse(0, 1000, 2))
    assert [each.producer_id for each in client.answers] == [1000, 1001]
    world.controller_answers(AllocateProducerIdsResponse(0, 5000, 1000))
    assert [(each.producer_id, each.producer_epoch, each.error_code) for each in client.answers][2] == (5000, 0, 0)


def test_the_next_block_is_asked_for_in_time() -> None:
    world = World()
    client = world.client()
    client.ask(InitProducerIdRequest(), ApiKey.INIT_PRODUCER_ID, 5)
    world.controller_answers(AllocateProducerIdsResponse(0, 0, 100))
    for _ in range(89):
        client.ask(InitProducerIdRequest(), ApiKey.INIT_PRODUCER_ID, 5)
    assert not world.calls
    client.ask(InitProducerIdRequest(), ApiKey.INIT_PRODUCER_ID, 5)
    assert len(world.calls) == 1
    assert [each.producer_id for each in client.answers] == list(range(91))


@pytest.mark.parametrize("answer", [None, AllocateProducerIdsResponse(ErrorCode.REQUEST_TIMED_OUT, -1, 0)])
def test_without_a_block_producers_are_sent_to_retry(answer: AllocateProducerIdsResponse | None) -> None:
    world = World()
    client = world.client()
    client.ask(InitProducerIdRequest(), ApiKey.INIT_PRODUCER_ID, 5)
    world.controller_answers(answer)
    assert client.answers[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.answers[0].producer_id == -1
    client.ask(InitProducerIdRequest(), ApiKey.INIT_PRODUCER_ID, 5)
    assert len(world.calls) == 1


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "producer_epoch", "error"),
    [
        ("tx", -1, -1, ErrorCode.NOT_COORDINATOR),
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
        (None, 5, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 5, ErrorCode.INVALID_REQUEST),
    ],
)
def test_init_producer_id_refusals(
    transactional_id: str | None, producer_id: int, producer_epoch: int, error: ErrorCode
) -> None:
    request = InitProducerIdRequest(transactional_id, 1000, producer_id, producer_epoch)
    answer = ask(World().client(), request, ApiKey.INIT_PRODUCER_ID, 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


# --- FindCoordinator, DescribeCluster ---


def test_no_coordinator_is_available() -> None:
    client = World().client()
    old = ask(client, FindCoordinatorRequest("group", 0), ApiKey.FIND_COORDINATOR, 3)
    assert (old.error_code, old.node_id, old.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    new = ask(client, FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]), ApiKey.FIND_COORDINATOR, 4)
    assert [(each.key, each.error_code) for each in new.coordinators] == [
        ("a", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]


@pytest.mark.parametrize(
    ("key_type", "key", "version", "error"),
    [
        (9, "k", 6, ErrorCode.INVALID_REQUEST),
        (2, "g:AAAAAAAAAAAAAAAAAAAAAA:0", 5, ErrorCode.INVALID_REQUEST),
        (2, "nonsense", 6, ErrorCode.INVALID_REQUEST),
        (2, "g:AAAAAAAAAAAAAAAAAAAAAA:0", 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_coordinator_keys(key_type: int, key: str, version: int, error: ErrorCode) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    answer = ask(World().client(), request, ApiKey.FIND_COORDINATOR, version)
    assert answer.coordinators[0].error_code == error


def test_describe_cluster() -> None:
    answer = ask(World(nodes=(2, 1)).client(), DescribeClusterRequest(), ApiKey.DESCRIBE_CLUSTER, 2)
    assert (answer.cluster_id, answer.controller_id, answer.error_code) == ("cluster", 1, 0)
    assert [(each.broker_id, each.port, each.is_fenced) for each in answer.brokers] == [
        (1, 9094, False),
        (2, 9095, False),
    ]


@pytest.mark.parametrize(
    ("endpoint_type", "error"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_describe_cluster_of_other_endpoints(endpoint_type: int, error: ErrorCode) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    assert ask(World().client(), request, ApiKey.DESCRIBE_CLUSTER, 1).error_code == error
