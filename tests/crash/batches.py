"""A batch of the log held against what was appended: the same bytes, or what compaction may leave of them."""

from __future__ import annotations

from barnabas.wire.record_batch import decode_records, parse_header
from tests.crash.naive import NaiveSegment
from tests.crash.truth import TrueBatch, TruePartition, TrueRecord


def check_batch(truth: TruePartition, content: bytes) -> TrueBatch:
    """The batch that was appended at that offset."""
    header = parse_header(content)
    batch = truth.at(header.base_offset)
    assert batch is not None, f"{truth.name}: {header} was never appended"
    if content == batch.content:
        return batch
    ours, theirs = header, batch.header
    assert truth.was_ever_compacted, f"{truth.name}: {ours} instead of {theirs}"
    identity = ("last_offset_delta", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence")
    for name in identity:
        assert getattr(ours, name) == getattr(theirs, name), f"{truth.name}: {ours} instead of {theirs}"
    for offset, record in records_of(content):
        expected = batch.records[offset - batch.base_offset]
        assert record == expected, f"{truth.name}: {record} at {offset}, where {expected} was appended"
    return batch


def records_of(content: bytes) -> list[tuple[int, TrueRecord]]:
    """(offset, record) of all that is left."""
    if parse_header(content).records_count == 0:
        return []
    return [
        (record.offset, TrueRecord(record.key or b"", record.value, record.timestamp_ms))
        for record in decode_records(content)
    ]


def check_compaction(truth: TruePartition, segments: list[NaiveSegment], log_start_offset: int) -> None:
    """Of every key its last record is there; a tombstone may be gone when everything it deleted is."""
    kept = {
        offset: record
        for segment in segments
        for batch in segment.batches
        for offset, record in records_of(batch.content)
    }
    last: dict[bytes, int] = {}
    first: dict[bytes, int] = {}
    for batch in truth.batches[truth.first_from(log_start_offset) :]:
        for delta, record in enumerate(batch.records):
            offset = batch.base_offset + delta
            last[record.key] = offset
            if offset in kept:
                first.setdefault(record.key, offset)
    for key, offset in last.items():
        if offset in kept or offset < log_start_offset:
            continue
        batch = truth.batches[truth.holding(offset)]
        is_tombstone = batch.records[offset - batch.base_offset].value is None
        is_over = is_tombstone and truth.may_lose_tombstones
        assert is_over, f"{truth.name}: the last record of {key!r}, at {offset}, is gone"
        assert key not in first, f"{truth.name}: the tombstone of {key!r} is gone, and {first[key]} is not"
