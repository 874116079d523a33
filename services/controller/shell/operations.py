"""The Operations service: what operators ask, with `barnabas` or grpcurl."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import grpc
import grpc.aio

from barnabas.cluster.keys import TopicRecord
from barnabas.cluster.messages import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    TopicReference,
)
from barnabas.runtime.protobuf import to_proto
from barnabas.wire.errors import ErrorCode
from protos.controller.v1 import cluster_pb2
from protos.controller.v1 import operations_pb2 as pb
from protos.controller.v1.operations_pb2_grpc import OperationsServicer, add_OperationsServicer_to_server
from services.controller.core.description import describe_nodes, describe_problems, offline_partitions
from services.controller.core.placement import replication_factor_of
from services.controller.shell.driver import Driver, NotActive
from services.controller.shell.membership import abort_not_active

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[object, object]

SERVICE = pb.DESCRIPTOR.services_by_name["Operations"].full_name
_TIMEOUT_MS = 30_000
# Kafka's ConfigResource.Type and AlterConfigOp.
_TOPIC = 2
_SET, _DELETE = 0, 1


def add_operations(server: grpc.aio.Server, driver: Driver) -> None:
    add_OperationsServicer_to_server(_Operations(driver), server)


class _Operations(OperationsServicer):
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._core = driver.core

    async def DescribeCluster(  # noqa: N802
        self, request: pb.DescribeClusterRequest, context: Context
    ) -> pb.DescribeClusterResponse:
        await self._require_active(context)
        image = self._core.image
        assert image.election is not None, "an active controller is elected"
        return pb.DescribeClusterResponse(
            cluster_id=image.cluster_id,
            controller_id=image.election.record.controller_id,
            controller_epoch=image.controller_epoch,
            revision=image.revision,
            topics=len(image.topics),
            partitions=sum(topic.partitions for topic in image.topics.values()),
            offline_partitions=offline_partitions(self._core),
            nodes=self._nodes(),
            problems=describe_problems(self._core),
        )

    async def ListNodes(self, request: pb.ListNodesRequest, context: Context) -> pb.ListNodesResponse:  # noqa: N802
        await self._require_active(context)
        return pb.ListNodesResponse(nodes=self._nodes())

    async def ListTopics(self, request: pb.ListTopicsRequest, context: Context) -> pb.ListTopicsResponse:  # noqa: N802
        await self._require_active(context)
        topics = sorted(self._core.image.topics.values(), key=lambda topic: topic.topic)
        return pb.ListTopicsResponse(topics=[self._summary(topic) for topic in topics])

    async def DescribeTopic(  # noqa: N802
        self, request: pb.DescribeTopicRequest, context: Context
    ) -> pb.DescribeTopicResponse:
        await self._require_active(context)
        topic = self._core.image.topics.get(request.topic)
        if topic is None:
            await _abort_unknown(context, request.topic)
        metadata = self._core.image.topic_metadata(topic)
        return pb.DescribeTopicResponse(topic=to_proto(metadata, cluster_pb2.TopicMetadata))

    async def CreateTopic(self, request: pb.CreateTopicRequest, context: Context) -> pb.CreateTopicResponse:  # noqa: N802
        # Fields left out are 0 in protobuf: the cluster's defaults, like -1.
        topic = NewTopic(
            topic=request.topic,
            partitions=request.partitions or -1,
            replication_factor=request.replication_factor or -1,
            configs=dict(request.configs),
        )
        try:
            response = await self._driver.ask(CreateTopicsRequest([topic], _timeout_ms(context)))
        except NotActive as outcome:
            await abort_not_active(context, self._driver, outcome)
        assert isinstance(response, CreateTopicsResponse)
        (result,) = response.results
        if result.error_code != ErrorCode.NONE:
            await _abort_refused(context, result.error_code, result.error_message)
        return pb.CreateTopicResponse(topic_id=result.topic_id, revision=response.revision)

    async def DeleteTopic(self, request: pb.DeleteTopicRequest, context: Context) -> pb.DeleteTopicResponse:  # noqa: N802
        if not request.topic:
            await _abort_unknown(context, request.topic)
        reference = TopicReference(request.topic, topic_id=b"")
        try:
            response = await self._driver.ask(DeleteTopicsRequest([reference], _timeout_ms(context)))
        except NotActive as outcome:
            await abort_not_active(context, self._driver, outcome)
        assert isinstance(response, DeleteTopicsResponse)
        (result,) = response.results
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await _abort_unknown(context, request.topic)
        if result.error_code != ErrorCode.NONE:
            await _abort_refused(context, result.error_code, result.error_message)
        return pb.DeleteTopicResponse(revision=response.revision)

    async def AlterTopic(self, request: pb.AlterTopicRequest, context: Context) -> pb.AlterTopicResponse:  # noqa: N802
        if not request.topic:
            await _abort_unknown(context, request.topic)
        changes = [ConfigChange(name, _SET, value) for name, value in sorted(request.set_configs.items())]
        changes += [ConfigChange(name, _DELETE, "") for name in request.delete_configs]
        revision = self._core.image.revision
        try:
            if changes:
                resource = AlterConfigsResource(_TOPIC, request.topic, False, changes)
                altered = await self._driver.ask(AlterConfigsRequest([resource], _timeout_ms(context)))
                assert isinstance(altered, AlterConfigsResponse)
                await _require_done(context, request.topic, altered.results[0])
                revision = altered.revision
            if request.partitions:
                growth = NewPartitions(request.topic, request.partitions)
                grown = await self._driver.ask(CreatePartitionsRequest([growth], _timeout_ms(context)))
                assert isinstance(grown, CreatePartitionsResponse)
                await _require_done(context, request.topic, grown.results[0])
                revision = grown.revision
        except NotActive as outcome:
            await abort_not_active(context, self._driver, outcome)
        return pb.AlterTopicResponse(revision=revision)

    async def _require_active(self, context: Context) -> None:
        if not self._core.active:
            await abort_not_active(context, self._driver, NotActive(untouched=True))

    def _nodes(self) -> list[pb.Node]:
        return [
            pb.Node(
                role=node.role.value,
                id=node.member_id,
                addresses=node.addresses,
                alive=node.alive,
                epoch=node.epoch,
                incarnation=node.incarnation,
                leaders=node.leaders,
                connected=node.connected,
            )
            for node in describe_nodes(self._core)
        ]

    def _summary(self, topic: TopicRecord) -> pb.TopicSummary:
        return pb.TopicSummary(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=topic.partitions,
            replication_factor=replication_factor_of(self._core.image, topic),
            offline_partitions=offline_partitions(self._core, topic.topic_id),
        )


def _timeout_ms(context: Context) -> int:
    """The caller's deadline, less a little to answer in."""
    remaining_s = context.time_remaining()
    return _TIMEOUT_MS if remaining_s is None else min(_TIMEOUT_MS, max(0, int(remaining_s * 1000) - 500))


async def _require_done(context: Context, topic: str, result: AlterConfigsResult | CreatePartitionsResult) -> None:
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        await _abort_unknown(context, topic)
    if result.error_code != ErrorCode.NONE:
        await _abort_refused(context, result.error_code, result.error_message)


async def _abort_unknown(context: Context, topic: str) -> NoReturn:
    await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no topic '{topic}'")
    raise AssertionError("abort raises")


async def _abort_refused(context: Context, error_code: int, message: str) -> NoReturn:
    code = ErrorCode(error_code)
    timed_out = code is ErrorCode.REQUEST_TIMED_OUT
    status = grpc.StatusCode.DEADLINE_EXCEEDED if timed_out else grpc.StatusCode.INVALID_ARGUMENT
    await context.abort(status, f"{code.name}: {message}")
    raise AssertionError("abort raises")
