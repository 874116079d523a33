"""CreatePartitions: new chunks are written first, the record that counts them last.

Rules and messages are those of Kafka's ReplicationControlManager. The last Txn of a topic extends its last chunk as it
is at that moment, because leaders may have moved since the decision. An interrupted growth leaves chunks that no record
counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from barnabas.cluster.keys import (
    PARTITIONS_PER_CHUNK,
    TOPIC_PARTITIONS_MAX,
    PartitionChunk,
    PartitionRecord,
    TopicRecord,
)
from barnabas.cluster.messages import (
    EXCESSIVE_PARTITIONS,
    PARTITIONS_PER_REQUEST_MAX,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    NewPartitions,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import Liveness
from barnabas_controller.core.state.writes import Step, Write, pack, put, written
from barnabas_controller.core.topics.placement import (
    PACKED_PER_ELEMENT,
    Placement,
    Refused,
    replication_factor_of,
)


@dataclass(slots=True)
class PartitionCreation:
    """A result per topic, and the id of each that grows; b"" for the others."""

    results: list[CreatePartitionsResult] = field(default_factory=list)
    topic_ids: list[bytes] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def create_partitions(
    image: ControllerImage, request: CreatePartitionsRequest, live: Liveness
) -> Steps[PartitionCreation]:
    """Decide about every topic of the request. Between two steps leaders may move, but no topic changes its size."""
    creation = PartitionCreation()
    placement = Placement(image, live)
    yield from placement.count()
    occurrences = Counter(asked.topic for asked in request.topics)
    excessive = sum(_added(image, asked) for asked in request.topics) > PARTITIONS_PER_REQUEST_MAX
    for asked in request.topics:
        yield 1
        try:
            if occurrences[asked.topic] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = image.topics.get(asked.topic)
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise Refused(code, code.message)
            _check_count(topic, asked)
            _check_known(image, topic)
            if excessive:
                raise Refused(ErrorCode.POLICY_VIOLATION, EXCESSIVE_PARTITIONS)
            if asked.count > TOPIC_PARTITIONS_MAX:
                message = f"A topic has at most {TOPIC_PARTITIONS_MAX:,} partitions; {asked.count:,} were asked for."
                raise Refused(ErrorCode.INVALID_PARTITIONS, message)
            added = yield from _place(image, topic, asked, placement)
        except Refused as refused:
            creation.results.append(CreatePartitionsResult(refused.error_code, refused.message))
            creation.topic_ids.append(b"")
            continue
        creation.results.append(CreatePartitionsResult(ErrorCode.NONE))
        creation.topic_ids.append(topic.topic_id)
        if not request.validate_only:
            creation.steps += yield from _steps(image, topic, added)
    return creation


def _added(image: ControllerImage, asked: NewPartitions) -> int:
    topic = image.topics.get(asked.topic)
    return 0 if topic is None else max(0, asked.count - topic.partitions)


def _check_count(topic: TopicRecord, asked: NewPartitions) -> None:
    if asked.count == topic.partitions:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {topic.partitions} partition(s).")
    if asked.count < topic.partitions:
        message = (
            f"The topic {topic.topic} currently has {topic.partitions} partition(s); "
            f"{asked.count} would not be an increase."
        )
        raise Refused(ErrorCode.INVALID_PARTITIONS, message)


def _check_known(image: ControllerImage, topic: TopicRecord) -> None:
    """Check that the last chunk, which is extended, can be read."""
    if next(image.unknown_ranges(topic), None) is not None:
        message = f"The state of partitions of topic {topic.topic} in etcd is unreadable."
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _place(
    image: ControllerImage, topic: TopicRecord, asked: NewPartitions, placement: Placement
) -> Steps[list[PartitionRecord]]:
    """Return the first state of each new partition."""
    added = asked.count - topic.partitions
    replication_factor = replication_factor_of(image, topic)
    if not asked.assignments:
        return (yield from placement.place(added, replication_factor))
    if len(asked.assignments) != added:
        message = (
            f"Attempted to add {added} additional partition(s), "
            f"but only {len(asked.assignments)} assignment(s) were specified."
        )
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    placed = []
    for assignment in asked.assignments:
        placed.append(placement.place_by_hand(assignment, replication_factor))
        yield 1
    return placed


def _steps(image: ControllerImage, topic: TopicRecord, added: Sequence[PartitionRecord]) -> Steps[list[Step]]:
    """Yield the new chunks, over as many Txns as needed, then the extended last chunk with the record that counts them
    all.
    """
    free = -topic.partitions % PARTITIONS_PER_CHUNK
    chunks: list[Write] = []
    for first in range(free, len(added), PARTITIONS_PER_CHUNK):
        number = (topic.partitions + first) // PARTITIONS_PER_CHUNK
        packed = tuple(added[first : first + PARTITIONS_PER_CHUNK])
        chunks.append(put(image.keys.chunk(topic.topic_id, number), PartitionChunk(topic.topic_id, number, packed)))
        yield len(packed) // PACKED_PER_ELEMENT
    return [*map(written, pack(chunks)), lambda: _commit(image, topic.topic, added[:free], len(added))]


def _commit(image: ControllerImage, name: str, extension: Sequence[PartitionRecord], added: int) -> list[Write]:
    topic = image.topics.get(name)
    if topic is None or next(image.unknown_ranges(topic), None) is not None:
        return []  # it has become unreadable since
    writes: list[Write] = []
    if extension:
        number = topic.partitions // PARTITIONS_PER_CHUNK
        chunk = image.chunks[topic.topic_id][number]
        longer = replace(chunk, partitions=(*chunk.partitions, *extension))
        writes.append(put(image.keys.chunk(topic.topic_id, number), longer))
    writes.append(put(image.keys.topic(name), replace(topic, partitions=topic.partitions + added)))
    return writes
