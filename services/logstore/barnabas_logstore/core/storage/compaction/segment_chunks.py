"""Reading a closed segment in pieces of whole batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.ports.disk import Disk, DiskFile
from barnabas.wire.record_batch import HEADER_BYTES, MAGIC, BatchHeader, parse_header
from barnabas_logstore.core.storage.compaction.orders import UncleanableLog


@dataclass(slots=True, frozen=True)
class Chunk:
    """`data` begins at `position` of the segment; `batches` are (index in `data`, header), and fill `byte_count` of
    it. A batch that `data` only begins with comes in the next chunk.
    """

    position: int
    data: bytes
    batches: list[tuple[int, BatchHeader]]
    byte_count: int

    @property
    def end_position(self) -> int:
        """Where in the segment the last of its batches ends."""
        return self.position + self.byte_count


def read_chunks(disk: Disk, file: DiskFile, segment_bytes: int, buffer_bytes: int) -> Iterator[Chunk]:
    """All batches of a segment of `segment_bytes`; a chunk is larger than `buffer_bytes` where one batch is.

    Raises DiskError, and UncleanableLog where the bytes are no batches: a length is believed only as far as the segment
    has the bytes.
    """
    position = 0
    wanted = buffer_bytes
    while position < segment_bytes:
        data = disk.read_at(file, position, min(wanted, segment_bytes - position))
        batches = []
        index = 0
        wanted = buffer_bytes
        while index + HEADER_BYTES <= len(data):
            header = parse_header(data, index)
            size = header.size_bytes
            is_possible = HEADER_BYTES <= size <= segment_bytes - position - index and header.last_offset_delta >= 0
            if header.magic != MAGIC or not is_possible:
                raise UncleanableLog(f"no batch at position {position + index} of {file.path}")
            if index + size > len(data):
                break
            batches.append((index, header))
            index += size
        if batches:
            yield Chunk(position, data, batches, index)
        elif len(data) < HEADER_BYTES or wanted == size:
            raise UncleanableLog(f"{file.path} ends at position {position + len(data)} inside a batch")
        else:
            wanted = size
        position += index
