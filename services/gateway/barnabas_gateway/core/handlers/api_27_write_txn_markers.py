"""WriteTxnMarkers, API key 27, versions 1 to 2, for operators who end a hanging transaction (KIP-664).

- Needs ALTER or CLUSTER_ACTION on the cluster; otherwise each partition is CLUSTER_AUTHORIZATION_FAILED.
- Whichever broker is asked, the leader of each partition appends the marker, and the answer is given when it is
  committed. UNKNOWN_TOPIC_OR_PARTITION for one that does not exist. A leader that does not answer is
  NOT_LEADER_OR_FOLLOWER: clients ask again, and a marker that is written twice changes nothing.
- Coordinators send their markers from logstore to logstore, not through a gateway.

Deviations: results are in the order of the request; Kafka joins those of a producer that is named twice.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.admin_request import leader_of
from barnabas_gateway.core.requests.group_request import GroupHandler, PendingGroupsRequest

_Query = tuple[WritableTxnMarker, str, WritableTxnMarkerPartitionResult]
_ELEMENTS_OF_QUERY = 3
"""A marker, a topic and a partition: as many as a call encodes for one partition at most."""


class PendingWriteTxnMarkers(PendingGroupsRequest[_Query]):
    """A query is a marker, the topic, and the place of the partition's result."""

    __slots__ = ("response",)

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.response = WriteTxnMarkersResponse()

    def request_of(self, queries: list[_Query]) -> WriteTxnMarkersRequest:
        """Those of one marker, and of one topic, follow each other: the results come back in this order."""
        request = WriteTxnMarkersRequest()
        before: WritableTxnMarker | None = None
        for marker, name, result in queries:
            if marker is not before:
                before = marker
                request.markers.append(
                    WritableTxnMarker(
                        marker.producer_id,
                        marker.producer_epoch,
                        marker.transaction_result,
                        [],
                        marker.coordinator_epoch,
                        marker.transaction_version,
                    )
                )
            topics = request.markers[-1].topics
            if not topics or topics[-1].name != name:
                topics.append(WritableTxnMarkerTopic(name, []))
            topics[-1].partition_indexes.append(result.partition_index)
        return request

    def fill_results(self, queries: list[_Query], response: Response) -> None:
        assert isinstance(response, WriteTxnMarkersResponse)
        reported = [
            partition for marker in response.markers for topic in marker.topics for partition in topic.partitions
        ]
        for (_, _, result), partition in zip(queries, reported, strict=False):
            result.error_code = partition.error_code

    def fail_queries(self, queries: list[_Query], error: int) -> None:
        for _, _, result in queries:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def complete(self) -> None:
        self.handler.responder.respond(self, self.response)


class WriteTxnMarkersHandler(GroupHandler):
    api_key = ApiKey.WRITE_TXN_MARKERS
    request_class = PendingWriteTxnMarkers

    def start(self, pending: PendingWriteTxnMarkers, request: WriteTxnMarkersRequest) -> Steps[None]:
        authorizer = self.authorizer
        is_allowed = authorizer.authorize(pending, Operation.ALTER, CLUSTER, log_denied=False) or authorizer.authorize(
            pending, Operation.CLUSTER_ACTION, CLUSTER
        )
        for marker in request.markers:
            of_marker = WritableTxnMarkerResult(marker.producer_id, [])
            pending.response.markers.append(of_marker)
            for topic in marker.topics:
                of_topic = WritableTxnMarkerTopicResult(topic.name, [])
                of_marker.topics.append(of_topic)
                for index in topic.partition_indexes:
                    result = WritableTxnMarkerPartitionResult(index, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                    of_topic.partitions.append(result)
                    if is_allowed:
                        known = leader_of(self.image, topic.name, index)
                        if known is None:
                            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        else:
                            _, leader = known
                            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                            pending.add_query_at(leader, 0, (marker, topic.name, result), _ELEMENTS_OF_QUERY)
                    yield 1
                yield 1
            yield 1
        pending.send_calls()
