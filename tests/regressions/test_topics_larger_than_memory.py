"""A topic's record in etcd with 2³¹ partitions, or a deletion's. A controller publishes of each partition what it
knows, so it filled its memory, and so did each controller after it. With users in etcd, a controller's stolen key can
write such a record; so can the author of a backup that is restored.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.cluster.keys import (
    TOPIC_PARTITIONS_MAX,
    DeletionRecord,
    Keys,
    PartitionChunk,
    PartitionRecord,
    TopicRecord,
    encode_record,
)
from barnabas.cluster.messages import CreatePartitionsRequest, NewPartitions
from barnabas.ports.etcd import KeyValue, WatchBatch, WatchEvent
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas_controller.core.members.metadata import full_update
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import Liveness
from barnabas_controller.core.topics.partition_creation import PartitionCreation, create_partitions
from barnabas_controller.shell.packing import Packer

KEYS = Keys()
TOPIC_ID = b"0123456789abcdef"
Recorded = Callable[[int], tuple[str, bytes]]


def topic_of(partitions: int) -> tuple[str, bytes]:
    return KEYS.topic("events"), encode_record(TopicRecord("events", TOPIC_ID, partitions, 1, {}))


def deletion_of(partitions: int) -> tuple[str, bytes]:
    return KEYS.deletion(TOPIC_ID), encode_record(DeletionRecord("events", TOPIC_ID, partitions))


def image_with(*pairs: tuple[str, bytes]) -> ControllerImage:
    image = ControllerImage(KEYS)
    image.apply(WatchBatch(1, tuple(WatchEvent(KeyValue(key, value, 1, 1)) for key, value in pairs)))
    return image


@pytest.mark.parametrize("partitions", [-1, TOPIC_PARTITIONS_MAX + 1, 2**31, 2**63, 2**70])
@pytest.mark.parametrize("record", [topic_of, deletion_of])
def test_it_is_unreadable_and_the_rest_is_published(record: Recorded, partitions: int) -> None:
    key, value = record(partitions)
    image = image_with((key, value))
    assert list(image.unreadable) == [key]
    assert Packer().subscribe_response(full_update(image, 1))


@pytest.mark.parametrize("record", [topic_of, deletion_of])
def test_the_largest_is_read(record: Recorded) -> None:
    assert image_with(record(TOPIC_PARTITIONS_MAX)).unreadable == {}


def test_no_topic_grows_beyond_it() -> None:
    partition = PartitionRecord(1, 0, 0, (1,), (1,))
    size = 500
    chunks = [PartitionChunk(TOPIC_ID, each, (partition,) * size) for each in range(TOPIC_PARTITIONS_MAX // size)]
    pairs = [(KEYS.chunk(TOPIC_ID, each.chunk), encode_record(each)) for each in chunks]
    image = image_with(*pairs, topic_of(TOPIC_PARTITIONS_MAX))
    request = CreatePartitionsRequest([NewPartitions("events", TOPIC_PARTITIONS_MAX + 1)], 1000)
    assert refusal(create_partitions(image, request, Liveness({1: 1}))) == (
        ErrorCode.INVALID_PARTITIONS,
        "A topic has at most 200,000 partitions; 200,001 were asked for.",
    )


def refusal(steps: Steps[PartitionCreation]) -> tuple[ErrorCode, str]:
    try:
        while True:
            next(steps)
    except StopIteration as ended:
        (result,) = ended.value.results
        return result.error_code, result.error_message
