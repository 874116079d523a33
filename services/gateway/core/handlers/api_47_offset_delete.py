"""OffsetDelete, API key 47, version 0 (KIP-496).

- Topics and partitions that the cluster does not have are UNKNOWN_TOPIC_OR_PARTITION; the group's coordinator is asked
  for the rest, and also where nothing is left: what is wrong with the group comes first. GROUP_SUBSCRIBED_TO_TOPIC is
  its word.
- Without a coordinator the whole is NOT_COORDINATOR; COORDINATOR_NOT_AVAILABLE where offsets may have been deleted.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.primitives import Buffer
from services.gateway.core.authorization import Operation, ResourceType, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.group_call import PendingGroupCall
from services.gateway.core.group_calls import decode_answer
from services.gateway.core.topic_names import partitions_of


class PendingOffsetDelete(PendingGroupCall):
    __slots__ = ("topics",)

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.topics: dict[str, OffsetDeleteResponseTopic] = {}
        """What is answered so far, by name."""

    def add(self, topic: OffsetDeleteResponseTopic) -> None:
        known = self.topics.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions

    def answer(self, body: Buffer) -> None:
        response = decode_answer(self.header.api_key, self.header.api_version, body)
        assert isinstance(response, OffsetDeleteResponse)
        if response.error_code:
            self.refuse(response.error_code)
            return
        for topic in response.topics:
            self.add(topic)
        self.respond()

    def refusal(self, error: int) -> OffsetDeleteResponse:
        """An error of the group says nothing of partitions."""
        return OffsetDeleteResponse(error_code=error)

    def respond(self) -> None:
        response = OffsetDeleteResponse(topics=list(self.topics.values()))
        self.connection.processor.requests.respond(self, response)


def start(slot: PendingOffsetDelete, request: OffsetDeleteRequest) -> None:
    if not authorize(slot.connection.context, Operation.DELETE, (ResourceType.GROUP, request.group_id)):
        slot.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    topics = [known for topic in request.topics if (known := _known_part(slot, topic)).partitions]
    version = slot.header.api_version
    slot.call(request.group_id, version, encode_body(OffsetDeleteRequest(request.group_id, topics), version))


def _known_part(slot: PendingOffsetDelete, topic: OffsetDeleteRequestTopic) -> OffsetDeleteRequestTopic:
    """What the coordinator can be asked; the rest is answered here."""
    if not authorize(slot.connection.context, Operation.READ, (ResourceType.TOPIC, topic.name)):
        _refuse(slot, topic, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return OffsetDeleteRequestTopic(topic.name)
    partitions = partitions_of(slot.connection.processor.image, topic.name)
    unknown = [each for each in topic.partitions if each.partition_index not in partitions]
    if unknown:
        _refuse(slot, topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    known = [each for each in topic.partitions if each.partition_index in partitions]
    return OffsetDeleteRequestTopic(topic.name, known)


def _refuse(
    slot: PendingOffsetDelete,
    topic: OffsetDeleteRequestTopic,
    partitions: list[OffsetDeleteRequestPartition],
    error: ErrorCode,
) -> None:
    refused = [OffsetDeleteResponsePartition(each.partition_index, error) for each in partitions]
    slot.add(OffsetDeleteResponseTopic(topic.name, refused))
