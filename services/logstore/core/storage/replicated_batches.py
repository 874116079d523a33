"""Batches that another log has already: a follower takes them as they are, or not at all.

A leader has checked them when they came from a client, given them their offsets and its epoch, and refused what
repeated or skipped a sequence. Here only what the way may have done to them is looked for: the CRC, and an order of
offsets and epochs that no leader can have written. What does not fit tells of logs that part where nobody knows, and
ends the fetching of that partition (correctness: anything but the log end at an append is fatal).
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import HEADER_BYTES, MAGIC, BatchHeader, crc_is_valid, parse_header
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.producer_recovery import note_producer
from services.logstore.core.storage.rolling import must_roll
from services.logstore.core.storage.segment import RELATIVE_OFFSET_MAX


def append_replicated(
    log: PartitionLog, records: memoryview, leader_epoch: int, wall_ms: int
) -> ErrorCode | str | None:
    """Append the whole batches in `records`; a part of one at the end, as reads leave it, is passed over.

    `leader_epoch` is that of whoever sent them; no batch may be of a later one. Offsets may jump forward where the
    leader's log has been compacted. Nothing is appended unless everything fits: then it says what is wrong, or
    KAFKA_STORAGE_ERROR while the log takes no appends. The records must stay as they are until they are written.
    """
    if log.error is not None or log.room.error is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.truncation.is_begun
    # An epoch that this replica led without a record has no place among those of another leader.
    log.leader_epochs.truncate_from(log.next_offset)
    headers = _check(log, records, leader_epoch)
    if isinstance(headers, str):
        return headers
    run_position = position = 0
    for header in headers:
        byte_count = header.size_bytes
        last_offset = header.last_offset
        segment = log.segments.active
        if segment.byte_count and must_roll(
            segment, log.directory, log.config, byte_count, last_offset, header.max_timestamp, wall_ms
        ):
            _write(log, records[run_position:position])
            run_position = position
            segment = log.roll()
        log.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        note_producer(log.producers, header)
        if run_position == position:
            # The write begins where the segment ends now.
            log.writes.open_run(segment, log.next_offset)
        log.segments.recent.add(header.base_offset, segment.byte_count)
        segment.add_batch(last_offset, byte_count, header.latest_timestamp)
        log.next_offset = last_offset + 1
        position += byte_count
    _write(log, records[run_position:position])
    return None


def _write(log: PartitionLog, run: memoryview) -> None:
    if run:
        log.writes.add_run(run, log.next_offset)


def _check(log: PartitionLog, records: memoryview, leader_epoch: int) -> list[BatchHeader] | str:
    headers = []
    next_offset, epoch = log.next_offset, log.leader_epochs.latest
    position = 0
    while len(records) - position >= HEADER_BYTES:
        header = parse_header(records, position)
        byte_count = header.size_bytes
        if header.magic != MAGIC or byte_count < HEADER_BYTES:
            return f"no batch of magic 2 at offset {next_offset}: magic {header.magic}, {byte_count} bytes"
        if byte_count > len(records) - position:
            break
        if not crc_is_valid(records, position):
            return f"the CRC of the batch at offset {header.base_offset} is wrong"
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            return f"the batch of {header.base_offset} to {header.last_offset} can't follow offset {next_offset - 1}"
        if header.last_offset - next_offset > RELATIVE_OFFSET_MAX:
            return f"the gap from {next_offset} to {header.base_offset} is wider than a segment"
        if not epoch <= header.partition_leader_epoch <= leader_epoch:
            return f"epoch {header.partition_leader_epoch} at offset {header.base_offset}, after {epoch}"
        next_offset, epoch = header.next_offset, header.partition_leader_epoch
        headers.append(header)
        position += byte_count
    return headers or "records without a whole batch"


def begins_behind_wide_gap(log: PartitionLog, records: memoryview) -> int | None:
    """The base offset of the first batch, when the log is empty, and no segment can hold its end and that batch."""
    if len(records) < HEADER_BYTES or log.next_offset > log.segments.first.base_offset:
        return None
    header = parse_header(records)
    return header.base_offset if header.last_offset - log.next_offset > RELATIVE_OFFSET_MAX else None


def begins_before(records: memoryview, offset: int) -> int | None:
    """The base offset of the first batch, when `offset` is in its midst: DeleteRecords cuts where it likes."""
    if len(records) < HEADER_BYTES:
        return None
    header = parse_header(records)
    return header.base_offset if header.base_offset < offset <= header.last_offset else None
