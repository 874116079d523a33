"""Who leads each partition: the first live replica in the ISR, under a new epoch whenever it is another one.

A logstore that registers again has restarted, even where its lease never ended: its partitions get a new leader epoch.
The last ISR member stays the only one that can lead (KIP-966): at replication factor 1 the leader that went is elected
again when it returns. Losing the leader is a change of leader too, as in KRaft's PartitionRegistration.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.cluster.keys import PartitionChunk, PartitionRecord
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER
from services.controller.core.image import ControllerImage
from services.controller.core.writes import BYTES_MAX, OPERATIONS_MAX, Write, put


def elect_leaders(image: ControllerImage, topic_ids: Iterable[bytes]) -> list[Write]:
    """New states for the partitions of these topics whose leader has to change, a chunk a write; one Txn's worth."""
    writes: list[Write] = []
    byte_count = 0
    for topic_id in topic_ids:
        for number, chunk in sorted(image.chunks.get(topic_id, {}).items()):
            partitions = tuple([_elected(image, partition) for partition in chunk.partitions])
            if partitions == chunk.partitions:
                continue
            write = put(image.keys.chunk(topic_id, number), PartitionChunk(topic_id, number, partitions))
            byte_count += len(write.value or b"")
            if writes and (len(writes) == OPERATIONS_MAX or byte_count > BYTES_MAX):
                return writes
            writes.append(write)
    return writes


def _elected(image: ControllerImage, partition: PartitionRecord) -> PartitionRecord:
    leader = image.logstores.get(partition.leader)
    if leader is not None and leader.epoch == partition.leader_broker_epoch:
        return partition
    candidates = [each for each in partition.replicas if each in partition.in_sync_replicas and each in image.logstores]
    if not candidates and partition.leader == NO_LEADER:
        return partition
    elected = candidates[0] if candidates else NO_LEADER
    return PartitionRecord(
        leader=elected,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        replicas=partition.replicas,
        in_sync_replicas=partition.in_sync_replicas,
        leader_broker_epoch=image.logstores[elected].epoch if candidates else NO_EPOCH,
    )
