"""Elections of a topic's partitions together, and what they cost."""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import Keys, PartitionChunk, TopicRecord
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.leader_elections import LeaderElections
from barnabas_controller.core.partition_changes import TopicRules
from barnabas_controller.core.topic_rules import TopicRulesTable
from tests.unit.controller.partition_states import live, partition

TOPIC_ID = bytes(range(16))


def image_of(partitions: int) -> ControllerImage:
    """One topic whose leader, logstore 1, has not acknowledged the minimum of 2 that its two replicas keep."""
    image = ControllerImage(Keys())
    topic = TopicRecord("orders", TOPIC_ID, partitions, 2, {"min.insync.replicas": "2"})
    image.topics[topic.topic], image.topics_by_id[TOPIC_ID] = topic, topic
    records = tuple([partition(1, 2, replicas=(1, 2)) for _ in range(partitions)])
    image.chunks[TOPIC_ID] = {0: PartitionChunk(TOPIC_ID, 0, records)}
    return image


def test_the_rules_of_a_topic_are_made_once_for_all_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are parsed from its configs: for 10,000 partitions that took 0.2 s of a turn."""
    image = image_of(partitions=20)
    asked: list[bytes] = []
    original = TopicRulesTable.of

    def of(self: TopicRulesTable, topic_id: bytes) -> TopicRules:
        asked.append(topic_id)
        return original(self, topic_id)

    monkeypatch.setattr(TopicRulesTable, "of", of)
    both = live(1, 2, unaware=(1,))
    elections = LeaderElections(image, TopicRulesTable(image, {}))
    elections.add([TOPIC_ID])
    assert elections.next_writes(both) == []
    assert elections.are_done
    assert asked == [TOPIC_ID]


def test_a_turn_looks_at_some_partitions_and_the_next_one_goes_on() -> None:
    """All 10,000 partitions of a topic were looked at in the turn in which it came."""
    image = image_of(partitions=10)
    followers = {number: PartitionChunk(TOPIC_ID, number, image.chunks[TOPIC_ID][0].partitions) for number in range(4)}
    image.chunks[TOPIC_ID] = followers
    elections = LeaderElections(image, TopicRulesTable(image, {}))
    elections.add([TOPIC_ID])
    both = live(1, 2)
    for _ in range(3):
        assert elections.next_writes(both, partitions_max=10) == []
        assert not elections.are_done
    # Logstore 1 goes before the last chunk is looked at: what is found there is written, and is found again until then.
    for _ in range(2):
        writes = elections.next_writes(live(2), partitions_max=10)
        assert [write.key for write in writes] == [image.keys.chunk(TOPIC_ID, 3)]
    elections.add([TOPIC_ID])
    assert len(elections.next_writes(live(2), partitions_max=100)) == 4


def test_a_turn_without_time_looks_at_nothing() -> None:
    image = image_of(partitions=10)
    elections = LeaderElections(image, TopicRulesTable(image, {}))
    elections.add([TOPIC_ID])
    assert elections.next_writes(live(2), partitions_max=0) == []
    assert not elections.are_done
