"""OffsetCommit, API key 8, versions 2 to 10.

- Topics that the cluster does not have are UNKNOWN_TOPIC_OR_PARTITION, by id (v10) UNKNOWN_TOPIC_ID, and so are
  partitions; by this gateway's metadata, as by a broker's in Kafka. The rest is still committed.
- A request of which nothing has to be removed is forwarded unchanged to the group's coordinator, and its answer
  unchanged to the client. Otherwise, and with topic ids, what is left is encoded again, with names (v9 at most), and
  the answers are merged: first what was refused here. One of more than 512 elements is put to the coordinator in calls
  of 500 partitions, one after the other: where one fails, those before it are committed. There a partition that is
  named twice is committed once, as named last, and answered once.
- An error of the whole group is returned in each partition. Without a coordinator NOT_COORDINATOR;
  COORDINATOR_NOT_AVAILABLE if the offsets may have been committed.

Deviations: none known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.primitives import Buffer, Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.connections.dispatcher import WithBody
from barnabas_gateway.core.model.topic_names import partitions_of
from barnabas_gateway.core.requests.group_request import GROUP_CALL_ELEMENTS_MAX, GroupHandler, PendingSplitGroupRequest

_VERSION_WITH_TOPIC_IDS = 10
_VERSION_WITH_NAMES = 9
_ELEMENTS_AT_ONCE = 64
"""Topics and partitions that are checked without steps, at a fraction of a microsecond each."""


class PendingOffsetCommit(PendingSplitGroupRequest):
    __slots__ = ("answered", "topic_ids")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.answered: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
        """What is answered so far, by name and id; first what the coordinator is not sent."""
        self.topic_ids: dict[str, bytes] = {}
        """What is sent to the coordinator."""

    @property
    def call_version(self) -> int:
        return min(self.header.api_version, _VERSION_WITH_NAMES)

    def add_result(self, name: str, topic_id: bytes, partition: int, error: int) -> None:
        topic = self.answered.get((name, topic_id))
        if topic is None:
            topic = self.answered[name, topic_id] = OffsetCommitResponseTopic(name, topic_id, [])
        topic.partitions.append(OffsetCommitResponsePartition(partition, error))

    def merge(self, response: Response) -> bool:
        assert isinstance(response, OffsetCommitResponse)
        for topic in response.topics:
            topic_id = self.topic_ids.get(topic.name, topic.topic_id)
            for each in topic.partitions:
                self.add_result(topic.name, topic_id, each.partition_index, each.error_code)
        return True

    def refuse(self, error: int) -> None:
        self.handler.responder.begin_steps(self, self._refuse_in_steps(error))

    def _refuse_in_steps(self, error: int) -> Steps[None]:
        """Fail everything that is not answered yet."""
        for part in (self.asked, *self.parts):
            assert isinstance(part, OffsetCommitRequest)
            for topic in part.topics:
                for each in topic.partitions:
                    topic_id = self.topic_ids.get(topic.name, topic.topic_id)
                    self.add_result(topic.name, topic_id, each.partition_index, error)
                    yield 1
        self.respond()

    def respond(self) -> None:
        response = OffsetCommitResponse(topics=list(self.answered.values()))
        self.handler.responder.respond(self, response)


class OffsetCommitHandler(GroupHandler):
    api_key = ApiKey.OFFSET_COMMIT
    request_class = PendingOffsetCommit
    takes_body = True

    def start(self, pending: PendingOffsetCommit, asked: WithBody) -> Steps[None] | None:
        request, body = asked
        assert isinstance(request, OffsetCommitRequest)
        pending.asked = request
        if not self.authorizer.authorize(pending, Operation.READ, (ResourceType.GROUP, request.group_id)):
            pending.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        elif self._goes_unchanged(pending, request):
            pending.call_coordinator(request.group_id, pending.call_version, body)
        else:
            return self._sort_out(pending, request, body)
        return None

    def _goes_unchanged(self, pending: PendingOffsetCommit, request: OffsetCommitRequest) -> bool:
        """Whether nothing of a small request has to be removed, as of nearly all: that needs no steps."""
        if pending.is_long or pending.header.api_version >= _VERSION_WITH_TOPIC_IDS:
            return False
        room = _ELEMENTS_AT_ONCE
        image = self.image
        for topic in request.topics:
            room -= 1 + len(topic.partitions)
            resource = (ResourceType.TOPIC, topic.name)
            if room < 0 or not self.authorizer.authorize(pending, Operation.READ, resource, log_denied=False):
                return False
            partitions = partitions_of(image, topic.name)
            for each in topic.partitions:
                if each.partition_index not in partitions:
                    return False
        return True

    def _sort_out(self, pending: PendingOffsetCommit, request: OffsetCommitRequest, body: Buffer) -> Steps[None]:
        """Refuse what does not exist, and put the rest to the coordinator."""
        offsets: dict[str, dict[int, OffsetCommitRequestPartition]] = {}
        for topic in request.topics:
            yield from _add_topic(pending, topic, offsets)
        if request.topics and not offsets:
            pending.respond()
        elif pending.is_long or pending.answered or pending.call_version != pending.header.api_version:
            yield from _split(request, offsets, pending.parts)
            pending.call_parts(request.group_id)
        else:
            pending.call_coordinator(request.group_id, pending.call_version, body)


def _add_topic(
    pending: PendingOffsetCommit,
    topic: OffsetCommitRequestTopic,
    offsets: dict[str, dict[int, OffsetCommitRequestPartition]],
) -> Steps[None]:
    """Commit its existing partitions, and refuse the others."""
    image = pending.handler.image
    refusal = ErrorCode.NONE
    if pending.header.api_version >= _VERSION_WITH_TOPIC_IDS:
        known = image.topics_by_id.get(topic.topic_id)
        if known is None:
            refusal = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic.name = known.topic
    resource = (ResourceType.TOPIC, topic.name)
    if not refusal and not pending.handler.authorizer.authorize(pending, Operation.READ, resource):
        refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions = partitions_of(image, topic.name)
    pending.topic_ids[topic.name] = topic.topic_id
    yield 1
    for each in topic.partitions:
        if refusal or each.partition_index not in partitions:
            error = refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            pending.add_result(topic.name, topic.topic_id, each.partition_index, error)
        else:
            offsets.setdefault(topic.name, {})[each.partition_index] = each
        yield 1


def _split(
    request: OffsetCommitRequest, offsets: dict[str, dict[int, OffsetCommitRequestPartition]], parts: deque[Request]
) -> Steps[None]:
    """Split the request into as many as needed; one without topics stays one."""
    room = 0
    for name, by_partition in offsets.items() or (("", {}),):
        topic: OffsetCommitRequestTopic | None = None
        for each in by_partition.values():
            cost = 1 + len(each.committed_metadata or "") // 256
            if topic is None or room < cost:
                topic = OffsetCommitRequestTopic(name)
                if room < cost:
                    parts.append(replace(request, topics=[]))
                    room = GROUP_CALL_ELEMENTS_MAX
                part = parts[-1]
                assert isinstance(part, OffsetCommitRequest)
                part.topics.append(topic)
            topic.partitions.append(each)
            room -= cost
            yield 1
    if not parts:
        parts.append(replace(request, topics=[]))
