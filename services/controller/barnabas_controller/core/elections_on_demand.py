"""ElectLeaders (KIP-460): preferred leaders, or any leader at all where there is none.

Rules and messages are those of Kafka's ReplicationControlManager. Preferred leaders are also elected when nobody asks,
where a broker leads too few of the partitions that it is preferred for (`auto.leader.rebalance.enable`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_LEADER, ElectionResult, ElectLeadersRequest
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.chunk_changes import PartitionChange, PartitionKey, change_steps
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.liveness import LogstoreLiveness
from barnabas_controller.core.partition_changes import Liveness, led_by_anyone, led_by_preferred
from barnabas_controller.core.topic_rules import TopicRulesTable
from barnabas_controller.core.writes import Step


class ElectionType(IntEnum):
    """Kafka's."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(slots=True)
class Elections:
    """A result per partition asked for; by its position the partition, where it gets another leader."""

    results: list[ElectionResult] = field(default_factory=list)
    elected: list[PartitionKey | None] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


class LeadersOnDemand:
    def __init__(self, image: ControllerImage, liveness: LogstoreLiveness, rules: TopicRulesTable) -> None:
        self._image = image
        self._liveness = liveness
        self._rules = rules

    def elect(self, request: ElectLeadersRequest) -> Elections:
        """Decide about every partition of the request; of "all", those that need no election are not told."""
        elections = Elections()
        changes: dict[PartitionKey, PartitionChange] = {}
        live = self._liveness.current()
        for topic, number in self._asked(request):
            key, error, message = self._judge(topic, number, request.election_type, live)
            if request.all and error is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            elections.results.append(ElectionResult(topic, number, error, message))
            elections.elected.append(key)
            if key is not None:
                changes[key] = self._change(key, request.election_type)
        elections.steps = change_steps(self._image, changes)
        return elections

    def balance(self, imbalance_percentage: int) -> list[Step]:
        """Preferred leaders back, for brokers that miss more of theirs than that."""
        live = self._liveness.current()
        preferred: Counter[int] = Counter()
        missed: dict[int, list[PartitionKey]] = {}
        for topic_id in self._image.topics_by_id:
            for number, partition in self._image.partitions(topic_id):
                node_id = partition.replicas[0]
                preferred[node_id] += 1
                if partition.leader != node_id:
                    missed.setdefault(node_id, []).append((topic_id, number))
        changes = {
            key: self._change(key, ElectionType.PREFERRED)
            for node_id, keys in sorted(missed.items())
            if live.is_live(node_id)
            and node_id not in live.drained
            and len(keys) * 100 > imbalance_percentage * preferred[node_id]
            for key in keys
        }
        return change_steps(self._image, changes)

    def _asked(self, request: ElectLeadersRequest) -> Iterator[tuple[str, int]]:
        if not request.all:
            yield from ((each.topic, each.partition) for each in request.partitions)
            return
        for topic in self._image.topics.values():
            yield from ((topic.topic, number) for number in range(topic.partitions))

    def _judge(
        self, topic: str, number: int, election_type: int, live: Liveness
    ) -> tuple[PartitionKey | None, ErrorCode, str]:
        """The partition, where it gets another leader; why not."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        record = self._image.topics.get(topic)
        if record is None:
            return None, unknown, f"No such topic as {topic}"
        partition = self._image.partition(record.topic_id, number)
        if partition is None:
            return None, unknown, f"No such partition as {topic}-{number}"
        is_preferred = election_type == ElectionType.PREFERRED
        if partition.leader == partition.replicas[0] if is_preferred else partition.leader != NO_LEADER:
            return None, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message
        key = (record.topic_id, number)
        if self._elected(key, partition, election_type, live) is partition:
            none = (
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            )
            return None, none, none.message
        return key, ErrorCode.NONE, ""

    def _change(self, key: PartitionKey, election_type: int) -> PartitionChange:
        return lambda partition: self._elected(key, partition, election_type, self._liveness.current())

    def _elected(
        self, key: PartitionKey, partition: PartitionRecord, election_type: int, live: Liveness
    ) -> PartitionRecord:
        """The same object where nobody can be elected, or nobody has to be."""
        live = live.at(*key)
        if election_type == ElectionType.PREFERRED:
            return led_by_preferred(partition, live) or partition
        if partition.leader != NO_LEADER:
            return partition
        return led_by_anyone(partition, live, self._rules.of(key[0])) or partition
