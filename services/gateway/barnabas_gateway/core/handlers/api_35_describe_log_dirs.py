"""DescribeLogDirs, API key 35, versions 1 to 5 (KIP-113, KIP-827).

- A client that came to a broker's own port gets that broker's log directories: paths, volumes, and the replicas asked
  for (null: all) with their sizes and lags. An offline directory is KAFKA_STORAGE_ERROR, with nothing more.
- A client that came to the bootstrap address (with `advertised.address.policy=shared` all do) means no broker in
  particular, and gets the directories of all, each path with its broker's id in front: `2:/var/lib/barnabas`. Brokers
  that can't be asked are left out.
- A broker that can't be asked is BROKER_NOT_AVAILABLE, one that does not answer in 30 s REQUEST_TIMED_OUT, for the
  whole response (v3). Before v3 there is no place for an error: there are no results then, as for a client that is not
  authorized.
- Unknown topics and partitions are left out, as in Kafka.

Deviations: no directory is ever cordoned (v5).
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster import administration as contract
from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.administration import AdministrationResponse, LogDirDescription, TopicIdPartition
from barnabas.wire.api_keys import ApiKey
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
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.log_dir_paths import path_in_cluster
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.core.requests.admin_request import AdminHandler, PendingAdminRequest, Question

PARTITIONS_PER_CALL: Final = 500


class _Broker:
    """What one broker answered."""

    __slots__ = ("error_code", "log_dirs", "node_id")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.error_code: int = ErrorCode.REQUEST_TIMED_OUT
        self.log_dirs: dict[str, LogDirDescription] = {}
        """By path."""

    def add_log_dirs(self, log_dirs: list[LogDirDescription]) -> None:
        """The broker has answered one of its calls."""
        self.error_code = ErrorCode.NONE
        for each in log_dirs:
            known = self.log_dirs.setdefault(each.path, each)
            if known is not each:
                known.replicas.extend(each.replicas)


class PendingDescribeLogDirs(PendingAdminRequest[contract.DescribeLogDirsRequest, _Broker]):
    __slots__ = ("brokers",)

    UNREACHED = ErrorCode.BROKER_NOT_AVAILABLE
    LOST = ErrorCode.BROKER_NOT_AVAILABLE
    CALL_QUERIES_MAX = 1

    def __init__(self, handler: AdminHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.brokers: list[_Broker] = []

    def request_of(self, queries: list[contract.DescribeLogDirsRequest]) -> contract.DescribeLogDirsRequest:
        (query,) = queries
        return query

    def fill_results(
        self, questions: list[Question[contract.DescribeLogDirsRequest, _Broker]], answer: AdministrationResponse
    ) -> None:
        assert isinstance(answer, contract.DescribeLogDirsResponse)
        for question in questions:
            question.result.add_log_dirs(answer.log_dirs)

    def complete(self) -> None:
        self.handler.responder.begin_steps(self, self._respond())

    def _respond(self) -> Steps[None]:
        response = DescribeLogDirsResponse()
        answered = [broker for broker in self.brokers if not broker.error_code]
        if self.brokers and not answered:
            response.error_code = self.brokers[0].error_code
        is_any = self.connection.context.node_id == ANY_NODE
        for broker in answered:
            for log_dir in broker.log_dirs.values():
                path = path_in_cluster(broker.node_id, log_dir.path) if is_any else log_dir.path
                response.results.append((yield from _result(path, log_dir)))
        self.handler.responder.respond(self, response)


class DescribeLogDirsHandler(AdminHandler):
    api_key = ApiKey.DESCRIBE_LOG_DIRS
    request_class = PendingDescribeLogDirs

    def start(self, pending: PendingDescribeLogDirs, request: DescribeLogDirsRequest) -> Steps[None]:
        context = pending.connection.context
        if not self.authorizer.authorize(pending, Operation.DESCRIBE, CLUSTER):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            self.responder.respond(pending, DescribeLogDirsResponse(error_code=error))
            return
        named: list[TopicIdPartition] = []
        topics = request.topics
        if topics is None:
            topics = []
            partitions = self.image.partitions_by_topic_id
            if sum(map(len, partitions.values())) > PARTITIONS_PER_CALL:
                # All, in parts: the answer to one call would take a turn that grows with the cluster.
                known = [(each.topic, list(partitions[each.topic_id])) for each in self.image.topics_by_name.values()]
                topics = [DescribableLogDirTopic(*each) for each in known]
        yield from _add_named(pending, topics, named)
        queries = [contract.DescribeLogDirsRequest(request.topics is None, named)]
        if len(named) > PARTITIONS_PER_CALL:
            parts = [named[first : first + PARTITIONS_PER_CALL] for first in range(0, len(named), PARTITIONS_PER_CALL)]
            queries = [contract.DescribeLogDirsRequest(False, part) for part in parts]
        node_ids = list(self.image.brokers) if context.node_id == ANY_NODE else [context.node_id]
        for node_id in node_ids:
            broker = _Broker(node_id)
            pending.brokers.append(broker)
            for query in queries:
                pending.add_query(node_id, query, broker)
        pending.send_calls(self.config.read_wait_ms_max)


def _add_named(
    pending: PendingDescribeLogDirs, topics: list[DescribableLogDirTopic], named: list[TopicIdPartition]
) -> Steps[None]:
    """Add those that exist, each once."""
    image = pending.handler.image
    wanted: dict[tuple[bytes, int], None] = {}
    for topic in topics:
        known = image.topics_by_name.get(topic.topic)
        for partition in topic.partitions:
            if known is not None and image.partition(known.topic_id, partition) is not None:
                wanted[known.topic_id, partition] = None
            yield 1
        yield 1
    for topic_id, partition in wanted:
        named.append(TopicIdPartition(topic_id, partition))
        yield 1


def _result(path: str, log_dir: LogDirDescription) -> Steps[DescribeLogDirsResult]:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for replica in log_dir.replicas:
        by_topic.setdefault(replica.topic, []).append(
            DescribeLogDirsPartition(replica.partition, replica.byte_count, replica.offset_lag, replica.is_future)
        )
        yield 1
    return DescribeLogDirsResult(
        log_dir.error_code,
        path,
        [DescribeLogDirsTopic(topic, partitions) for topic, partitions in by_topic.items()],
        log_dir.total_bytes,
        log_dir.usable_bytes,
    )
