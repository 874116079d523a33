"""Decide operators' requests for elections and moves: what may be asked for, and which partitions and configs it means.

A throttle is what `kafka-reassign-partitions --throttle` sets: the rate of every broker, and for each topic the
replicas that send (all existing ones) and those that receive (the new ones).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from barnabas.cluster.keys import PartitionRecord, TopicRecord
from barnabas.cluster.messages import (
    ALL_BROKERS,
    NO_LEADER,
    AlterConfigsResource,
    Reassignment,
    TopicPartition,
)
from barnabas_controller.core.elections.elections_on_demand import ElectionType
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.operator_requests import Outcome, RequestRefused
from barnabas_controller.core.topics.config_changes import ResourceType, changes_of

MOVES_MAX: Final = 10_000
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"

NamedPartitions: TypeAlias = tuple[str, Sequence[int]]
"""A topic and some of its partitions; none means all."""


@dataclass(slots=True, frozen=True)
class MovingPartition:
    """A partition whose replicas are being changed."""

    topic: TopicRecord
    number: int
    record: PartitionRecord

    @property
    def position(self) -> tuple[str, int]:
        """The sort key of a partition."""
        return self.topic.topic, self.number

    @property
    def nodes_with_progress(self) -> tuple[int, ...]:
        """The logstores whose replicas show how far the move is: the leader, and those that are added."""
        nodes = dict.fromkeys((self.record.leader, *self.record.adding_replicas))
        return tuple([node_id for node_id in nodes if node_id != NO_LEADER])


class PartitionMoves:
    """All methods but `moving` raise RequestRefused; none changes anything."""

    def __init__(self, image: ControllerImage) -> None:
        self._image = image

    def electing(self, kind: int, named: Sequence[NamedPartitions]) -> list[TopicPartition]:
        """Return the partitions of an election of this kind; none means all, which an unclean one must not mean."""
        if kind not in list(ElectionType):
            kinds = ", ".join(each.name for each in ElectionType)
            raise RequestRefused(Outcome.INVALID, f"there is no kind {kind} of elections: {kinds}")
        if kind == ElectionType.UNCLEAN and not named:
            raise RequestRefused(Outcome.INVALID, "an unclean election may lose records: name the partitions")
        return [TopicPartition(topic, number) for topic, number in self._each(named)]

    def check(self, moves: Sequence[Reassignment], throttle_bytes_per_second: int) -> None:
        """Check what can be said before the moves are decided one by one: counts, the rate, existing partitions."""
        if not moves:
            raise RequestRefused(Outcome.INVALID, "nothing to move: moves is empty")
        if len(moves) > MOVES_MAX:
            problem = f"{len(moves)} moves: at most {MOVES_MAX} can be requested at a time"
            raise RequestRefused(Outcome.INVALID, problem)
        if throttle_bytes_per_second < 0:
            problem = "throttle_bytes_per_second is below 0: a rate in bytes, or 0 for none"
            raise RequestRefused(Outcome.INVALID, problem)
        for move in moves:
            self._require_partition(move.topic, move.partition)
            if not move.replicas:
                problem = f"no replicas for {move.topic}-{move.partition}; CancelReassignments cancels moves"
                raise RequestRefused(Outcome.INVALID, problem)

    def throttles(self, moves: Sequence[Reassignment], bytes_per_second: int) -> list[AlterConfigsResource]:
        """Return the configs that throttle these moves, which `check` has let through; none without a rate."""
        if not bytes_per_second:
            return []
        sending: dict[str, list[str]] = {}
        receiving: dict[str, list[str]] = {}
        for move in moves:
            partition = self._image.partition(self._image.topics[move.topic].topic_id, move.partition)
            assert partition is not None
            sending.setdefault(move.topic, []).extend(f"{move.partition}:{each}" for each in partition.replicas)
            receiving.setdefault(move.topic, []).extend(
                f"{move.partition}:{each}" for each in move.replicas if each not in partition.replicas
            )
        resources = [_changed(ResourceType.BROKER, "", dict.fromkeys(RATES, str(bytes_per_second)))]
        for topic, replicas in sending.items():
            values = {LEADERS: ",".join(replicas), FOLLOWERS: ",".join(receiving[topic])}
            resources.append(_changed(ResourceType.TOPIC, topic, values))
        return resources

    def cancellations(self, named: Sequence[NamedPartitions]) -> list[Reassignment]:
        """Return what cancels the moves of the named partitions, or every move if none is named."""
        positions = list(self._each(named)) or [each.position for each in self.moving()]
        return [Reassignment(topic, number, []) for topic, number in positions]

    def throttle_removals(self) -> list[AlterConfigsResource]:
        """Return what deletes the throttles of all brokers and topics, once nothing moves any more."""
        moving = sum(1 for _ in self.moving())
        if moving:
            problem = f"{moving} partitions still move: wait until they are complete, or cancel them"
            raise RequestRefused(Outcome.REFUSED, problem)
        resources: list[AlterConfigsResource] = []
        for broker_id, record in sorted(self._image.broker_configs.items()):
            name = "" if broker_id == ALL_BROKERS else str(broker_id)
            resources += _deleted(ResourceType.BROKER, name, record.configs, RATES)
        for topic, topic_record in sorted(self._image.topics.items()):
            resources += _deleted(ResourceType.TOPIC, topic, topic_record.configs, (LEADERS, FOLLOWERS))
        return resources

    def moving(self, topic: str = "") -> Iterator[MovingPartition]:
        """Yield the partitions that move, of one existing topic or of all, sorted by topic and number."""
        for name in [topic] if topic else sorted(self._image.topics):
            found = self._image.topics[name]
            for number, record in self._image.partitions(found.topic_id):
                if record.adding_replicas or record.removing_replicas:
                    yield MovingPartition(found, number, record)

    def _each(self, named: Sequence[NamedPartitions]) -> Iterator[tuple[str, int]]:
        for topic, numbers in named:
            for number in numbers or range(self._require_topic(topic).partitions):
                self._require_partition(topic, number)
                yield topic, number

    def _require_topic(self, name: str) -> TopicRecord:
        found = self._image.topics.get(name)
        if found is None:
            raise RequestRefused(Outcome.NOT_FOUND, f"there is no topic '{name}'")
        return found

    def _require_partition(self, name: str, number: int) -> None:
        topic = self._require_topic(name)
        if not 0 <= number < topic.partitions:
            problem = f"there is no partition {name}-{number}: it has {topic.partitions}, from 0"
            raise RequestRefused(Outcome.NOT_FOUND, problem)


def _changed(kind: ResourceType, name: str, values: Mapping[str, str]) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, replace=False, changes=changes_of(values, []))


def _deleted(
    kind: ResourceType, name: str, configs: Mapping[str, str], keys: Sequence[str]
) -> Iterator[AlterConfigsResource]:
    found = [key for key in keys if key in configs]
    if found:
        yield AlterConfigsResource(kind, name, replace=False, changes=changes_of({}, found))
