"""Producers as the log itself knows them: from the newest snapshot, and the batches after it."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.ports.disk import Disk
from barnabas.wire.record_batch import BatchHeader
from services.logstore.core.storage.producer_state import SNAPSHOT_SUFFIX, ProducerState, parse_snapshot
from services.logstore.core.storage.scan import scan_batches
from services.logstore.core.storage.segment import Segment, file_name


def load_producers(
    disk: Disk,
    directory: str,
    snapshot_offsets: Iterable[int],
    segments: Iterable[Segment],
    upto_offset: int,
) -> tuple[ProducerState, int]:
    """(the producers as of `upto_offset`, the offset of the snapshot that was used, 0 without one). Raises DiskError.

    `segments` are those that may hold batches before `upto_offset`, in order. A snapshot from before the first of them
    is of no use: nobody knows what followed it.
    """
    producers, snapshot_offset = ProducerState(), 0
    in_order = list(segments)
    begin_offset = in_order[0].base_offset if in_order else upto_offset
    for offset in sorted(snapshot_offsets, reverse=True):
        if not begin_offset <= offset <= upto_offset:
            continue
        entries = parse_snapshot(disk.read_file(f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"))
        if entries is not None:
            producers.load(entries)
            snapshot_offset = offset
            break
    end_offsets = [segment.base_offset for segment in in_order[1:]] + [upto_offset]
    for segment, end_offset in zip(in_order, end_offsets, strict=False):
        if end_offset <= snapshot_offset:
            continue
        position = segment.offset_index.position_before(snapshot_offset)
        for _, header in scan_batches(disk, segment.file, position, segment.byte_count):
            if snapshot_offset <= header.base_offset < upto_offset:
                note_producer(producers, header)
    return producers, snapshot_offset


def note_producer(producers: ProducerState, header: BatchHeader) -> None:
    """Take note of a batch that is in the log."""
    if header.producer_id >= 0 and header.base_sequence >= 0:
        producers.update(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_offset_delta,
            header.last_offset,
            header.max_timestamp,
        )
