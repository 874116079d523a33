"""The ops API of a local cluster, synchronously."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import grpc

from protos.controller.v1 import operations_pb2 as pb
from protos.controller.v1.operations_pb2_grpc import OperationsStub


class OperationsError(Exception):
    """The controller could not be reached, or refused; the message is for people."""


class OperationsClient:
    """Use it as a context manager. Every call raises OperationsError."""

    def __init__(self, address: str, timeout_seconds: float = 10.0) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        # A proxy of the environment is never meant for a service on this machine.
        self._channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        self._stub = OperationsStub(self._channel)

    def __enter__(self) -> OperationsClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()
        if isinstance(error, grpc.RpcError):
            raise OperationsError(self._explain(error)) from None

    def describe_cluster(self) -> pb.DescribeClusterResponse:
        return self._stub.DescribeCluster(pb.DescribeClusterRequest(), timeout=self._timeout_seconds)

    def list_topics(self) -> list[pb.TopicSummary]:
        return list(self._stub.ListTopics(pb.ListTopicsRequest(), timeout=self._timeout_seconds).topics)

    def describe_topic(self, topic: str) -> pb.DescribeTopicResponse:
        return self._stub.DescribeTopic(pb.DescribeTopicRequest(topic=topic), timeout=self._timeout_seconds)

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> pb.CreateTopicResponse:
        """-1 for the controller's default of either number."""
        request = pb.CreateTopicRequest(
            topic=topic, partitions=partitions, replication_factor=replication_factor, configs=configs
        )
        return self._stub.CreateTopic(request, timeout=self._timeout_seconds)

    def alter_topic(
        self, topic: str, set_configs: dict[str, str], delete_configs: Sequence[str], partitions: int
    ) -> pb.AlterTopicResponse:
        """`partitions` is the new total, 0 leaves them as they are."""
        request = pb.AlterTopicRequest(
            topic=topic, set_configs=set_configs, delete_configs=delete_configs, partitions=partitions
        )
        return self._stub.AlterTopic(request, timeout=self._timeout_seconds)

    def delete_topic(self, topic: str) -> pb.DeleteTopicResponse:
        return self._stub.DeleteTopic(pb.DeleteTopicRequest(topic=topic), timeout=self._timeout_seconds)

    def _explain(self, error: grpc.RpcError) -> str:
        match error.code():
            case grpc.StatusCode.UNAVAILABLE:
                return f"the controller at {self._address} can't be reached"
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return f"the controller at {self._address} did not answer within {self._timeout_seconds:g} s"
        return error.details() or error.code().name
