"""Who leads each partition, and who is in sync, after logstores have come, gone or restarted, or lost a disk or the
room on it.

A logstore that registers again has restarted, even where its lease never ended: its partitions get a new leader epoch.
What becomes of one partition is decided in `partition_changes`; here it is decided for all of them, a chunk a write.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.cluster.keys import PARTITIONS_PER_CHUNK, PartitionChunk
from services.controller.core.image import ControllerImage
from services.controller.core.partition_changes import Liveness, TopicRules, after_liveness, waits_for_leader
from services.controller.core.topic_rules import TopicRulesTable
from services.controller.core.writes import BYTES_MAX, OPERATIONS_MAX, Write, put


def elect_leaders(
    image: ControllerImage, live: Liveness, rules: TopicRulesTable, topic_ids: Iterable[bytes]
) -> list[Write]:
    """New states for the partitions of these topics that have to change, a chunk a write; one Txn's worth."""
    writes: list[Write] = []
    byte_count = 0
    for topic_id in topic_ids:
        if topic_id in image.deletions:
            continue
        topic_rules = rules.of(topic_id)
        for number, chunk in sorted(image.chunks.get(topic_id, {}).items()):
            partitions = tuple(
                [
                    after_liveness(partition, live.at(topic_id, at), topic_rules)
                    for at, partition in enumerate(chunk.partitions, number * PARTITIONS_PER_CHUNK)
                ]
            )
            if partitions == chunk.partitions:
                continue
            write = put(image.keys.chunk(topic_id, number), PartitionChunk(topic_id, number, partitions))
            byte_count += len(write.value or b"")
            if writes and (len(writes) == OPERATIONS_MAX or byte_count > BYTES_MAX):
                return writes
            writes.append(write)
    return writes


def waiting_for_leaders(
    image: ControllerImage, live: Liveness, rules: TopicRulesTable, topic_ids: Iterable[bytes]
) -> list[bytes]:
    """Of these topics, whose elections are done, the ones to look at again when a leader has acknowledged
    `min.insync.replicas`.
    """
    if not live.unaware:
        return []
    return [
        topic_id
        for topic_id in topic_ids
        if topic_id not in image.deletions and _waits_for_leader(image, live, rules.of(topic_id), topic_id)
    ]


def _waits_for_leader(image: ControllerImage, live: Liveness, rules: TopicRules, topic_id: bytes) -> bool:
    return any(
        waits_for_leader(partition, live.at(topic_id, number), rules)
        for number, partition in image.partitions(topic_id)
    )
