"""Changes by operators: topics, nodes in and out of service, the balance of leaders."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cluster.messages import (
    AlterConfigsResource,
    Assignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    TopicReference,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.operator_requests import (
    DrainNode,
    OperatorRequest,
    OperatorResponse,
    Outcome,
    PauseBalance,
    RemoveNode,
    ReturnNode,
)
from barnabas_controller.core.topics.config_changes import ResourceType, changes_of
from barnabas_controller.shell.driver import ControllerDriver
from barnabas_controller.shell.operations.calls import (
    Call,
    Method,
    invalid,
    refusal_of,
    require_done,
    require_topic,
    unknown_topic,
)
from barnabas_controller.shell.operations.configs import alter_configs
from barnabas_protos.controller.v1 import operations_pb2 as pb


class Changing:
    def __init__(self, driver: ControllerDriver) -> None:
        self._driver = driver
        self._image = driver.core.image

    def methods(self) -> Mapping[str, Method]:
        return {
            "CreateTopic": self._create_topic,
            "DeleteTopic": self._delete_topic,
            "AlterTopic": self._alter_topic,
            "DrainNode": self._drain_node,
            "ReturnNode": self._return_node,
            "RemoveNode": self._remove_node,
            "PauseBalance": self._pause_balance,
            "ResumeBalance": self._resume_balance,
        }

    async def _create_topic(self, request: pb.CreateTopicRequest, call: Call) -> pb.CreateTopicResponse:
        if request.assignments and (request.partitions or request.replication_factor):
            raise invalid("partitions and replication_factor are determined by assignments: leave them out")
        # Fields left out are 0 in protobuf: use the cluster's defaults, as for -1.
        topic = NewTopic(
            topic=request.topic,
            partitions=request.partitions or -1,
            replication_factor=request.replication_factor or -1,
            assignments=[Assignment(each.partition, list(each.broker_ids)) for each in request.assignments],
            configs=dict(request.configs),
        )
        response = await self._driver.ask(CreateTopicsRequest([topic], call.timeout_ms, request.validate_only))
        assert isinstance(response, CreateTopicsResponse)
        (result,) = response.results
        require_done(result.error_code, result.error_message)
        return pb.CreateTopicResponse(topic_id=result.topic_id, revision=response.revision)

    async def _delete_topic(self, request: pb.DeleteTopicRequest, call: Call) -> pb.DeleteTopicResponse:
        require_topic(self._image, request.topic)
        reference = TopicReference(request.topic, topic_id=b"")
        response = await self._driver.ask(DeleteTopicsRequest([reference], call.timeout_ms))
        assert isinstance(response, DeleteTopicsResponse)
        (result,) = response.results
        _require_done_to(request.topic, result.error_code, result.error_message)
        return pb.DeleteTopicResponse(revision=response.revision)

    async def _alter_topic(self, request: pb.AlterTopicRequest, call: Call) -> pb.AlterTopicResponse:
        require_topic(self._image, request.topic)
        changes = changes_of(request.set_configs, request.delete_configs)
        revision = self._image.revision
        if changes:
            resource = AlterConfigsResource(ResourceType.TOPIC, request.topic, replace=False, changes=changes)
            revision = await alter_configs(self._driver, [resource], call)
        if request.partitions:
            growth = NewPartitions(request.topic, request.partitions)
            grown = await self._driver.ask(CreatePartitionsRequest([growth], call.timeout_ms))
            assert isinstance(grown, CreatePartitionsResponse)
            _require_done_to(request.topic, grown.results[0].error_code, grown.results[0].error_message)
            revision = grown.revision
        return pb.AlterTopicResponse(revision=revision)

    async def _drain_node(self, request: pb.DrainNodeRequest, call: Call) -> pb.DrainNodeResponse:
        asked = DrainNode(request.node_id, request.move_replicas, call.timeout_ms, request.validate_only)
        revision = await self._operate(asked)
        progress = self._driver.core.drains.progress(request.node_id)
        return pb.DrainNodeResponse(revision=revision, leaders=progress.leaders, replicas=progress.replicas)

    async def _return_node(self, request: pb.ReturnNodeRequest, call: Call) -> pb.ReturnNodeResponse:
        revision = await self._operate(ReturnNode(request.node_id, request.let_moves_finish, call.timeout_ms))
        return pb.ReturnNodeResponse(revision=revision)

    async def _remove_node(self, request: pb.RemoveNodeRequest, call: Call) -> pb.RemoveNodeResponse:
        return pb.RemoveNodeResponse(revision=await self._operate(RemoveNode(request.node_id, call.timeout_ms)))

    async def _pause_balance(self, request: pb.PauseBalanceRequest, call: Call) -> pb.PauseBalanceResponse:
        return pb.PauseBalanceResponse(revision=await self._operate(PauseBalance(True, call.timeout_ms)))

    async def _resume_balance(self, request: pb.ResumeBalanceRequest, call: Call) -> pb.ResumeBalanceResponse:
        return pb.ResumeBalanceResponse(revision=await self._operate(PauseBalance(False, call.timeout_ms)))

    async def _operate(self, request: OperatorRequest) -> int:
        """Return the revision at which the change holds. Raises Refusal and NotActive."""
        response = await self._driver.ask(request)
        assert isinstance(response, OperatorResponse)
        if response.outcome is not Outcome.DONE:
            raise refusal_of(response.outcome, response.message)
        return response.revision if response.revision >= 0 else self._image.revision


def _require_done_to(topic: str, error_code: int, message: str) -> None:
    """Raises Refusal."""
    if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise unknown_topic(topic)
    require_done(error_code, message)
