"""Read results in pieces: record bytes are sent in messages of about 1 MiB, so that heartbeats and acks can be sent in
between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from barnabas.channel.messages import Buffer, ReadPartitionResult, ReadPiece
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.wire.file_range import FileRange, Records

RANGE_BYTES: Final = 16 << 10
"""What a range counts for in a piece, so that few descriptors go along with a message."""

PIECE_PARTITIONS_MAX: Final = 250
"""A message has some pieces."""

# An estimate of what a partition's result takes besides its records.
_PARTITION_OVERHEAD_BYTES: Final = 64


@dataclass(slots=True)
class ReadResult:
    """A complete read: one result per partition, in the requested order."""

    request_id: int
    partitions: list[ReadPartitionResult]


def split_read_result(
    result: ReadResult, piece_bytes_max: int = 1 << 20, partitions_max: int = PIECE_PARTITIONS_MAX
) -> Iterator[ReadPiece]:
    """Yield the pieces of a result, in order; the last one is marked. Records are sliced, not copied.

    A partition whose records do not fit continues in the next piece under the same index, without its other fields.
    """
    partitions: list[ReadPartitionResult] = []
    room = piece_bytes_max
    for partition in result.partitions:
        if len(partitions) >= partitions_max or (partitions and room < _PARTITION_OVERHEAD_BYTES):
            yield ReadPiece(result.request_id, False, partitions)
            partitions, room = [], piece_bytes_max
        room -= _PARTITION_OVERHEAD_BYTES
        length = message_bytes(partition)
        if length <= room or isinstance(partition.records, FileRange):
            partitions.append(partition)
            room -= length
            continue
        records = memoryview(partition.records)
        position = max(0, room)
        partitions.append(_first_part(partition, records[:position]))
        while position < length:
            yield ReadPiece(result.request_id, False, partitions)
            room = max(1, piece_bytes_max - _PARTITION_OVERHEAD_BYTES)
            part = records[position : position + room]
            partitions = [ReadPartitionResult(partition.index, 0, 0, 0, 0, 0, 0, 0, part)]
            position += room
            room -= len(part)
    yield ReadPiece(result.request_id, True, partitions)


def message_bytes(partition: ReadPartitionResult) -> int:
    """Return how much of a message the records of a partition take."""
    return RANGE_BYTES if isinstance(partition.records, FileRange) else len(partition.records)


def _first_part(partition: ReadPartitionResult, records: memoryview) -> ReadPartitionResult:
    return ReadPartitionResult(
        partition.index,
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        partition.leader_epoch,
        partition.leader_id,
        partition.fetch_position,
        records,
        partition.preferred_read_replica,
        None,
        partition.aborted_transactions,
    )


class _Assembly:
    """A read whose last piece has not arrived."""

    __slots__ = ("byte_count", "partitions", "tail")

    def __init__(self) -> None:
        self.partitions: list[ReadPartitionResult] = []
        # The record parts of the last partition, joined when the next one begins.
        self.tail: list[Records] = []
        self.byte_count = 0

    def add_piece(self, piece: ReadPiece) -> None:
        for result in piece.partitions:
            self.byte_count += message_bytes(result) + _PARTITION_OVERHEAD_BYTES
            last_index = self.partitions[-1].index if self.partitions else -1
            if result.index == last_index:
                self.tail.append(result.records)
            elif result.index > last_index:
                self._join_tail()
                self.partitions.append(result)
                self.tail.append(result.records)
            else:
                raise MalformedMessage(f"partition {result.index} of read {piece.request_id} is out of order")

    def _join_tail(self) -> None:
        if len(self.tail) > 1:
            if any(isinstance(part, FileRange) for part in self.tail):
                raise MalformedMessage("a range of a file spans pieces")
            self.partitions[-1].records = b"".join(cast("list[Buffer]", self.tail))
        self.tail.clear()

    def join(self, request_id: int) -> ReadResult:
        self._join_tail()
        return ReadResult(request_id, self.partitions)


class ReadAssembler:
    """Assembles the reads of one stream from their pieces; the pieces of different reads may interleave.

    `reads_max` and `bytes_max` bound what unfinished reads may hold: a logstore never answers more than was requested,
    so one that does is broken and its stream must be closed (MalformedMessage).
    """

    __slots__ = ("_assemblies", "_byte_count", "_bytes_max", "_reads_max")

    def __init__(self, reads_max: int = 10_000, bytes_max: int = 1 << 30) -> None:
        self._assemblies: dict[int, _Assembly] = {}
        self._byte_count = 0
        self._reads_max = reads_max
        self._bytes_max = bytes_max

    def add_piece(self, piece: ReadPiece) -> ReadResult | None:
        """Return the whole result when this piece was its last one; the piece's partitions become the result's.

        Records are joined, and so copied, only if they span pieces. Raises MalformedMessage.
        """
        assembly = self._assemblies.get(piece.request_id)
        if assembly is None:
            assembly = _Assembly()
            if not piece.last:
                if len(self._assemblies) >= self._reads_max:
                    raise MalformedMessage("more reads are being answered than can be")
                self._assemblies[piece.request_id] = assembly
        else:
            self._byte_count -= assembly.byte_count
        assembly.add_piece(piece)
        if piece.last:
            self._assemblies.pop(piece.request_id, None)
            return assembly.join(piece.request_id)
        self._byte_count += assembly.byte_count
        if self._byte_count > self._bytes_max:
            raise MalformedMessage("more bytes are being answered than were asked for")
        return None

    def forget(self, request_id: int) -> None:
        """Drop what has arrived of a read, when no more of it will (a cancelled read may still be answered
        completely).
        """
        assembly = self._assemblies.pop(request_id, None)
        if assembly is not None:
            self._byte_count -= assembly.byte_count

    def clear(self) -> None:
        """The stream is down."""
        self._assemblies.clear()
        self._byte_count = 0
