"""DeleteRecords, API key 21, versions 0 to 2.

- The leaders' logstores are asked, each once; the offset is the first to keep, −1 the high watermark. A logstore
  answers when every in-sync replica has moved its log start, or at `timeout_ms` with REQUEST_TIMED_OUT for what has
  not.
- Of the logstore: OFFSET_OUT_OF_RANGE past the high watermark, POLICY_VIOLATION where `cleanup.policy` lacks `delete`.
- An internal topic is INVALID_TOPIC_EXCEPTION; a partition named twice gets the offset named last, in the first place.
- A leader that can't be asked is NOT_LEADER_OR_FOLLOWER: certainly nothing was deleted. One whose answer is lost or
  late is REQUEST_TIMED_OUT: the records may be deleted, and repeating the request is harmless.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster import administration as contract
from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.internal_topics import INTERNAL_TOPICS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.admin_request import AdminHandler, PendingAdminRequest, Question, leader_of

_NO_LOW_WATERMARK = -1


class PendingDeleteRecords(PendingAdminRequest[contract.DeleteRecordsPartition, DeleteRecordsPartitionResult]):
    __slots__ = ("response", "timeout_ms")

    LOST = ErrorCode.REQUEST_TIMED_OUT

    def __init__(self, handler: AdminHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response: DeleteRecordsResponse = DeleteRecordsResponse()
        self.timeout_ms = 0

    def request_of(self, queries: list[contract.DeleteRecordsPartition]) -> contract.DeleteRecordsRequest:
        return contract.DeleteRecordsRequest(self.timeout_ms, queries)

    def fill_results(
        self,
        questions: list[Question[contract.DeleteRecordsPartition, DeleteRecordsPartitionResult]],
        answer: AdministrationResponse,
    ) -> None:
        assert isinstance(answer, contract.DeleteRecordsResponse)
        for question, reported in zip(questions, answer.partitions, strict=False):
            question.result.error_code = reported.error_code
            question.result.low_watermark = reported.low_watermark

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class DeleteRecordsHandler(AdminHandler):
    api_key = ApiKey.DELETE_RECORDS
    request_class = PendingDeleteRecords

    def start(self, pending: PendingDeleteRecords, request: DeleteRecordsRequest) -> Steps[None]:
        config = self.config
        pending.timeout_ms = max(0, request.timeout_ms)
        by_topic: dict[str, dict[int, int]] = {}
        yield from _sort_offsets(request.topics, by_topic)
        for topic, offsets in by_topic.items():
            results: list[DeleteRecordsPartitionResult] = []
            pending.response.topics.append(DeleteRecordsTopicResult(topic, results))
            is_allowed = self.authorizer.authorize(pending, Operation.DELETE, (ResourceType.TOPIC, topic))
            for partition, offset in offsets.items():
                result = DeleteRecordsPartitionResult(
                    partition, _NO_LOW_WATERMARK, ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                results.append(result)
                if is_allowed:
                    _add(pending, topic, partition, offset, result)
                yield 1
            yield 1
        # The time that the logstore may take, and the time for the way there and back.
        pending.send_calls(pending.timeout_ms + config.append_wait_ms_min)


def _sort_offsets(topics: list[DeleteRecordsTopic], by_topic: dict[str, dict[int, int]]) -> Steps[None]:
    for topic in topics:
        of_topic = by_topic.setdefault(topic.name, {})
        for partition in topic.partitions:
            of_topic[partition.partition_index] = partition.offset
            yield 1
        yield 1


def _add(
    pending: PendingDeleteRecords, topic: str, partition: int, offset: int, result: DeleteRecordsPartitionResult
) -> None:
    """Send the request to the leader, or note the error."""
    known = leader_of(pending.handler.image, topic, partition)
    if known is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif topic in INTERNAL_TOPICS:
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        topic_id, leader = known
        result.error_code = pending.LOST
        pending.add_query(leader, contract.DeleteRecordsPartition(topic_id, partition, offset), result)
