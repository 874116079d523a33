"""Changes of single partitions, made into writes of the chunks that hold them, as many a Txn as etcd takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from barnabas.cluster.keys import PARTITIONS_PER_CHUNK, PartitionChunk, PartitionRecord
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.writes import BYTES_MAX, OPERATIONS_MAX, Step, Write, put

PartitionKey: TypeAlias = tuple[bytes, int]
"""A topic's id and a partition's number."""

PartitionChange: TypeAlias = Callable[[PartitionRecord], PartitionRecord]
"""Gives the very same object where nothing has to change."""


class ChunkChanges:
    """Partitions as one Txn will have them."""

    def __init__(self, image: ControllerImage) -> None:
        self._image = image
        # By topic id and number of the chunk.
        self._chunks: dict[tuple[bytes, int], list[PartitionRecord]] = {}
        self._bytes_max = 0

    def find(self, key: PartitionKey) -> PartitionRecord | None:
        """As it is, or as it will be."""
        topic_id, partition = key
        number, index = divmod(partition, PARTITIONS_PER_CHUNK)
        if partition < 0:
            return None
        partitions: Sequence[PartitionRecord] | None = self._chunks.get((topic_id, number))
        if partitions is None:
            chunk = self._image.chunks.get(topic_id, {}).get(number)
            partitions = () if chunk is None else chunk.partitions
        return partitions[index] if index < len(partitions) else None

    def put(self, key: PartitionKey, record: PartitionRecord) -> bool:
        """Change a partition that there is; False when the Txn has no room for its chunk."""
        topic_id, partition = key
        number, index = divmod(partition, PARTITIONS_PER_CHUNK)
        if (topic_id, number) not in self._chunks:
            before = self._image.chunks[topic_id][number].partitions
            size = _size_max(before)
            is_full = len(self._chunks) == OPERATIONS_MAX or self._bytes_max + size > BYTES_MAX
            if self._chunks and is_full:
                return False
            self._chunks[topic_id, number] = list(before)
            self._bytes_max += size
        partitions = self._chunks[topic_id, number]
        # What grows in a chunk that is there already has room beyond BYTES_MAX: etcd takes half as much again.
        self._bytes_max += _size_max([record]) - _size_max([partitions[index]])
        partitions[index] = record
        return True

    def has_changed(self, key: PartitionKey) -> bool:
        topic_id, partition = key
        number, index = divmod(partition, PARTITIONS_PER_CHUNK)
        changed = self._chunks.get((topic_id, number))
        return changed is not None and changed[index] is not self._image.chunks[topic_id][number].partitions[index]

    def writes(self) -> list[Write]:
        chunks = self._image.chunks
        return [
            put(self._image.keys.chunk(topic_id, number), PartitionChunk(topic_id, number, tuple(partitions)))
            for (topic_id, number), partitions in self._chunks.items()
            if tuple(partitions) != chunks[topic_id][number].partitions
        ]


def change_steps(image: ControllerImage, changes: Mapping[PartitionKey, PartitionChange]) -> list[Step]:
    """Txns that make the changes to the partitions as they are when their turn has come; a step may have none to make.

    Changes of one partition don't depend on those of others.
    """
    txns: list[dict[PartitionKey, PartitionChange]] = []
    planned = ChunkChanges(image)
    for key in sorted(changes):
        partition = planned.find(key)
        if partition is None:
            continue
        changed = changes[key](partition)
        if not txns or not planned.put(key, changed):
            planned = ChunkChanges(image)
            planned.put(key, changed)
            txns.append({})
        txns[-1][key] = changes[key]
    return [_step(image, txn) for txn in txns]


def _step(image: ControllerImage, changes: Mapping[PartitionKey, PartitionChange]) -> Step:
    def write() -> list[Write]:
        changed = ChunkChanges(image)
        for key, change in changes.items():
            partition = changed.find(key)
            if partition is not None and key[0] in image.topics_by_id:
                changed.put(key, change(partition))
        return changed.writes()

    return write


def _size_max(partitions: Sequence[PartitionRecord]) -> int:
    """Of their JSON. A node id is in three of the lists at most, and has eleven characters at most with its comma."""
    return sum([280 + 33 * len(partition.replicas) for partition in partitions])
