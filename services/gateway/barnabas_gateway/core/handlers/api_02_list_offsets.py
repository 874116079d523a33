"""ListOffsets, API key 2, versions 1 to 11.

- A timestamp, or one of the special ones: latest (−1), earliest (−2), largest timestamp (−3, v7), earliest local (−4,
  v8), latest tiered (−5, v9), earliest pending upload (−6, v11). Others, and those before their version, are
  UNSUPPORTED_VERSION for that partition.
- A partition named twice is INVALID_REQUEST each time.
- A leader that can't be asked is NOT_LEADER_OR_FOLLOWER, one that does not answer in `timeout_ms` (v10; before it 30 s)
  REQUEST_TIMED_OUT; both are retried by clients.
- A leader whose high watermark has not reached the start of its epoch yet is OFFSET_NOT_AVAILABLE for what may lie
  beyond it; before v5 LEADER_NOT_AVAILABLE, which those clients support.
- A replica id of 0 or more is TOPIC_AUTHORIZATION_FAILED: replicas do not ask a gateway.

Deviations: a debugging consumer (replica id −2) sees no further than any other, to the high watermark. There is no
tiered storage, so −4 is the log start, and −5 and −6 are answered with −1.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from barnabas.channel.messages import OffsetAnswer
from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.backends.pending_query import PendingOffsetQuery
from barnabas_gateway.core.backends.query_router import QueryRouter
from barnabas_gateway.core.connections.connection import BaseRequest, Connection
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment

_VERSION_WITH_NOT_AVAILABLE = 5
_VERSION_WITH_TIMEOUT = 10

QUERIES_AT_ONCE: Final = 256
"""Unanswered queries of one request: they compete with appends at the leaders, and other requests need capacity too."""

_VERSIONS_MIN = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The first version that may use each special timestamp."""


class PendingListOffsets(BaseRequest["ListOffsetsHandler"]):
    __slots__ = ("has_failed", "queries", "response", "unanswered")

    def __init__(
        self, handler: ListOffsetsHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response: ListOffsetsResponse = ListOffsetsResponse()
        self.has_failed = False
        """Whether a partition has an error."""
        self.queries: deque[tuple[PendingOffsetQuery, int]] = deque()
        """Queries that are not sent yet, with the node ids of the leaders."""
        self.unanswered: dict[PendingOffsetQuery, None] = {}

    def offset_answered(self, query: PendingOffsetQuery, answer: OffsetAnswer | None) -> None:
        """A leader's answer, or None when its stream was lost."""
        if self.unanswered.pop(query, self) is self:
            return
        response = query.response
        if answer is None:
            self.fail(response, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            if answer.error_code:
                self.fail(response, self._error_of(answer.error_code))
            response.timestamp = answer.timestamp
            response.offset = answer.offset
            response.leader_epoch = answer.leader_epoch
        self.ask_next()

    def _error_of(self, error_code: int) -> int:
        if error_code == ErrorCode.OFFSET_NOT_AVAILABLE and self.header.api_version < _VERSION_WITH_NOT_AVAILABLE:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return error_code

    def fail(self, response: ListOffsetsPartitionResponse, error_code: int) -> None:
        """Answer one partition with an error."""
        response.error_code = error_code
        self.has_failed = True

    def ask_next(self) -> None:
        """Send as many of the queries as may be outstanding at once; respond when all are answered."""
        handler = self.handler
        while self.queries and len(self.unanswered) < QUERIES_AT_ONCE:
            query, leader = self.queries.popleft()
            self.unanswered[query] = None
            if not handler.queries.submit_query(query, leader):
                del self.unanswered[query]
                self.fail(query.response, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self.unanswered:
            handler.responder.respond(self, self.response, may_have_failed=self.has_failed)

    def expire(self, now_ms: int) -> None:
        for query in (*self.unanswered, *(query for query, _ in self.queries)):
            self.fail(query.response, ErrorCode.REQUEST_TIMED_OUT)
        self.cancel()
        self.ask_next()

    def cancel(self) -> None:
        self.queries.clear()
        self.unanswered.clear()


class ListOffsetsHandler(Handler):
    api_key = ApiKey.LIST_OFFSETS
    request_class = PendingListOffsets

    def __init__(self, environment: RequestEnvironment, queries: QueryRouter) -> None:
        super().__init__(environment)
        self.queries = queries

    def start(self, pending: PendingListOffsets, request: ListOffsetsRequest) -> Steps[None] | None:
        steps = self._start_in_steps(pending, request)
        if pending.is_long:
            return steps
        for _ in steps:
            pass
        return None

    def _start_in_steps(self, pending: PendingListOffsets, request: ListOffsetsRequest) -> Steps[None]:
        named: dict[tuple[str, int], int] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                named[key] = named.get(key, 0) + 1
                yield 1
            yield 1
        for topic in request.topics:
            responses: list[ListOffsetsPartitionResponse] = []
            pending.response.topics.append(ListOffsetsTopicResponse(topic.name, responses))
            resource = (ResourceType.TOPIC, topic.name)
            is_allowed = request.replica_id < 0 and self.authorizer.authorize(pending, Operation.DESCRIBE, resource)
            for partition in topic.partitions:
                response = ListOffsetsPartitionResponse(partition.partition_index)
                responses.append(response)
                if not is_allowed:
                    pending.fail(response, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                elif named[topic.name, partition.partition_index] > 1:
                    pending.fail(response, ErrorCode.INVALID_REQUEST)
                else:
                    _ask(pending, request, topic.name, partition, response)
                yield 1
            yield 1
        wait_ms = request.timeout_ms if pending.header.api_version >= _VERSION_WITH_TIMEOUT else 0
        self.deadlines.schedule(pending, self.clock.now_ms + (wait_ms if wait_ms > 0 else self.config.read_wait_ms_max))
        pending.ask_next()


def _ask(
    pending: PendingListOffsets,
    request: ListOffsetsRequest,
    topic: str,
    partition: ListOffsetsPartition,
    response: ListOffsetsPartitionResponse,
) -> None:
    """Add the query to this partition's leader, or the error if there is none to send."""
    image = pending.handler.image
    metadata = image.topics_by_name.get(topic)
    leader = None if metadata is None else image.partition(metadata.topic_id, partition.partition_index)
    timestamp = partition.timestamp
    if metadata is None or leader is None:
        pending.fail(response, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif timestamp < 0 and pending.header.api_version < _VERSIONS_MIN.get(timestamp, 1 << 15):
        pending.fail(response, ErrorCode.UNSUPPORTED_VERSION)
    else:
        query = PendingOffsetQuery(
            pending,
            metadata.topic_id,
            partition.partition_index,
            partition.current_leader_epoch,
            max(0, request.isolation_level),
            timestamp,
            response,
        )
        pending.queries.append((query, leader.leader))
