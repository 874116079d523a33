"""CreateTopics: decide which topics of a request are created, with which partitions where, and why the others are not.

Rules and messages are those of Kafka's ReplicationControlManager and Topic.validate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.cluster.keys import PARTITIONS_PER_CHUNK, PartitionChunk, PartitionRecord, TopicRecord
from barnabas.cluster.messages import (
    EXCESSIVE_PARTITIONS,
    PARTITIONS_PER_REQUEST_MAX,
    CreateTopicResult,
    CreateTopicsRequest,
    NewTopic,
)
from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas.wire.topic_names import topic_name_problem
from barnabas_controller.core.state.image import ControllerImage, collision_name
from barnabas_controller.core.state.partition_changes import Liveness
from barnabas_controller.core.state.writes import Write, put
from barnabas_controller.core.topics.internal_topics import OffsetsTopic, TransactionStateTopic
from barnabas_controller.core.topics.placement import PACKED_PER_ELEMENT, Placement, Refused

# Kafka's reserved Uuids: ZERO_UUID, and ONE_UUID, which was the id of the metadata topic.
_RESERVED_TOPIC_IDS = frozenset({bytes(16), bytes(15) + b"\x01"})
NO_TOPIC_ID = bytes(16)
_CONFIGS_PER_ELEMENT = 10
# Bytes of one resource's configs, names and values: every member gets them, and a record has to fit into a Txn.
CONFIG_BYTES_MAX = 128 * 1024


@dataclass(slots=True, frozen=True)
class TopicDefaults:
    """For topics that ask for -1; `offsets` and `transactions`: for the coordinators' topics, whatever they ask for."""

    partitions: int = 1
    replication_factor: int = 1
    offsets: OffsetsTopic = OffsetsTopic()  # noqa: RUF009 - it is frozen
    transactions: TransactionStateTopic = TransactionStateTopic()  # noqa: RUF009 - it is frozen


@dataclass(slots=True)
class TopicCreation:
    """A result per topic; the writes that create the valid ones, each topic's record after its chunks."""

    results: list[CreateTopicResult] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    created: list[TopicRecord] = field(default_factory=list)


def create_topics(
    image: ControllerImage,
    request: CreateTopicsRequest,
    defaults: TopicDefaults,
    new_topic_id: Callable[[], bytes],
    live: Liveness,
) -> Steps[TopicCreation]:
    """Decide about every topic of the request, against the image and the topics before it in the request.

    Between two steps the image may change, as leaders move: no topic is created or deleted meanwhile.
    """
    creation = TopicCreation()
    placement = Placement(image, live)
    yield from placement.count()
    occurrences = Counter(topic.topic for topic in request.topics)
    wanted = {asked.topic: asked for asked in request.topics}
    for topic, internal in ((OFFSETS_TOPIC, defaults.offsets), (TRANSACTION_STATE_TOPIC, defaults.transactions)):
        if topic in wanted:
            logstores = len(image.known_node_ids().difference(live.drained))
            wanted[topic] = internal.filled_in(wanted[topic], logstores)
    # By collision name: what this request adds to the image.
    added: dict[str, str] = {}
    excessive = _asked_partitions(wanted.values(), defaults) > PARTITIONS_PER_REQUEST_MAX
    for topic, asked in wanted.items():
        yield 1 + len(asked.configs) // _CONFIGS_PER_ELEMENT
        try:
            if occurrences[topic] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_name(image, topic, added)
            if excessive:
                raise Refused(ErrorCode.POLICY_VIOLATION, EXCESSIVE_PARTITIONS)
            partitions = yield from _assign(asked, defaults, placement)
            check_size(asked.configs)
            config = TopicConfig.from_overrides(asked.configs)
            if isinstance(config, str):
                raise Refused(ErrorCode.INVALID_CONFIG, config)
        except Refused as refused:
            creation.results.append(CreateTopicResult(topic, NO_TOPIC_ID, refused.error_code, refused.message))
            continue
        added[collision_name(topic)] = topic
        record = TopicRecord(
            topic=topic,
            topic_id=NO_TOPIC_ID if request.validate_only else _unused_topic_id(image, new_topic_id),
            partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=dict(asked.configs),
        )
        creation.results.append(
            CreateTopicResult(
                topic=topic,
                topic_id=record.topic_id,
                error_code=ErrorCode.NONE,
                partitions=record.partitions,
                replication_factor=record.replication_factor,
                configs=record.configs,
            )
        )
        if not request.validate_only:
            creation.created.append(record)
            for write in _topic_writes(image, record, partitions):
                creation.writes.append(write)
                yield min(len(partitions), PARTITIONS_PER_CHUNK) // PACKED_PER_ELEMENT
    return creation


def _asked_partitions(topics: Iterable[NewTopic], defaults: TopicDefaults) -> int:
    return sum(
        len(topic.assignments) or (topic.partitions if topic.partitions != -1 else defaults.partitions)
        for topic in topics
        if topic.assignments or topic.partitions >= -1
    )


def _check_name(image: ControllerImage, topic: str, added: dict[str, str]) -> None:
    problem = topic_name_problem(topic)
    if problem is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if image.keys.topic(topic) in image.unreadable:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' exists, and its record in etcd is unreadable.")
    if topic in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
    name = collision_name(topic)
    existing = image.topics_by_collision_name.get(name, added.get(name))
    if existing is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic}' collides with existing topic: {existing}")


def _assign(topic: NewTopic, defaults: TopicDefaults, placement: Placement) -> Steps[list[PartitionRecord]]:
    """Return the first state of every partition, each with a live leader."""
    return _assigned_by_hand(topic, placement) if topic.assignments else _spread(topic, defaults, placement)


def _assigned_by_hand(topic: NewTopic, placement: Placement) -> Steps[list[PartitionRecord]]:
    for value, name in ((topic.replication_factor, "replication factor"), (topic.partitions, "numPartitions")):
        if value != -1:
            message = f"A manual partition assignment was specified, but {name} was not set to -1."
            raise Refused(ErrorCode.INVALID_REQUEST, message)
    assigned: dict[int, PartitionRecord] = {}
    replication_factor = len(topic.assignments[0].broker_ids)
    for assignment in topic.assignments:
        if assignment.partition in assigned:
            message = f"Found multiple manual partition assignments for partition {assignment.partition}"
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        assigned[assignment.partition] = placement.place_by_hand(assignment, replication_factor)
        yield 1
    if any(partition not in assigned for partition in range(len(assigned))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [assigned[partition] for partition in range(len(assigned))]


def _spread(topic: NewTopic, defaults: TopicDefaults, placement: Placement) -> Steps[list[PartitionRecord]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.partitions < -1 or topic.partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise Refused(ErrorCode.INVALID_PARTITIONS, message)
    replication_factor = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    partitions = defaults.partitions if topic.partitions == -1 else topic.partitions
    return placement.place(partitions, replication_factor)


def _unused_topic_id(image: ControllerImage, new_topic_id: Callable[[], bytes]) -> bytes:
    while True:
        topic_id = new_topic_id()
        if topic_id not in _RESERVED_TOPIC_IDS and topic_id not in image.chunks:
            return topic_id


def _topic_writes(
    image: ControllerImage, record: TopicRecord, partitions: Sequence[PartitionRecord]
) -> Iterator[Write]:
    for chunk in range(-(-len(partitions) // PARTITIONS_PER_CHUNK)):
        first = chunk * PARTITIONS_PER_CHUNK
        packed = tuple(partitions[first : first + PARTITIONS_PER_CHUNK])
        key = image.keys.chunk(record.topic_id, chunk)
        yield put(key, PartitionChunk(record.topic_id, chunk, packed))
    yield put(image.keys.topic(record.topic), record)


def check_size(configs: Mapping[str, str]) -> None:
    """Raises Refused if the configs are too large to send to every member."""
    if sum(len(name) + len(value.encode()) for name, value in configs.items()) > CONFIG_BYTES_MAX:
        raise Refused(ErrorCode.INVALID_CONFIG, f"The configs of a resource may have {CONFIG_BYTES_MAX} bytes at most.")
