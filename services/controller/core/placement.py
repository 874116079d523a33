"""Where replicas go: by hand, checked as Kafka's ReplicationControlManager does, or spread by us.

Replication factors above 1 are refused until logstores replicate.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import Assignment
from barnabas.wire.errors import ErrorCode
from services.controller.core.image import ControllerImage

# Of one request (Kafka's MAX_PARTITIONS_PER_BATCH).
PARTITIONS_MAX = 10_000
EXCESSIVE = "Excessively large number of partitions per request."


class Refused(Exception):  # noqa: N818  (a value on its way to the one place that answers)
    """The answer for one topic of a request; whoever decides about the request catches it."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


def count_replicas(image: ControllerImage) -> dict[int, int]:
    """How many replicas each live logstore has."""
    counts = dict.fromkeys(sorted(image.logstores), 0)
    for topic_id in image.chunks:
        for _, partition in image.partitions(topic_id):
            for node_id in partition.replicas:
                if node_id in counts:
                    counts[node_id] += 1
    return counts


def first_states(image: ControllerImage, nodes: Sequence[int], replica_counts: dict[int, int]) -> list[PartitionRecord]:
    """New partitions on these live logstores, one each, which lead them; `replica_counts` counts them from now on."""
    for node_id in nodes:
        replica_counts[node_id] += 1
    return [
        PartitionRecord(
            leader=node_id,
            leader_epoch=0,
            partition_epoch=0,
            replicas=(node_id,),
            in_sync_replicas=(node_id,),
            leader_broker_epoch=image.logstores[node_id].epoch,
        )
        for node_id in nodes
    ]


def check_assignment(image: ControllerImage, assignment: Assignment, replication_factor: int) -> None:
    """Raises Refused."""
    broker_ids = assignment.broker_ids
    problem = _assignment_problem(image, broker_ids, replication_factor)
    if problem is not None:
        message = f"The manual partition assignment includes {problem}"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if len(broker_ids) > 1:
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, _NO_REPLICATION)
    if not any(broker_id in image.logstores for broker_id in broker_ids):
        message = (
            f"All brokers specified in the manual partition assignment for partition {assignment.partition} "
            "are fenced or in controlled shutdown."
        )
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _assignment_problem(image: ControllerImage, broker_ids: Sequence[int], replication_factor: int) -> str | None:
    if not broker_ids:
        return "an empty replica list."
    known = image.known_node_ids()
    for position, broker_id in enumerate(sorted(broker_ids)):
        if broker_id < 0:
            return f"an invalid broker id {broker_id}."
        if position and sorted(broker_ids)[position - 1] == broker_id:
            return f"the broker {broker_id} more than once."
        if broker_id not in known:
            return f"broker {broker_id}, but no such broker is registered."
    if len(broker_ids) != replication_factor:
        return (
            f"a partition with {len(broker_ids)} replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s)."
        )
    return None


_NO_REPLICATION = "Replication factors larger than 1 are not supported yet: logstores do not replicate."


def spread(partitions: int, replication_factor: int, replica_counts: dict[int, int]) -> list[int]:
    """Round robin over the live logstores, from the one with the fewest replicas."""
    live = len(replica_counts)
    if replication_factor > live:
        why = (
            "All brokers are currently fenced."
            if live == 0
            else f"The target replication factor of {replication_factor} cannot be reached because only {live} "
            "broker(s) are registered."
        )
        message = f"Unable to replicate the partition {replication_factor} time(s): {why}"
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if replication_factor > 1:
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, _NO_REPLICATION)
    order = sorted(replica_counts, key=lambda node_id: (replica_counts[node_id], node_id))
    return [order[partition % live] for partition in range(partitions)]
