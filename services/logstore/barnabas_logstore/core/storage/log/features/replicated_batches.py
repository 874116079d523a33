"""Batches that a leader's log already contains: a follower accepts them unchanged, or not at all.

A leader has checked them when they came from a client, assigned their offsets and its epoch, and refused repeated or
skipped sequences. Here only transmission errors are looked for: the CRC, and an order of offsets and epochs that no
leader can have written. What does not fit shows that logs diverge at an unknown place, and ends the fetching of that
partition (correctness: anything but the log end at an append is fatal).
"""

from __future__ import annotations

from barnabas.wire.record_batch import HEADER_BYTES, MAGIC, BatchHeader, crc_is_valid, parse_header
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.scan import RELATIVE_OFFSET_MAX


def check_replicated(state: LogState, records: memoryview, leader_epoch: int) -> list[BatchHeader] | str:
    """Return the headers of the complete batches in `records`, or what is wrong with them; see
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
    """Return the base offset of the first batch, if the log is empty and no segment can contain its end and that
    batch.
    """
    if len(records) < HEADER_BYTES or state.next_offset > state.segments.first.base_offset:
        return None
    header = parse_header(records)
    return header.base_offset if header.last_offset - state.next_offset > RELATIVE_OFFSET_MAX else None


def begins_before(records: memoryview, offset: int) -> int | None:
    """Return the base offset of the first batch, if `offset` is inside it: DeleteRecords accepts any offset."""
    if len(records) < HEADER_BYTES:
        return None
    header = parse_header(records)
    return header.base_offset if header.base_offset < offset <= header.last_offset else None
