"""Walking over the batches of a log file, header by header. For cold paths: opening, recovery, rebuilding of
indexes.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.ports.disk import Disk, DiskFile
from barnabas.wire.record_batch import HEADER_BYTES, MAGIC, BatchHeader, crc_is_valid, parse_header

CHUNK_BYTES = 1024 * 1024


def scan_batches(
    disk: Disk, file: DiskFile, position: int, end: int, *, check_crc: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in [position, end); stops before the first that is torn or can't be one.

    Memory is bounded by a chunk and the largest batch: a length is believed only where the file has the bytes.
    """
    chunk = b""
    chunk_start = position
    while position + HEADER_BYTES <= end:
        if position - chunk_start + HEADER_BYTES > len(chunk):
            chunk, chunk_start = disk.read_at(file, position, min(CHUNK_BYTES, end - position)), position
            if len(chunk) < HEADER_BYTES:
                return
        header = parse_header(chunk, position - chunk_start)
        byte_count = header.size_bytes
        if header.magic != MAGIC or not HEADER_BYTES <= byte_count <= end - position or header.last_offset_delta < 0:
            return
        if check_crc:
            if position - chunk_start + byte_count > len(chunk):
                wanted = min(max(CHUNK_BYTES, byte_count), end - position)
                chunk, chunk_start = disk.read_at(file, position, wanted), position
                if len(chunk) < byte_count:
                    return
            if not crc_is_valid(chunk, position - chunk_start):
                return
        yield position, header
        position += byte_count
