"""DeleteTopics: a topic goes at once, its replicas afterwards; a deletion record stays until the last is gone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from barnabas.cluster.keys import DeletionRecord, TopicRecord
from barnabas.cluster.messages import DeleteTopicResult, DeleteTopicsRequest, TopicReference
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.topic_creation import NO_TOPIC_ID
from barnabas_controller.core.writes import Write, put


@dataclass(slots=True)
class TopicDeletion:
    """A result per topic asked for; for each good one a deletion record put and the topic's removed, together."""

    results: list[DeleteTopicResult] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)


def delete_topics(image: ControllerImage, request: DeleteTopicsRequest) -> TopicDeletion:
    deletion = TopicDeletion()
    found = [_find(image, reference) for reference in request.topics]
    occurrences = Counter(topic.topic_id for topic in found if topic is not None)
    for reference, topic in zip(request.topics, found, strict=True):
        if topic is None:
            by_name = bool(reference.topic)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
            deletion.results.append(_result(reference, code, code.message))
        elif occurrences[topic.topic_id] > 1:
            message = "Duplicate topic name." if reference.topic else "Duplicate topic id."
            deletion.results.append(_result(reference, ErrorCode.INVALID_REQUEST, message))
        else:
            deletion.results.append(DeleteTopicResult(topic.topic, topic.topic_id, ErrorCode.NONE))
            record = DeletionRecord(topic.topic, topic.topic_id, topic.partitions)
            deletion.writes.append(put(image.keys.deletion(topic.topic_id), record))
            deletion.writes.append(Write(image.keys.topic(topic.topic), None))
    return deletion


def _find(image: ControllerImage, reference: TopicReference) -> TopicRecord | None:
    return image.topics.get(reference.topic) if reference.topic else image.topics_by_id.get(reference.topic_id)


def _result(reference: TopicReference, code: ErrorCode, message: str) -> DeleteTopicResult:
    return DeleteTopicResult(reference.topic, reference.topic_id or NO_TOPIC_ID, code, message)


def finish_deletion(image: ControllerImage, topic_id: bytes) -> list[Write]:
    """The chunks go first, the deletion record last, so that a break in between is resumed."""
    chunks = [Write(image.keys.chunk(topic_id, chunk), None) for chunk in sorted(image.chunks.get(topic_id, {}))]
    return [*chunks, Write(image.keys.deletion(topic_id), None)]


def remove_unclaimed_chunks(image: ControllerImage) -> list[Write]:
    """What creations that broke off have left behind."""
    return [Write(image.keys.chunk(topic_id, chunk), None) for topic_id, chunk in image.unclaimed_chunks()]
