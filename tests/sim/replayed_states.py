"""What a coordinator has stored is what its log says: each shard's log is replayed into another store, and compared.

A shard's `Store` is changed by `replay` alone, live and at load. So what a leader has made of its own records must be
what the next one makes of them. Compared are the batches that the leader's log has, as they were written or as a
cleaner has left them, from its start to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.record_batch import Compression, decode_payload
from barnabas_logstore.core.coordinator.runtime.leadership import LedPartition
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.runtime.shard import Shard, ShardKind, Store
from tests.sim.replica_logs import Batch
from tests.sim.scheduler import InvariantViolation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.nodes.logstore import LogstoreNode


def check_replayed_states(cluster: Cluster) -> int:
    """Compare the shards of all logstores that are alive. Return how many there were with anything in their logs."""
    compared = 0
    for node in cluster.logstores:
        if node.core is None:
            continue
        for runtime in node.core._coordination.runtimes:
            for led in runtime.shards:
                compared += _compare(cluster, node, runtime.kind, led)
    return compared


def _compare(cluster: Cluster, node: LogstoreNode, kind: ShardKind[Shard], led: LedShard[Shard]) -> bool:
    """Return False if there is nothing to compare: it is not loaded, or something is under way."""
    assert isinstance(led.log, LedPartition)
    partition = led.log.partition
    if led.loader is not None or led.has_unwritten or led.unreadable_records or not led.log.holds:
        return False
    replica = cluster.promises.of(partition.key).replicas.get(node.node_id)
    if replica is None or replica.log is not partition.log or replica.end != partition.log.next_offset:
        return False
    store = replayed(kind, replica.batches)
    live, read = led.shard.store.stored(), store.stored()
    if live != read:
        raise InvariantViolation(
            f"I17: {kind.topic}-{led.partition} at {node.name} has {live}, and its log says {read}"
        )
    return bool(replica.batches)


def replayed(kind: ShardKind[Shard], batches: list[Batch]) -> Store:
    """Return a store of what these batches say."""
    store = kind.new_store()
    for batch in batches:
        assert batch.header.compression == Compression.NONE, "coordinators write plain batches"
        for record in decode_payload(batch.header, memoryview(batch.payload)):
            change = kind.decode(batch.header, record)
            if change is not None:
                store.replay(change, record.offset)
    return store
