"""AlterReplicaLogDirs, API key 34, versions 1 to 2 (KIP-113).

- Moves replicas of one broker between its log directories: of the broker whose own port the client came to. Answered
  when the moves have been accepted; DescribeLogDirs shows their progress.
- A client that came to the bootstrap address (with `advertised.address.policy=shared` all do) names the broker in the
  path, as DescribeLogDirs returns it: `2:/var/lib/barnabas`. Any other path is LOG_DIR_NOT_FOUND there.
- Of the logstore: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE for a replica that it does not have.
- An unknown topic or partition is UNKNOWN_TOPIC_OR_PARTITION. One named twice goes where it was named last.
- A broker that can't be asked is BROKER_NOT_AVAILABLE; one whose answer is lost or late is REQUEST_TIMED_OUT: the moves
  may have been accepted, and repeating the request is harmless.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster import administration as contract
from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.administration import AdministrationResponse, ReplicaMove
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.log_dir_paths import parse_path_in_cluster
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.core.requests.admin_request import AdminHandler, PendingAdminRequest, Question, leader_of


class PendingAlterReplicaLogDirs(PendingAdminRequest[ReplicaMove, AlterReplicaLogDirPartitionResult]):
    __slots__ = ("response",)

    UNREACHED = ErrorCode.BROKER_NOT_AVAILABLE
    LOST = ErrorCode.REQUEST_TIMED_OUT

    def __init__(self, handler: AdminHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response: AlterReplicaLogDirsResponse = AlterReplicaLogDirsResponse()

    def request_of(self, queries: list[ReplicaMove]) -> contract.AlterReplicaLogDirsRequest:
        return contract.AlterReplicaLogDirsRequest(queries)

    def fill_results(
        self,
        questions: list[Question[ReplicaMove, AlterReplicaLogDirPartitionResult]],
        answer: AdministrationResponse,
    ) -> None:
        assert isinstance(answer, contract.AlterReplicaLogDirsResponse)
        for question, error_code in zip(questions, answer.error_codes, strict=False):
            question.result.error_code = error_code

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class AlterReplicaLogDirsHandler(AdminHandler):
    api_key = ApiKey.ALTER_REPLICA_LOG_DIRS
    request_class = PendingAlterReplicaLogDirs

    def start(self, pending: PendingAlterReplicaLogDirs, request: AlterReplicaLogDirsRequest) -> Steps[None]:
        is_allowed = self.authorizer.authorize(pending, Operation.ALTER, CLUSTER)
        by_topic: dict[str, dict[int, str]] = {}
        yield from _sort_paths(request, by_topic)
        for topic, paths in by_topic.items():
            results: list[AlterReplicaLogDirPartitionResult] = []
            pending.response.results.append(AlterReplicaLogDirTopicResult(topic, results))
            for partition, path in paths.items():
                result = AlterReplicaLogDirPartitionResult(partition, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                results.append(result)
                if is_allowed:
                    _add(pending, topic, partition, path, result)
                yield 1
            yield 1
        pending.send_calls(self.config.read_wait_ms_max)


def _sort_paths(request: AlterReplicaLogDirsRequest, by_topic: dict[str, dict[int, str]]) -> Steps[None]:
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            of_topic = by_topic.setdefault(topic.name, {})
            for partition in topic.partitions:
                of_topic[partition] = log_dir.path
                yield 1
            yield 1
        yield 1


def _add(
    pending: PendingAlterReplicaLogDirs,
    topic: str,
    partition: int,
    path: str,
    result: AlterReplicaLogDirPartitionResult,
) -> None:
    """Send the request to that broker, or note the error."""
    node_id = pending.connection.context.node_id
    place = parse_path_in_cluster(path) if node_id == ANY_NODE else (node_id, path)
    if leader_of(pending.handler.image, topic, partition) is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif place is None:
        result.error_code = ErrorCode.LOG_DIR_NOT_FOUND
    else:
        node_id, path = place
        result.error_code = pending.LOST
        pending.add_query(node_id, ReplicaMove(topic, partition, path), result)
