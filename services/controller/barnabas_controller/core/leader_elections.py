"""Who leads each partition, and who is in sync, after logstores have come, gone or restarted, or lost a disk or the
room on it.

A logstore that registers again has restarted, even where its lease never ended: its partitions get a new leader epoch.
What becomes of one partition is decided in `partition_changes`; here it is decided for all of them, a chunk a write,
and some thousands in a turn of the controller.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.cluster.keys import PARTITIONS_PER_CHUNK, PartitionChunk
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.partition_changes import Liveness, TopicRules, after_liveness, waits_for_leader
from barnabas_controller.core.topic_rules import TopicRulesTable
from barnabas_controller.core.writes import BYTES_MAX, OPERATIONS_MAX, Write, put

PARTITIONS_PER_LOOK = 2_000
"""Some 4 µs each, and some 10 more where there is something to change."""


class LeaderElections:
    """The topics to look through, because they or a logstore changed, and how far that has come."""

    def __init__(self, image: ControllerImage, rules: TopicRulesTable) -> None:
        self._image = image
        self._rules = rules
        self._due: dict[bytes, int] = {}
        """By topic, the number of the first chunk to look at."""
        self.waiting_for_leaders: dict[bytes, None] = {}
        """Topics in which a replica stays in sync until the leader has acknowledged `min.insync.replicas`."""

    @property
    def are_done(self) -> bool:
        return not self._due

    def add(self, topic_ids: Iterable[bytes]) -> None:
        """Look through these topics, from their first partition."""
        self._due |= dict.fromkeys(topic_ids, 0)

    def restart(self) -> None:
        """Look through all topics."""
        self._due = dict.fromkeys(self._image.chunks, 0)

    def add_waiting(self) -> None:
        """Look again at the topics that wait for a leader's acknowledgement."""
        self.add(self.waiting_for_leaders)
        self.waiting_for_leaders.clear()

    def next_writes(self, live: Liveness, partitions_max: int = PARTITIONS_PER_LOOK) -> list[Write]:
        """New states for partitions that have to change, a chunk a write: one Txn's worth.

        Look at `partitions_max` partitions, and at the rest of their chunk. Where there is nothing to write, `are_done`
        says whether that was all. A topic with changes is looked through again when they are in the image.
        """
        writes: list[Write] = []
        byte_count = 0
        for topic_id, first in list(self._due.items()):
            if topic_id not in self._image.deletions:
                rules = self._rules.of(topic_id)
                chunks = self._image.chunks.get(topic_id, {})
                for number in sorted(each for each in chunks if each >= first):
                    if partitions_max <= 0:
                        return writes
                    partitions_max -= len(chunks[number].partitions)
                    write = self._look(topic_id, number, chunks[number], live, rules)
                    if write is not None:
                        byte_count += len(write.value or b"")
                        if writes and (len(writes) == OPERATIONS_MAX or byte_count > BYTES_MAX):
                            return writes
                        writes.append(write)
                    elif not writes:
                        self._due[topic_id] = number + 1
            if not writes:
                del self._due[topic_id]
        return writes

    def _look(
        self, topic_id: bytes, number: int, chunk: PartitionChunk, live: Liveness, rules: TopicRules
    ) -> Write | None:
        first = number * PARTITIONS_PER_CHUNK
        partitions = tuple(
            [
                after_liveness(partition, live.at(topic_id, at), rules)
                for at, partition in enumerate(chunk.partitions, first)
            ]
        )
        if partitions != chunk.partitions:
            return put(self._image.keys.chunk(topic_id, number), PartitionChunk(topic_id, number, partitions))
        if live.unaware and any(
            waits_for_leader(partition, live.at(topic_id, at), rules)
            for at, partition in enumerate(chunk.partitions, first)
        ):
            self.waiting_for_leaders[topic_id] = None
        return None
