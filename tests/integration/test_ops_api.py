"""The ops API as seen by a gRPC client without any code of Barnabas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.integration.running_cluster import RunningCluster

pytestmark = pytest.mark.integration

LOGSTORES = 2
OPERATIONS = "barnabas.controller.v1.Operations"


class ReflectedService:
    """Calls by name what the server says that it offers."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        self.database = ProtoReflectionDescriptorDatabase(self._channel)
        self._service = DescriptorPool(self.database).FindServiceByName(OPERATIONS)

    def __call__(self, method: str, **arguments: Any) -> Any:
        """The answer as JSON has it. Raises grpc.RpcError."""
        descriptor = self._service.methods_by_name[method]
        call = self._channel.unary_unary(
            f"/{OPERATIONS}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(descriptor.output_type).FromString,
        )
        answer = call(GetMessageClass(descriptor.input_type)(**arguments), timeout=20)
        return MessageToDict(answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def operations(cluster: RunningCluster) -> Iterator[ReflectedService]:
    service = ReflectedService(cluster.ops_address)
    yield service
    service.close()


def test_is_found_by_reflection(operations: ReflectedService) -> None:
    assert OPERATIONS in operations.database.get_services()


def test_lists_nodes(operations: ReflectedService) -> None:
    nodes = {(node["role"], node["id"]): node for node in operations("ListNodes")["nodes"]}
    assert {role for role, _ in nodes} == {"controller", "gateway", "logstore", "purgatory"}
    assert {("logstore", "0"), ("logstore", "1")} <= set(nodes)
    assert all(node["alive"] for node in nodes.values())


def test_creates_describes_and_deletes_a_topic(operations: ReflectedService) -> None:
    created = operations("CreateTopic", topic="ops", partitions=4, replication_factor=1)
    described = operations("DescribeTopic", topic="ops")["topic"]
    assert described["topic_id"] == created["topic_id"]
    leaders = {partition["partition"]: partition["leader"] for partition in described["partitions"]}
    assert sorted(leaders) == [0, 1, 2, 3]
    assert set(leaders.values()) == {0, 1}, "partitions are spread over both logstores"
    listed = {topic["topic"]: topic["partitions"] for topic in operations("ListTopics")["topics"]}
    assert listed["ops"] == 4
    operations("DeleteTopic", topic="ops")
    assert "ops" not in {topic["topic"] for topic in operations("ListTopics")["topics"]}


def test_counts_leaders(operations: ReflectedService) -> None:
    operations("CreateTopic", topic="counted", partitions=6, replication_factor=1)
    cluster = operations("DescribeCluster")
    leaders = {node["id"]: node["leaders"] for node in cluster["nodes"] if node["role"] == "logstore"}
    assert sum(leaders.values()) == cluster["partitions"]
    assert (cluster["offline_partitions"], cluster["problems"]) == (0, [])


@pytest.mark.parametrize(
    ("method", "arguments", "code", "error"),
    [
        ("DescribeTopic", {"topic": "nowhere"}, grpc.StatusCode.NOT_FOUND, "nowhere"),
        ("DeleteTopic", {"topic": "nowhere"}, grpc.StatusCode.NOT_FOUND, "nowhere"),
        (
            "CreateTopic",
            {"topic": "too-wide", "partitions": 1, "replication_factor": 3},
            grpc.StatusCode.INVALID_ARGUMENT,
            "INVALID_REPLICATION_FACTOR",
        ),
        (
            "CreateTopic",
            {"topic": "no/such name", "partitions": 1, "replication_factor": 1},
            grpc.StatusCode.INVALID_ARGUMENT,
            "INVALID_TOPIC_EXCEPTION",
        ),
        ("AlterTopic", {"topic": "nowhere", "partitions": 3}, grpc.StatusCode.NOT_FOUND, "nowhere"),
        ("AlterTopic", {"topic": "nowhere", "delete_configs": ["flush.ms"]}, grpc.StatusCode.NOT_FOUND, "nowhere"),
    ],
)
def test_refusals(
    operations: ReflectedService, method: str, arguments: dict[str, Any], code: grpc.StatusCode, error: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        operations(method, **arguments)
    assert refused.value.code() is code
    assert error in (refused.value.details() or "")
