"""Scan the batches of a log file, header by header, and the names of a log's files. For rare operations: opening,
recovery, rebuilding of indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.ports.disk import Disk, DiskFile
from barnabas.wire.markers import MARKER_BYTES_MAX, Marker, marker_of
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    parse_header,
)

CHUNK_BYTES = 1024 * 1024
RELATIVE_OFFSET_MAX = 2**31 - 1
# A larger part of a batch at the end of a log is not examined.
BROKEN_OFF_BYTES_MAX = 16 * 1024 * 1024


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    """Return the offsets in the names of the files with `suffix`, ascending."""
    digits = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(text) for text in digits if len(text) == 20 and text.isascii() and text.isdecimal())


def scan_batches(
    disk: Disk,
    file: DiskFile,
    position: int,
    end: int,
    *,
    check_crc: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each complete batch in [position, end); stop before the first that is torn or can't
    be one.

    Memory is bounded by a chunk and the largest batch: a length is trusted only if the file has the bytes.
    """
    chunk = b""
    chunk_start = position
    while position + HEADER_BYTES <= end:
        if position - chunk_start + HEADER_BYTES > len(chunk):
            chunk, chunk_start = disk.read_at(file, position, min(chunk_bytes, end - position)), position
            if len(chunk) < HEADER_BYTES:
                return
        header = parse_header(chunk, position - chunk_start)
        byte_count = header.size_bytes
        if header.magic != MAGIC or not HEADER_BYTES <= byte_count <= end - position or header.last_offset_delta < 0:
            return
        if check_crc:
            if position - chunk_start + byte_count > len(chunk):
                wanted = min(max(chunk_bytes, byte_count), end - position)
                chunk, chunk_start = disk.read_at(file, position, wanted), position
                if len(chunk) < byte_count:
                    return
            if not crc_is_valid(chunk, position - chunk_start):
                return
        yield position, header
        position += byte_count


def ascending(batches: Iterable[tuple[int, BatchHeader]], base_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield up to the first batch that can't follow those before it in this segment: offsets have no checksum."""
    next_offset = base_offset
    for position, header in batches:
        if header.base_offset < next_offset or header.last_offset - base_offset > RELATIVE_OFFSET_MAX:
            return
        next_offset = header.next_offset
        yield position, header


def read_marker(disk: Disk, file: DiskFile, position: int, header: BatchHeader) -> Marker | None:
    """Return the marker in the batch at `position`, if it is a control batch with one. Raises DiskError."""
    if not header.is_control or header.size_bytes > MARKER_BYTES_MAX:
        return None
    return marker_of(header, disk.read_at(file, position, header.size_bytes))


def is_broken_off(disk: Disk, file: DiskFile, position: int, end: int, next_offset: int) -> bool:
    """Whether the bytes in [position, end), at the end of a log, can be those of a write during which its process died:
    the beginning of one batch, `next_offset` or later, that was never acknowledged.

    A complete batch whose length has a flipped bit looks like that too, except for its CRC.
    """
    if end - position < HEADER_BYTES:
        return True
    if end - position > BROKEN_OFF_BYTES_MAX:
        return False
    tail = bytearray(disk.read_at(file, position, end - position))
    header = parse_header(tail)
    if header.magic != MAGIC or header.base_offset < next_offset or header.size_bytes <= len(tail):
        return False
    for bit in range(31):
        length = header.batch_length ^ (1 << bit)
        if HEADER_BYTES <= length + LENGTH_OVERHEAD_BYTES <= len(tail):
            tail[8:12] = length.to_bytes(4, "big")
            if crc_is_valid(tail):
                return False
    return True


def write_again(disk: Disk, file: DiskFile, byte_count: int) -> None:
    """Write what is in the file up to `byte_count` in its place, so that the next flush includes all of it. Raises
    DiskError.
    """
    for position in range(0, byte_count, CHUNK_BYTES):
        content = disk.read_at(file, position, min(CHUNK_BYTES, byte_count - position))
        disk.write_at(file, position, (bytes(content),))
