"""DescribeLogDirs, API key 35, versions 1 to 5 (KIP-113, KIP-827).

- A client that came to a broker's own port is told that broker's log directories: paths, volumes, and the replicas
  asked for (null: all) with their sizes and lags. An offline directory is KAFKA_STORAGE_ERROR, with nothing more.
- A client that came to the bootstrap address (with `advertised.address.policy=shared` all do) means no broker in
  particular, and is told the directories of all, each path with its broker's id in front: `2:/var/lib/barnabas`.
  Brokers that can't be asked are left out.
- A broker that can't be asked is BROKER_NOT_AVAILABLE, one that does not answer in 30 s REQUEST_TIMED_OUT, for the
  whole response (v3). Before v3 there is no place for an error: there are no results then, as for who may not ask.
- Unknown topics and partitions are left out, as in Kafka.

Deviations: no directory is ever cordoned (v5).
"""

from __future__ import annotations

from barnabas.cluster import administration as contract
from barnabas.cluster.administration import AdministrationResponse, LogDirDescription, TopicIdPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from services.gateway.core.authorization import ANY_NODE, CLUSTER, Operation, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.log_dir_paths import path_in_cluster
from services.gateway.core.pending_calls import PendingCalls, Question


class _Broker:
    """What one broker answered."""

    __slots__ = ("error_code", "log_dirs", "node_id")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.error_code: int = ErrorCode.REQUEST_TIMED_OUT
        self.log_dirs: list[LogDirDescription] = []


class PendingDescribeLogDirs(PendingCalls[contract.DescribeLogDirsRequest, _Broker]):
    __slots__ = ("brokers",)

    UNREACHED = ErrorCode.BROKER_NOT_AVAILABLE
    LOST = ErrorCode.BROKER_NOT_AVAILABLE

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.brokers: list[_Broker] = []

    def request_of(self, queries: list[contract.DescribeLogDirsRequest]) -> contract.DescribeLogDirsRequest:
        (query,) = queries
        return query

    def fill(
        self, questions: list[Question[contract.DescribeLogDirsRequest, _Broker]], answer: AdministrationResponse
    ) -> None:
        assert isinstance(answer, contract.DescribeLogDirsResponse)
        for question in questions:
            question.result.error_code = ErrorCode.NONE
            question.result.log_dirs = answer.log_dirs

    def complete(self) -> None:
        response = DescribeLogDirsResponse()
        answered = [broker for broker in self.brokers if not broker.error_code]
        if self.brokers and not answered:
            response.error_code = self.brokers[0].error_code
        is_any = self.connection.context.node_id == ANY_NODE
        for broker in answered:
            for log_dir in broker.log_dirs:
                path = path_in_cluster(broker.node_id, log_dir.path) if is_any else log_dir.path
                response.results.append(_result(path, log_dir))
        self.connection.processor.requests.respond(self, response)


def start(slot: PendingDescribeLogDirs, request: DescribeLogDirsRequest) -> None:
    processor, context = slot.connection.processor, slot.connection.context
    if not authorize(context, Operation.DESCRIBE, CLUSTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        processor.requests.respond(slot, DescribeLogDirsResponse(error_code=error))
        return
    query = contract.DescribeLogDirsRequest(request.topics is None, _partitions(slot, request.topics or []))
    node_ids = list(processor.image.brokers) if context.node_id == ANY_NODE else [context.node_id]
    for node_id in node_ids:
        broker = _Broker(node_id)
        slot.brokers.append(broker)
        slot.add(node_id, query, broker)
    slot.ask(processor.config.read_wait_ms_max)


def _partitions(slot: PendingDescribeLogDirs, topics: list[DescribableLogDirTopic]) -> list[TopicIdPartition]:
    """Those that exist, each once."""
    image = slot.connection.processor.image
    named = {(topic.topic, partition): None for topic in topics for partition in topic.partitions}
    known = [(image.topics_by_name[name], partition) for name, partition in named if name in image.topics_by_name]
    return [
        TopicIdPartition(topic.topic_id, partition)
        for topic, partition in known
        if image.partition(topic.topic_id, partition) is not None
    ]


def _result(path: str, log_dir: LogDirDescription) -> DescribeLogDirsResult:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for replica in log_dir.replicas:
        by_topic.setdefault(replica.topic, []).append(
            DescribeLogDirsPartition(replica.partition, replica.byte_count, replica.offset_lag, replica.is_future)
        )
    return DescribeLogDirsResult(
        log_dir.error_code,
        path,
        [DescribeLogDirsTopic(topic, partitions) for topic, partitions in by_topic.items()],
        log_dir.total_bytes,
        log_dir.usable_bytes,
    )
