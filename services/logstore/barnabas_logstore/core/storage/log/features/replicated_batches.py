"""Batches that another log has already: a follower takes them as they are, or not at all.

A leader has checked them when they came from a client, given them their offsets and its epoch, and refused what
repeated or skipped a sequence. Here only what the way may have done to them is looked for: the CRC, and an order of
offsets and epochs that no leader can have written. What does not fit tells of logs that part where nobody knows, and
ends the fetching of that partition (correctness: anything but the log end at an append is fatal).
"""

from __future__ import annotations

from barnabas.wire.record_batch import HEADER_BYTES, MAGIC, BatchHeader, crc_is_valid, parse_header
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import RELATIVE_OFFSET_MAX


def check_replicated(state: LogState, records: memoryview, leader_epoch: int) -> list[BatchHeader] | str:
    """Return the headers of the whole batches in `records`, or what is wrong with them; see
    `PartitionLog.append_replicated`.
    """
    headers = []
    next_offset, epoch = state.next_offset, state.leader_epochs.latest
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


def begins_behind_wide_gap(state: LogState, records: memoryview) -> int | None:
    """The base offset of the first batch, when the log is empty, and no segment can hold its end and that batch."""
    if len(records) < HEADER_BYTES or state.next_offset > state.segments.first.base_offset:
        return None
    header = parse_header(records)
    return header.base_offset if header.last_offset - state.next_offset > RELATIVE_OFFSET_MAX else None


def begins_before(records: memoryview, offset: int) -> int | None:
    """The base offset of the first batch, when `offset` is in its midst: DeleteRecords cuts where it likes."""
    if len(records) < HEADER_BYTES:
        return None
    header = parse_header(records)
    return header.base_offset if header.base_offset < offset <= header.last_offset else None
