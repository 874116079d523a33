"""OffsetDelete, API key 47, version 0 (KIP-496).

- Topics and partitions that the cluster does not have are UNKNOWN_TOPIC_OR_PARTITION; the group's coordinator is asked
  for the rest, and also if nothing is left: errors of the group come first. The coordinator decides
  GROUP_SUBSCRIBED_TO_TOPIC.
- A partition that is named twice is deleted and answered once. More than 500 are put to the coordinator in several
  calls, one after the other.
- Without a coordinator the whole is NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE if offsets may have been deleted.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.topic_names import partitions_of
from barnabas_gateway.core.requests.group_request import GROUP_CALL_ELEMENTS_MAX, GroupHandler, PendingSplitGroupRequest


class PendingOffsetDelete(PendingSplitGroupRequest):
    __slots__ = ("topics",)

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.topics: dict[str, OffsetDeleteResponseTopic] = {}
        """What is answered so far, by name."""

    def add_result(self, name: str, partition: int, error: int) -> None:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = OffsetDeleteResponseTopic(name, [])
        topic.partitions.append(OffsetDeleteResponsePartition(partition, error))

    def merge(self, response: Response) -> bool:
        assert isinstance(response, OffsetDeleteResponse)
        if response.error_code:
            self.parts.clear()
            self.topics.clear()
            self.refuse(response.error_code)
            return False
        for topic in response.topics:
            for each in topic.partitions:
                self.add_result(topic.name, each.partition_index, each.error_code)
        return True

    def refuse(self, error: int) -> None:
        """An error of the group says nothing about partitions."""
        self.handler.responder.respond(self, OffsetDeleteResponse(error_code=error))

    def respond(self) -> None:
        response = OffsetDeleteResponse(topics=list(self.topics.values()))
        self.handler.responder.respond(self, response)


class OffsetDeleteHandler(GroupHandler):
    api_key = ApiKey.OFFSET_DELETE
    request_class = PendingOffsetDelete

    def start(self, pending: PendingOffsetDelete, request: OffsetDeleteRequest) -> Steps[None]:
        if not self.authorizer.authorize(pending, Operation.DELETE, (ResourceType.GROUP, request.group_id)):
            pending.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        wanted: dict[tuple[str, int], None] = {}
        for topic in request.topics:
            is_allowed = self.authorizer.authorize(pending, Operation.READ, (ResourceType.TOPIC, topic.name))
            partitions = partitions_of(self.image, topic.name)
            for each in topic.partitions:
                if not is_allowed:
                    pending.add_result(topic.name, each.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                elif each.partition_index not in partitions:
                    pending.add_result(topic.name, each.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    wanted[topic.name, each.partition_index] = None
                yield 1
            yield 1
        part = OffsetDeleteRequest(request.group_id, [])
        pending.parts.append(part)
        room = GROUP_CALL_ELEMENTS_MAX
        for name, partition in wanted:
            if not room:
                part = OffsetDeleteRequest(request.group_id, [])
                pending.parts.append(part)
                room = GROUP_CALL_ELEMENTS_MAX
            if not part.topics or part.topics[-1].name != name:
                part.topics.append(OffsetDeleteRequestTopic(name, []))
            part.topics[-1].partitions.append(OffsetDeleteRequestPartition(partition))
            room -= 1
            yield 1
        pending.call_parts(request.group_id)
