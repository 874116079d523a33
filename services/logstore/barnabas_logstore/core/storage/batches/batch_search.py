"""The first record of one batch at or after a time: the part of ListOffsets that opens a batch.

A batch is what its producer made of it. Opened it may be 64 MiB of the smallest records, seconds of work: this runs on
an IO worker, as an effect, and keeps nothing of the records that it passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Decompress
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, BatchHeader, Compression, iterate_timestamps


@dataclass(slots=True, frozen=True)
class OffsetAtTimestamp:
    """-1 in every field when no record answers the question; a special timestamp's own `timestamp_ms` is -1."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def first_record_of(
    header: BatchHeader, batch: bytes, timestamp_ms: int, from_offset: int, decompress: Decompress
) -> OffsetAtTimestamp | None:
    """None when every record from `from_offset` on is earlier. A batch that can't be opened counts as if its first
    record were the one.
    """
    epoch = header.partition_leader_epoch
    payload: memoryview | bytes | None = memoryview(batch)[HEADER_BYTES:]
    if header.compression != Compression.NONE:
        payload = decompress(header.compression, memoryview(batch)[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
    if payload is not None:
        try:
            for offset, record_timestamp_ms in iterate_timestamps(header, payload):
                if record_timestamp_ms >= timestamp_ms and offset >= from_offset:
                    return OffsetAtTimestamp(record_timestamp_ms, offset, epoch)
            return None
        except MalformedFrame:
            pass  # The producer's own bytes, under a CRC that is right.
    return OffsetAtTimestamp(header.max_timestamp, max(header.base_offset, from_offset), epoch)
