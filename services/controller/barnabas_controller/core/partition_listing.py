"""Partitions as operators ask for them: in which condition each is, and which of them are meant.

The conditions are Kafka's, as `kafka-topics --describe` and the gauges of its brokers have them; a partition of fewer
replicas than its minimum counts as needing all of them, and no more, as its leader counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from barnabas.cluster.keys import PartitionRecord, TopicRecord
from barnabas.cluster.messages import NO_LEADER
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.topic_rules import MIN_INSYNC_REPLICAS, TopicRulesTable


class Condition(IntEnum):
    """By the numbers of PartitionCondition in protos/barnabas_protos/controller/v1/operations.proto."""

    OFFLINE = 1
    UNDER_REPLICATED = 2
    UNDER_MIN_ISR = 3
    AT_MIN_ISR = 4
    REASSIGNING = 5
    LEADER_NOT_PREFERRED = 6
    LEADER_RECOVERING = 7


@dataclass(slots=True, frozen=True)
class ListedPartition:
    topic: TopicRecord
    number: int
    record: PartitionRecord
    min_insync_replicas: int
    conditions: tuple[Condition, ...]

    @property
    def position(self) -> tuple[str, int]:
        """Its place in a list of them."""
        return self.topic.topic, self.number


@dataclass(slots=True, frozen=True)
class PartitionFilter:
    """All that is given has to hold; of the conditions any. A leader of -1 is none."""

    topic: str = ""
    conditions: frozenset[int] = frozenset()
    leader: int | None = None
    replica: int | None = None

    def takes(self, listed: ListedPartition) -> bool:
        record = listed.record
        return (
            (self.leader is None or record.leader == self.leader)
            and (self.replica is None or self.replica in record.replicas)
            and (not self.conditions or not self.conditions.isdisjoint(listed.conditions))
        )


@dataclass(slots=True)
class PartitionCounts:
    """Of a topic, or of all: partitions by condition; what each node leads and has."""

    conditions: Counter[Condition] = field(default_factory=Counter)
    leaders: Counter[int] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)


def list_partitions(
    image: ControllerImage,
    rules: TopicRulesTable,
    wanted: PartitionFilter = PartitionFilter(),
) -> Iterator[ListedPartition]:
    """By topic and number."""
    names = sorted(image.topics) if not wanted.topic else [wanted.topic]
    minimums = _Minimums(rules)
    for name in names:
        topic = image.topics[name]
        minimum = minimums.of(topic)
        for number, record in image.partitions(topic.topic_id):
            listed = ListedPartition(topic, number, record, minimum, conditions_of(record, minimum))
            if wanted.takes(listed):
                yield listed


def conditions_of(record: PartitionRecord, min_insync_replicas: int) -> tuple[Condition, ...]:
    found = []
    in_sync = len(record.in_sync_replicas)
    if record.leader == NO_LEADER:
        found.append(Condition.OFFLINE)
    elif in_sync < len(record.replicas) and not {*record.in_sync_replicas, *record.adding_replicas}.issuperset(
        record.replicas
    ):
        found.append(Condition.UNDER_REPLICATED)
    needed = min(min_insync_replicas, len(record.replicas) - len(record.adding_replicas))
    if in_sync < needed:
        found.append(Condition.UNDER_MIN_ISR)
    elif in_sync == needed:
        found.append(Condition.AT_MIN_ISR)
    if record.adding_replicas or record.removing_replicas:
        found.append(Condition.REASSIGNING)
    if record.leader not in (NO_LEADER, record.replicas[0]):
        found.append(Condition.LEADER_NOT_PREFERRED)
    if record.leader_recovering:
        found.append(Condition.LEADER_RECOVERING)
    return tuple(found)


def count_partitions(image: ControllerImage, rules: TopicRulesTable, topics: Collection[str] = ()) -> PartitionCounts:
    """Of these topics; of all where none is named."""
    counts = PartitionCounts()
    minimums = _Minimums(rules)
    for topic in [image.topics[name] for name in topics] or image.topics.values():
        minimum = minimums.of(topic)
        for _, record in image.partitions(topic.topic_id):
            counts.conditions.update(conditions_of(record, minimum))
            counts.leaders[record.leader] += 1
            counts.replicas.update(record.replicas)
    return counts


class _Minimums:
    """Most topics have the same `min.insync.replicas`, and working out one takes as long as a hundred partitions."""

    def __init__(self, rules: TopicRulesTable) -> None:
        self._rules = rules
        self._by_override: dict[str | None, int] = {}

    def of(self, topic: TopicRecord) -> int:
        override = topic.configs.get(MIN_INSYNC_REPLICAS)
        if topic.topic_id in self._rules.unsettled:
            return self._rules.of(topic.topic_id).min_insync_replicas
        if override not in self._by_override:
            self._by_override[override] = self._rules.of(topic.topic_id).min_insync_replicas
        return self._by_override[override]
