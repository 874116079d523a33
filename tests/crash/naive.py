"""The files of a log read in the plainest way, from what is documented of their formats: no code of the logstore's.

What it makes of the bytes (batches, index entries, producers, epochs) is what recovery has to arrive at.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from barnabas.ports.disk import Disk
from barnabas.wire.record_batch import BatchHeader

_HEADER = struct.Struct(">qiibIhiqqqhii")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CHECKED_FROM = 21


class PlacedBatch(NamedTuple):
    position: int
    header: BatchHeader
    content: bytes


@dataclass(slots=True)
class NaiveSegment:
    """`torn_bytes` follow the last batch that is whole and sound."""

    base_offset: int
    batches: list[PlacedBatch] = field(default_factory=list)
    torn_bytes: int = 0

    @property
    def next_offset(self) -> int:
        return self.batches[-1].header.next_offset if self.batches else self.base_offset


class NaiveProducer(NamedTuple):
    """(last sequence, last offset, offset delta, timestamp) of each batch of the epoch, oldest first."""

    epoch: int
    batches: list[tuple[int, int, int, int]]


def read_segments(disk: Disk, directory: str) -> list[NaiveSegment]:
    names = [entry.name for entry in disk.list(directory) if entry.name.endswith(".log")]
    return [_read_segment(int(name[:20]), disk.read_file(f"{directory}/{name}")) for name in sorted(names)]


def _read_segment(base_offset: int, data: bytes) -> NaiveSegment:
    segment = NaiveSegment(base_offset)
    position = 0
    while position + _HEADER.size <= len(data):
        header = BatchHeader(*_HEADER.unpack_from(data, position))
        end = position + 12 + header.batch_length
        if header.magic != 2 or header.batch_length < _HEADER.size - 12 or end > len(data):
            break
        if crc32c(data[position + _CHECKED_FROM : end]) != header.crc:
            break
        segment.batches.append(PlacedBatch(position, header, data[position:end]))
        position = end
    segment.torn_bytes = len(data) - position
    return segment


def offset_entries(segment: NaiveSegment, interval_bytes: int) -> list[tuple[int, int]]:
    """(last offset, position) of each batch that is more than an interval past the one of the entry before."""
    entries = []
    since = 0
    for batch in segment.batches:
        if since > interval_bytes:
            entries.append((batch.header.last_offset, batch.position))
            since = 0
        since += len(batch.content)
    return entries


def max_timestamp(segment: NaiveSegment, upto_offset: int) -> tuple[int, int]:
    """(timestamp, last offset of the batch that reached it first) of the batches that begin at or before an offset.

    A batch whose records have been compacted away has no time to look for.
    """
    found = (-1, segment.base_offset)
    for batch in segment.batches:
        header = batch.header
        if header.records_count and header.base_offset <= upto_offset and header.max_timestamp > found[0]:
            found = (header.max_timestamp, header.last_offset)
    return found


def producers(segments: list[NaiveSegment], upto_offset: int) -> dict[int, NaiveProducer]:
    """Every producer with a batch wholly below an offset, with its last five of its latest epoch."""
    found: dict[int, NaiveProducer] = {}
    for segment in segments:
        for _, header, _ in segment.batches:
            if header.producer_id < 0 or header.base_sequence < 0 or header.next_offset > upto_offset:
                continue
            known = found.get(header.producer_id)
            if known is None or known.epoch != header.producer_epoch:
                known = found[header.producer_id] = NaiveProducer(header.producer_epoch, [])
            last_sequence = (header.base_sequence + header.last_offset_delta) % 2**31
            known.batches.append((last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp))
            del known.batches[:-5]
    return found


def leader_epochs(segments: list[NaiveSegment]) -> list[tuple[int, int]]:
    """(epoch, start offset), oldest first."""
    found: list[tuple[int, int]] = []
    for segment in segments:
        for _, header, _ in segment.batches:
            if not found or header.partition_leader_epoch > found[-1][0]:
                found.append((header.partition_leader_epoch, header.base_offset))
    return found


def snapshot(content: bytes) -> dict[int, tuple[int, int, int, int]] | None:
    """(epoch, last sequence, last offset, offset delta) by producer id; None when the file is torn."""
    if len(content) < 10:
        return None
    version, crc, count = struct.unpack_from(">hIi", content)
    if version != 1 or crc != crc32c(content[6:]) or len(content) != 10 + count * _SNAPSHOT_ENTRY.size:
        return None
    return {fields[0]: fields[1:5] for fields in _SNAPSHOT_ENTRY.iter_unpack(content[10:])}
