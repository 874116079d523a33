"""Placement of replicas: assigned manually, checked as Kafka's ReplicationControlManager does, or spread
automatically.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster.keys import PartitionRecord, TopicRecord
from barnabas.cluster.messages import Assignment
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import Liveness, first_state
from barnabas_controller.core.topics.replica_spread import ReplicaSpread

# Partitions that are placed, packed or counted in the time that one element of a request is charged
# (`requests.ELEMENTS_PER_TURN`).
_PLACED_PER_ELEMENT = 10
PACKED_PER_ELEMENT = 40
_COUNTED_PER_ELEMENT = 100


class Refused(Exception):  # noqa: N818  (a value on its way to the one place that answers)
    """The error for one topic of a request; the code that decides about the request catches it."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


class Placement:
    """The placement of one request: every partition that is placed counts for the next one."""

    def __init__(self, image: ControllerImage, live: Liveness) -> None:
        self._image = image
        self._live = live
        racks = {
            node_id: registered.record.rack
            for node_id, registered in sorted(image.logstores.items())
            if live.is_live(node_id) and node_id not in live.drained
        }
        # They may take replicas if there are too few others, as Kafka's fenced brokers do; drained ones may not.
        self._others = sorted(image.known_node_ids().difference(racks, live.drained))
        self._spread = ReplicaSpread(racks)

    def count(self) -> Steps[None]:
        """Count existing partitions, before any is placed."""
        image = self._image
        for topic_id in list(image.chunks):
            for chunk in list(image.chunks_of(topic_id)):
                is_known = image.replica_counts.find(chunk) is not None
                self._spread.add(image.replica_counts.of(chunk))
                yield 0 if is_known else len(chunk.partitions) // _COUNTED_PER_ELEMENT

    def place(self, partitions: int, replication_factor: int) -> Steps[list[PartitionRecord]]:
        """Place new partitions on live logstores, and on others only if those are too few. Raises Refused."""
        live, others = len(self._spread.racks), self._others
        if live == 0 or replication_factor > live + len(others):
            drained = f", and {len(self._live.drained)} more are drained" if self._live.drained else ""
            why = (
                f"All brokers are currently fenced{drained and ' or drained'}."
                if live == 0
                else f"The target replication factor of {replication_factor} cannot be reached because only "
                f"{live + len(others)} broker(s) are registered{drained}."
            )
            message = f"Unable to replicate the partition {replication_factor} time(s): {why}"
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        placed = []
        for number in range(partitions):
            if number % _PLACED_PER_ELEMENT == _PLACED_PER_ELEMENT - 1:
                yield 1
            replicas = self._spread.place(min(replication_factor, live))
            state = first_state((*replicas, *others[: replication_factor - len(replicas)]), self._live)
            assert state is not None, "the first replica is live"
            placed.append(state)
        return placed

    def place_by_hand(self, assignment: Assignment, replication_factor: int) -> PartitionRecord:
        """Raises Refused."""
        check_replicas(self._image, assignment.broker_ids, replication_factor)
        check_not_drained(self._live, assignment.broker_ids)
        state = first_state(assignment.broker_ids, self._live)
        if state is None:
            message = (
                f"All brokers specified in the manual partition assignment for partition {assignment.partition} "
                "are fenced or in controlled shutdown."
            )
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        self._spread.count(state.replicas)
        return state


def check_not_drained(live: Liveness, node_ids: Sequence[int]) -> None:
    """Raises Refused if one of them is drained."""
    drained = [node_id for node_id in node_ids if node_id in live.drained]
    if drained:
        message = f"Broker {drained[0]} is drained: return it first, or choose another."
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def replication_factor_of(image: ControllerImage, topic: TopicRecord) -> int:
    """Return the replication factor of its first partition, as in Kafka; of its target, if it is moving. Moves can have
    changed it.
    """
    for _, partition in image.partitions(topic.topic_id):
        return len(partition.replicas) - len(partition.removing_replicas)
    return topic.replication_factor


def check_replicas(image: ControllerImage, broker_ids: Sequence[int], replication_factor: int | None = None) -> None:
    """Check the replicas of one partition that were assigned manually. Raises Refused."""
    problem = _problem(image, broker_ids, replication_factor)
    if problem is not None:
        message = f"The manual partition assignment includes {problem}"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _problem(image: ControllerImage, broker_ids: Sequence[int], replication_factor: int | None) -> str | None:
    if not broker_ids:
        return "an empty replica list."
    known = image.known_node_ids()
    ascending = sorted(broker_ids)
    for position, broker_id in enumerate(ascending):
        if broker_id < 0:
            return f"an invalid broker id {broker_id}."
        if position and ascending[position - 1] == broker_id:
            return f"the broker {broker_id} more than once."
        if broker_id not in known:
            return f"broker {broker_id}, but no such broker is registered."
    if replication_factor is not None and len(broker_ids) != replication_factor:
        return (
            f"a partition with {len(broker_ids)} replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s)."
        )
    return None
