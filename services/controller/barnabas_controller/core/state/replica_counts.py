"""How many replicas each logstore has, counted once for each chunk of partitions as long as that does not change.

New partitions go where the fewest are. To count all partitions of a cluster for each of them would make a new topic
cost by the topics that there are: of 10,000 partitions a tenth of a second. A chunk is a value that is replaced as a
whole when one of its partitions changes, so what was counted of it holds for as long as it is the same object.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from barnabas.cluster.keys import PartitionChunk


class ChunkCounts(NamedTuple):
    """By node id, of the partitions of one chunk. Callers don't change it."""

    leaders: Counter[int]
    """Partitions whose preferred leader it is: their first replica."""
    replicas: Counter[int]


class ReplicaCounts:
    """Of the chunks that were asked for. It decides nothing: another one would answer the same."""

    __slots__ = ("_counted",)

    def __init__(self) -> None:
        self._counted: dict[tuple[bytes, int], tuple[PartitionChunk, ChunkCounts]] = {}

    def find(self, chunk: PartitionChunk) -> ChunkCounts | None:
        """Return what is known of this very chunk."""
        known = self._counted.get((chunk.topic_id, chunk.chunk))
        return known[1] if known is not None and known[0] is chunk else None

    def of(self, chunk: PartitionChunk) -> ChunkCounts:
        """Count its partitions, unless that was done."""
        counts = self.find(chunk)
        if counts is None:
            leaders = Counter([partition.replicas[0] for partition in chunk.partitions if partition.replicas])
            replicas = Counter([node_id for partition in chunk.partitions for node_id in partition.replicas])
            counts = ChunkCounts(leaders, replicas)
            self._counted[chunk.topic_id, chunk.chunk] = chunk, counts
        return counts

    def forget(self, topic_id: bytes, chunk: int) -> None:
        """It is gone."""
        self._counted.pop((topic_id, chunk), None)
