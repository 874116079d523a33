"""What each API key needs, as in Kafka's KafkaApis and ControllerApis: one table, and a test for each row.

A row names the rights that its request needs, and the error without any of them. With all, there is no such error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from barnabas.cluster.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.wire.messages.describe_topic_partitions import TopicRequest as PartitionsOf
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas_gateway.core.handlers import HANDLERS
from barnabas_gateway.core.model.config import AuthorizerConfig
from barnabas_gateway.core.model.request_context import ANONYMOUS
from tests.unit.gateway.groups import offsets_topic
from tests.unit.gateway.request_rights import (
    ALTER,
    CLUSTER,
    DELETE,
    DENIED,
    DESCRIBE,
    GROUP,
    READ,
    ROWS,
    TOPIC,
    TRANSACTION,
    WRITE,
    Right,
    Row,
    produce,
)
from tests.unit.gateway.world import BATCH, TOPIC_ID, World, topic

DELETION_BY_NAME = DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000)
WITHOUT_A_RIGHT = {
    # They are served to everyone, before a client is authenticated, or by what they name.
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.LIST_TRANSACTIONS,
    # What a client may not see is left out.
    ApiKey.LIST_GROUPS,
    # There are no tokens.
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}


def test_no_served_api_is_without_a_row() -> None:
    with_rows = {row.api_key for row in ROWS}
    assert with_rows.isdisjoint(WITHOUT_A_RIGHT)
    assert set(HANDLERS) - with_rows - WITHOUT_A_RIGHT == set()


COORDINATED = {
    ApiKey.OFFSET_FETCH: OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g")]),
    ApiKey.OFFSET_DELETE: OffsetDeleteResponse(),
}


def error_codes(answer: Any) -> Iterator[int]:
    """Yield every error code of an answer, at any depth."""
    for each in fields(answer):
        value = getattr(answer, each.name)
        if each.name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, list):
            for item in value:
                if is_dataclass(item):
                    yield from error_codes(item)


def world_with(*rights: Right) -> World:
    """The client has these rights and no others."""
    world = World(authorizer=AuthorizerConfig(True))
    acls = [
        Acl(resource_type, PatternType.LITERAL, name, str(ANONYMOUS), "*", operation, PermissionType.ALLOW)
        for operation, (resource_type, name) in rights
    ]
    world.update(topic(), offsets_topic(1), acls=acls, knows_acls=True)
    return world


def answered(row: Row, *rights: Right) -> set[int]:
    """Return the errors that the client got at once; what waits for others was not refused."""
    world = world_with(*rights)
    client = world.client()
    client.ask(row.request, row.api_key, row.version)
    if not client.answers and row.api_key in COORDINATED:
        # Its coordinator is asked for the rest of the answer.
        world.logstore.group_answer(COORDINATED[row.api_key])
    return {code for answer in client.answers for code in error_codes(answer)} & set(map(int, DENIED.values()))


def name_of(row: Row) -> str:
    return f"{row.api_key.name}-{'-'.join(f'{operation.name}-{resource[1]}' for operation, resource in row.rights)}"


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_each_right_that_a_request_needs(row: Row) -> None:
    assert answered(row, *row.rights) == set()
    for rights in row.others:
        assert answered(row, *rights) == set()
    for missing in row.rights:
        left = [right for right in row.rights if right is not missing]
        assert answered(row, *left) == {DENIED[missing[1][0]]}
    others = [(operation, resource) for operation in Operation for resource in (TOPIC, GROUP, CLUSTER, TRANSACTION)]
    needed = {*row.rights, *(right for rights in row.others for right in rights)}
    resources = {resource for _, resource in needed}
    useless = [
        right
        for right in others
        if right not in needed
        and right[0] is not Operation.ALL
        and not (right[1] in resources and right[0] in IMPLYING)
        # KIP-679.
        and not (row.api_key is ApiKey.INIT_PRODUCER_ID and right == (WRITE, TOPIC))
    ]
    assert answered(row, *useless)


IMPLYING = {READ, WRITE, DELETE, ALTER, Operation.ALTER_CONFIGS}
"""They imply others."""


def ask(world: World, request: Any, api_key: ApiKey, version: int) -> Any:
    client = world.client()
    client.ask(request, api_key, version)
    return client.answers[-1]


def test_a_topic_that_may_not_be_described_is_not_shown_to_exist() -> None:
    """The answer is the same whether it exists or not."""
    for name in ("t", "absent"):
        answer = ask(world_with(), MetadataRequest([MetadataRequestTopic(name=name)]), ApiKey.METADATA, 9)
        assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (answer.topics[0].topic_id, answer.topics[0].partitions) == (bytes(16), [])
    described = ask(world_with(), MetadataRequest(None), ApiKey.METADATA, 9)
    assert described.topics == []
    pages = ask(world_with(), DescribeTopicPartitionsRequest([]), ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    assert pages.topics == []


def test_a_topic_of_another_id_is_unknown_and_not_denied() -> None:
    other = b"of no topic here"
    metadata = ask(world_with(), MetadataRequest([MetadataRequestTopic(other, None)]), ApiKey.METADATA, 12)
    assert metadata.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    data = TopicProduceData(topic_id=other, partition_data=[PartitionProduceData(0, BATCH)])
    produced = ask(world_with(), ProduceRequest(None, 1, 1000, [data]), ApiKey.PRODUCE, 13)
    assert list(error_codes(produced)) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_denial_comes_before_what_else_is_wrong() -> None:
    assert list(error_codes(ask(world_with(), produce(acks=7), ApiKey.PRODUCE, 9))) == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]
    assert list(error_codes(ask(world_with((WRITE, TOPIC)), produce(acks=7), ApiKey.PRODUCE, 9))) == [
        ErrorCode.INVALID_REQUIRED_ACKS
    ]
    wrong = InitProducerIdRequest(None, 1000, 7, -1)
    assert ask(world_with(), wrong, ApiKey.INIT_PRODUCER_ID, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    right = (Operation.IDEMPOTENT_WRITE, CLUSTER)
    assert ask(world_with(right), wrong, ApiKey.INIT_PRODUCER_ID, 4).error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_that_may_not_be_created_is_not() -> None:
    world = world_with((DESCRIBE, (ResourceType.TOPIC, "new")))
    request = MetadataRequest([MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
    answer = ask(world, request, ApiKey.METADATA, 9)
    assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not world.calls
    without = MetadataRequest([MetadataRequestTopic(name="new")], allow_auto_topic_creation=False)
    assert ask(world, without, ApiKey.METADATA, 9).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_no_topic_is_deleted_by_an_id_that_this_gateway_does_not_know() -> None:
    """Who may delete it depends on its name."""
    world = world_with((DELETE, TOPIC))
    request = DeleteTopicsRequest([DeleteTopicState(None, b"of no topic here")], timeout_ms=1000)
    assert ask(world, request, ApiKey.DELETE_TOPICS, 6).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert not world.calls


def test_a_name_is_returned_only_to_who_may_describe_it() -> None:
    request = DeleteTopicsRequest([DeleteTopicState(None, TOPIC_ID)], timeout_ms=1000)
    assert ask(world_with(), request, ApiKey.DELETE_TOPICS, 6).responses[0].name is None
    assert ask(world_with((DESCRIBE, TOPIC)), request, ApiKey.DELETE_TOPICS, 6).responses[0].name == "t"


def test_an_absent_topic_is_unknown_to_who_may_describe_and_not_delete_it() -> None:
    world = world_with((DESCRIBE, (ResourceType.TOPIC, "absent")))
    answer = ask(world, DeleteTopicsRequest([DeleteTopicState("absent")], timeout_ms=9), ApiKey.DELETE_TOPICS, 6)
    assert answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not world.calls


def bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


def test_authorized_operations_are_returned_if_they_are_asked_for() -> None:
    world = world_with((READ, TOPIC), (DESCRIBE, CLUSTER), (ALTER, CLUSTER), (DELETE, GROUP))
    asked = MetadataRequest(
        [MetadataRequestTopic(name="t")],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    answer = ask(world, asked, ApiKey.METADATA, 8)
    assert answer.cluster_authorized_operations == bits(DESCRIBE, ALTER)
    assert answer.topics[0].topic_authorized_operations == bits(READ, DESCRIBE)
    plain = ask(world, MetadataRequest([MetadataRequestTopic(name="t")]), ApiKey.METADATA, 8)
    assert (plain.cluster_authorized_operations, plain.topics[0].topic_authorized_operations) == (-(1 << 31),) * 2
    described = ask(world, DescribeClusterRequest(True), ApiKey.DESCRIBE_CLUSTER, 1)
    assert described.cluster_authorized_operations == bits(DESCRIBE, ALTER)
    hidden = ask(world_with((ALTER, TOPIC)), DescribeClusterRequest(True), ApiKey.DESCRIBE_CLUSTER, 1)
    assert hidden.cluster_authorized_operations == 0
    pages = ask(world, DescribeTopicPartitionsRequest([PartitionsOf("t")]), ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    assert pages.topics[0].topic_authorized_operations == bits(READ, DESCRIBE)


def test_authorized_operations_of_groups() -> None:
    world = world_with((DELETE, GROUP))
    client = world.client()
    client.ask(DescribeGroupsRequest(["g", "h"], include_authorized_operations=True), ApiKey.DESCRIBE_GROUPS, 5)
    world.logstore.group_answer(DescribeGroupsResponse(groups=[DescribedGroup(0, group_id="g")]))
    first, second = client.answers[-1].groups
    assert (first.error_code, first.authorized_operations) == (0, bits(DELETE, DESCRIBE))
    assert (second.error_code, second.authorized_operations) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, -(1 << 31))


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_each_denial_is_recorded_once(row: Row) -> None:
    world = world_with(*row.rights[:-1])
    client = world.client()
    client.ask(row.request, row.api_key, row.version)
    lines = [line.fields for line in world.logs if line.event == "authorization denied"]
    operation, (resource_type, name) = row.rights[-1]
    assert [(line["resource_type"], line["resource"]) for line in lines] == [(resource_type.name, name)]
    # Whether a topic may be described is asked first where its deletion is decided.
    expected = "DESCRIBE" if row.request == DELETION_BY_NAME else operation.name
    assert lines[0]["operation"] == expected
