"""OffsetCommit, API key 8, versions 2 to 10.

- Topics that the cluster does not have are UNKNOWN_TOPIC_OR_PARTITION, by id (v10) UNKNOWN_TOPIC_ID, and so are
  partitions; by this gateway's metadata, as by a broker's in Kafka. The rest is committed all the same.
- A request of which nothing has to be taken out goes as it came to the group's coordinator, and its answer as it came
  to the client. Else, and with topic ids, what is left is written anew, with names (v9 at most), and the answers are
  put together: first what was refused here.
- An error of the whole group is told in each partition. Without a coordinator NOT_COORDINATOR;
  COORDINATOR_NOT_AVAILABLE where the offsets may have been committed.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.primitives import Buffer
from services.gateway.core.authorization import Operation, ResourceType, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.group_call import PendingGroupCall, WithBody
from services.gateway.core.group_calls import decode_answer
from services.gateway.core.topic_names import partitions_of

_VERSION_WITH_TOPIC_IDS = 10
_VERSION_WITH_NAMES = 9


class PendingOffsetCommit(PendingGroupCall):
    __slots__ = ("refused", "topics")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.topics: list[OffsetCommitRequestTopic] = []
        """What the coordinator is asked to commit, by name."""
        self.refused: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
        """What it is not asked, by name and id."""

    @property
    def call_version(self) -> int:
        return min(self.header.api_version, _VERSION_WITH_NAMES)

    def refuse_partitions(
        self, topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], error: int
    ) -> None:
        refused = [OffsetCommitResponsePartition(each.partition_index, error) for each in partitions]
        self._add(OffsetCommitResponseTopic(topic.name, topic.topic_id, refused))

    def _add(self, topic: OffsetCommitResponseTopic) -> None:
        known = self.refused.setdefault((topic.name, topic.topic_id), topic)
        if known is not topic:
            known.partitions += topic.partitions

    def answer(self, body: Buffer) -> None:
        if not self.refused and self.call_version == self.header.api_version:
            super().answer(body)
            return
        response = decode_answer(self.header.api_key, self.call_version, body)
        assert isinstance(response, OffsetCommitResponse)
        topic_ids = {topic.name: topic.topic_id for topic in self.topics}
        for topic in response.topics:
            topic.topic_id = topic_ids.get(topic.name, topic.topic_id)
            self._add(topic)
        self.respond()

    def refusal(self, error: int) -> OffsetCommitResponse:
        for topic in self.topics:
            self.refuse_partitions(topic, topic.partitions, error)
        return self._response()

    def _response(self) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=list(self.refused.values()))

    def respond(self) -> None:
        """With what is refused so far."""
        self.connection.processor.requests.respond(self, self._response())


def start(slot: PendingOffsetCommit, asked: WithBody) -> None:
    request, body = asked
    assert isinstance(request, OffsetCommitRequest)
    if not authorize(slot.connection.context, Operation.READ, (ResourceType.GROUP, request.group_id)):
        slot.topics = request.topics
        slot.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    for topic in request.topics:
        _add_topic(slot, topic)
    if request.topics and not slot.topics:
        slot.respond()
        return
    if slot.refused or slot.call_version != slot.header.api_version:
        request.topics = slot.topics
        slot.call(request.group_id, slot.call_version, encode_body(request, slot.call_version))
    else:
        slot.call(request.group_id, slot.call_version, body)


def _add_topic(slot: PendingOffsetCommit, topic: OffsetCommitRequestTopic) -> None:
    """Have its partitions committed that there are, and refuse the others."""
    image = slot.connection.processor.image
    if slot.header.api_version >= _VERSION_WITH_TOPIC_IDS:
        known = image.topics_by_id.get(topic.topic_id)
        if known is None:
            slot.refuse_partitions(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID)
            return
        topic.name = known.topic
    if not authorize(slot.connection.context, Operation.READ, (ResourceType.TOPIC, topic.name)):
        slot.refuse_partitions(topic, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    partitions = partitions_of(image, topic.name)
    unknown = [each for each in topic.partitions if each.partition_index not in partitions]
    if unknown:
        slot.refuse_partitions(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic.partitions = [each for each in topic.partitions if each.partition_index in partitions]
    if topic.partitions:
        slot.topics.append(topic)
