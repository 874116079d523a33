"""AlterPartitionReassignments (KIP-455): partitions that move to other replicas, and moves that are taken back.

Rules and messages are those of Kafka's ReplicationControlManager. A move ends by itself, in the change that brings its
last target into the ISR. Deviation: what an earlier move was adding and a new one is not goes at once, as it did with
ZooKeeper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import AlterReassignmentsRequest, Reassignment, ReassignmentResult
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.chunk_changes import PartitionChange, PartitionKey, change_steps
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.liveness import LogstoreLiveness
from barnabas_controller.core.partition_changes import reassigned, reassignment_cancelled
from barnabas_controller.core.placement import Refused, check_not_drained, check_replicas
from barnabas_controller.core.topic_rules import TopicRulesTable
from barnabas_controller.core.writes import Step


@dataclass(slots=True)
class ReassignmentChanges:
    """A result per partition asked for; the Txns that make the good ones true."""

    results: list[ReassignmentResult] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


class Reassignments:
    def __init__(self, image: ControllerImage, liveness: LogstoreLiveness, rules: TopicRulesTable) -> None:
        self._image = image
        self._liveness = liveness
        self._rules = rules

    def alter(self, request: AlterReassignmentsRequest) -> ReassignmentChanges:
        """Decide about every partition of the request."""
        altered = ReassignmentChanges()
        changes: dict[PartitionKey, PartitionChange] = {}
        occurrences = Counter((asked.topic, asked.partition) for asked in request.partitions)
        for asked in request.partitions:
            try:
                if occurrences[asked.topic, asked.partition] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, "Each partition must appear at most once.")
                key, partition = self._find(asked)
                if asked.replicas:
                    self._check_target(asked, partition, request.allow_replication_factor_change)
                elif not partition.adding_replicas and not partition.removing_replicas:
                    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                    raise Refused(code, code.message)
                self._check_leader(asked, key, partition)
            except Refused as refused:
                altered.results.append(ReassignmentResult(refused.error_code, refused.message))
                continue
            altered.results.append(ReassignmentResult(ErrorCode.NONE))
            changes[key] = self._change(key, asked.replicas)
        altered.steps = change_steps(self._image, changes)
        return altered

    def _find(self, asked: Reassignment) -> tuple[PartitionKey, PartitionRecord]:
        topic = self._image.topics.get(asked.topic)
        if topic is None:
            message = f"Unable to find a topic named {asked.topic}."
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        partition = self._image.partition(topic.topic_id, asked.partition)
        if partition is None:
            message = f"Unable to find partition {asked.topic}-{asked.partition}."
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return (topic.topic_id, asked.partition), partition

    def _check_target(self, asked: Reassignment, partition: PartitionRecord, may_change_factor: bool) -> None:
        check_replicas(self._image, asked.replicas)
        check_not_drained(self._liveness.current(), [each for each in asked.replicas if each not in partition.replicas])
        replication_factor = len(partition.replicas) - len(partition.adding_replicas)
        if not may_change_factor and len(asked.replicas) != replication_factor:
            message = (
                f"The replication factor is changed from {replication_factor} to {len(asked.replicas)}, "
                "which the request does not allow."
            )
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)

    def _check_leader(self, asked: Reassignment, key: PartitionKey, partition: PartitionRecord) -> None:
        if self._moved(key, partition, asked.replicas) is None:
            what = "change" if asked.replicas else "revert"
            message = (
                f"Unable to {what} partition assignment for {asked.topic}-{asked.partition} because it would require "
                "an unclean leader election."
            )
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

    def _change(self, key: PartitionKey, target: Sequence[int]) -> PartitionChange:
        return lambda partition: self._moved(key, partition, target) or partition

    def _moved(self, key: PartitionKey, partition: PartitionRecord, target: Sequence[int]) -> PartitionRecord | None:
        live, rules = self._liveness.current().at(*key), self._rules.of(key[0])
        if target:
            return reassigned(partition, target, live, rules)
        return reassignment_cancelled(partition, live, rules)
