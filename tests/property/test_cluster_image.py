"""A member that receives changes, partition by partition, has the same state as one that receives everything."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import (
    PARTITIONS_PER_CHUNK,
    Keys,
    PartitionChunk,
    PartitionRecord,
    TopicRecord,
    encode_record,
)
from barnabas.cluster.messages import PartitionMetadata
from barnabas.ports.etcd import KeyValue, WatchBatch, WatchEvent
from barnabas_controller.core.members.metadata import full_update, incremental_update
from barnabas_controller.core.state.image import ControllerImage
from tests.tiers import Cost, examples

KEYS = Keys()
CONTROLLER_EPOCH = 1
NODES = (1, 2, 3)


class Etcd:
    """Topics as a controller writes them, in batches of several revisions."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.image = ControllerImage(KEYS)
        self.image.revision = self.revision = 0
        self.topics: dict[str, TopicRecord] = {}
        self.chunks: dict[bytes, list[PartitionChunk]] = {}
        self.events: list[WatchEvent] = []

    def put(self, key: str, record: TopicRecord | PartitionChunk) -> None:
        self.revision += 1
        self.events.append(WatchEvent(KeyValue(key, encode_record(record), self.revision, self.revision)))

    def remove(self, key: str) -> None:
        self.revision += 1
        self.events.append(WatchEvent(KeyValue(key, b"", 0, self.revision), deleted=True))

    def put_chunk(self, chunk: PartitionChunk) -> None:
        self.put(KEYS.chunk(chunk.topic_id, chunk.chunk), chunk)

    def act(self) -> None:
        action = self.random.choice(("create", "change", "change", "change", "change", "configure", "grow", "delete"))
        if action == "create" or not self.topics:
            self.create()
            return
        topic = self.random.choice(list(self.topics.values()))
        match action:
            case "change":
                self.change(topic)
            case "configure":
                self.put_topic(replace(topic, configs={"segment.bytes": str(self.random.randrange(1000, 9000))}))
            case "grow":
                self.grow(topic)
            case "delete":
                del self.topics[topic.topic]
                self.remove(KEYS.topic(topic.topic))
                for chunk in self.chunks.pop(topic.topic_id):
                    self.remove(KEYS.chunk(topic.topic_id, chunk.chunk))

    def put_topic(self, topic: TopicRecord) -> None:
        self.topics[topic.topic] = topic
        self.put(KEYS.topic(topic.topic), topic)

    def create(self) -> None:
        """Its partitions first, as a creation may break off."""
        name = f"topic-{self.random.randrange(4)}"
        if name in self.topics:
            return
        count = self.random.choice((1, 3, 3, 5, 5, PARTITIONS_PER_CHUNK + 2))
        topic = TopicRecord(name, self.random.randbytes(16), count, 3, {})
        self.chunks[topic.topic_id] = []
        self.grow_to(topic.topic_id, count)
        self.put_topic(topic)

    def grow(self, topic: TopicRecord) -> None:
        self.grow_to(topic.topic_id, topic.partitions + 2)
        self.put_topic(replace(topic, partitions=topic.partitions + 2))

    def grow_to(self, topic_id: bytes, count: int) -> None:
        chunks = self.chunks[topic_id]
        partitions = [each for chunk in chunks for each in chunk.partitions]
        partitions += [PartitionRecord(1, 0, 0, NODES, NODES)] * (count - len(partitions))
        for first in range(0, count, PARTITIONS_PER_CHUNK):
            number = first // PARTITIONS_PER_CHUNK
            chunk = PartitionChunk(topic_id, number, tuple(partitions[first : first + PARTITIONS_PER_CHUNK]))
            if number < len(chunks) and chunks[number] == chunk:
                continue
            chunks[number : number + 1] = [chunk]
            self.put_chunk(chunk)

    def change(self, topic: TopicRecord) -> None:
        """Some partitions of a chunk; at times none, as of a Txn that was repeated."""
        chunks = self.chunks[topic.topic_id]
        index = self.random.randrange(len(chunks))
        partitions = list(chunks[index].partitions)
        for _ in range(self.random.randrange(4)):
            number = self.random.randrange(len(partitions))
            old = partitions[number]
            partitions[number] = structs.replace(
                old,
                leader=self.random.choice(NODES),
                leader_epoch=old.leader_epoch + self.random.randrange(2),
                partition_epoch=old.partition_epoch + 1,
            )
        chunks[index] = replace(chunks[index], partitions=tuple(partitions))
        self.put_chunk(chunks[index])


def has_everything(image: ControllerImage) -> ClusterImage:
    member = ClusterImage()
    assert member.apply(full_update(image, CONTROLLER_EPOCH))
    return member


def known(member: ClusterImage) -> tuple[object, ...]:
    return member.topics_by_name, member.topics_by_id, member.partitions_by_topic_id


@examples(Cost.HIGH)
@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 4))
def test_changes_lead_to_what_everything_at_once_says(seed: int, batches: int, changes_per_batch: int) -> None:
    random = Random(seed)
    etcd = Etcd(random)
    member = has_everything(etcd.image)
    late = None
    for _ in range(batches):
        for _ in range(random.randint(1, changes_per_batch)):
            etcd.act()
        if not etcd.events:
            continue
        changes = etcd.image.apply(WatchBatch(etcd.revision, tuple(etcd.events)))
        etcd.events.clear()
        update = incremental_update(etcd.image, changes, CONTROLLER_EPOCH)
        for each in (member, late):
            if each is not None and update is not None:
                assert each.apply(update)
        if late is None and random.random() < 0.2:
            late = has_everything(etcd.image)
        for each in (member, late):
            if each is not None:
                assert known(each) == known(has_everything(etcd.image))


@examples(Cost.HIGH)
@given(st.integers(0, 2**32))
def test_single_changes_name_nothing_else(seed: int) -> None:
    etcd = Etcd(Random(seed))
    etcd.create()
    etcd.image.apply(WatchBatch(etcd.revision, tuple(etcd.events)))
    etcd.events.clear()
    (topic,) = etcd.topics.values()
    before = [each for chunk in etcd.chunks[topic.topic_id] for each in chunk.partitions]
    etcd.change(topic)
    after = [each for chunk in etcd.chunks[topic.topic_id] for each in chunk.partitions]
    changes = etcd.image.apply(WatchBatch(etcd.revision, tuple(etcd.events)))
    update = incremental_update(etcd.image, changes, CONTROLLER_EPOCH)
    assert update is not None
    named: list[PartitionMetadata] = [each for reported in update.topics for each in reported.partitions]
    assert [each.partition for each in named] == [number for number, old in enumerate(before) if after[number] != old]


def test_a_leader_that_was_adopted_outlives_news_that_have_not_caught_up() -> None:
    etcd = Etcd(Random(1))
    etcd.create()
    etcd.image.apply(WatchBatch(etcd.revision, tuple(etcd.events)))
    member = has_everything(etcd.image)
    (topic,) = member.topics_by_name.values()
    assert member.adopt_leader(topic.topic_id, 0, leader=3, leader_epoch=9)
    update = replace(
        full_update(etcd.image, CONTROLLER_EPOCH),
        revision=etcd.revision + 1,
        full=False,
        topics=[
            replace(topic, partitions=[structs.replace(topic.partitions[0], leader=2, leader_epoch=5)], partial=True)
        ],
    )
    assert member.apply(update)
    adopted = member.partition(topic.topic_id, 0)
    assert adopted is not None
    assert (adopted.leader, adopted.leader_epoch) == (3, 9)
    assert len(member.partitions_by_topic_id[topic.topic_id]) == topic_count(topic.topic, etcd)


def topic_count(name: str, etcd: Etcd) -> int:
    return etcd.topics[name].partitions
