"""Which replica a consumer had better read from (KIP-392): the leader's choice, by where the consumer and they stand.

Only a member of the ISR is chosen, one that is alive and whose log has the offset that is asked for; the leader itself
where it is in the consumer's rack. Kafka's `RackAwareReplicaSelector`, with what `ReplicaManager` offers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from barnabas.cluster.messages import Broker
from barnabas_logstore.core.replica.partition import Partition


class ReplicaSelector(Enum):
    """`replica.selector.class`, by the names of Kafka's classes."""

    LEADER = "org.apache.kafka.common.replica.LeaderSelector"
    RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_read_replica(
    partition: Partition, rack_id: str, fetch_offset: int, brokers: Mapping[int, Broker]
) -> int | None:
    """A follower of a partition that is led here, in the rack; None: it is best read here."""
    leader = brokers.get(partition.node_id)
    if leader is not None and leader.rack == rack_id:
        return None
    preferred: int | None = None
    best = (-1, 0, -1)
    for node_id, follower in partition.followers.items():
        broker = brokers.get(node_id)
        if broker is None or broker.rack != rack_id or node_id not in partition.isr.committed:
            continue
        if follower.log_start_offset <= fetch_offset <= follower.log_end_offset:
            rank = (follower.log_end_offset, follower.last_caught_up_ms, node_id)
            if preferred is None or rank > best:
                preferred, best = node_id, rank
    return preferred
