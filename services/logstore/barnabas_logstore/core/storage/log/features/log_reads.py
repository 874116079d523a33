"""Read batches for a fetch: where to begin, where to stop, and what KIP-74 requires.

A plan holds one effect at a time. In the common case (a consumer at the tail, or one that begins at the start of a
batch) one effect is enough: begin and end are known, and nothing is scanned. Otherwise the bytes begin at an index
entry and are scanned by their headers up to the requested batch; if that turns out to be beyond what was read, a second
effect reads there.

An answer may end with a part of a batch, as Kafka's do, but it never begins with one. If the disk has damaged the
length of a batch, nothing can be read from there on: CORRUPT_MESSAGE, as in Kafka. The reader finds damage within a
batch, by the CRC.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, parse_header
from barnabas_logstore.core.storage.effects import ReadEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import Segment


@dataclass(slots=True, eq=False)
class ReadPlan:
    """Run `effect`, pass its bytes to `PartitionLog.finish_read`, and repeat while that returns another effect.

    `fetch_position` is where the batch that contains `offset` begins in the bytes of the whole log, exact once the plan
    is finished.
    """

    effect: ReadEffect
    segment: Segment
    offset: int
    max_bytes: int
    upto_offset: int
    min_one_batch: bool
    begins_at_batch: bool
    """Whether the effect begins with the batch that contains `offset`; otherwise with one before it."""
    end_position: int
    """Where in the segment to stop; if `end_is_exact` is false, only an upper bound."""
    end_is_exact: bool
    fetch_position: int = -1
    searches_anew: bool = False
    """An index entry was wrong: the batch is looked for from the segment's beginning."""


def plan_read(state: LogState, offset: int, max_bytes: int, upto_offset: int, min_one_batch: bool) -> ReadPlan:
    """`offset` is in the log and below `upto_offset`, which is at most the log's end."""
    return _plan_in(state, state.segments.containing(offset), offset, max_bytes, upto_offset, min_one_batch)


def _plan_in(
    state: LogState, segment: Segment, offset: int, max_bytes: int, upto_offset: int, min_one_batch: bool
) -> ReadPlan:
    position, begins_at_batch = state.segments.batch_position(segment, offset)
    end_position, end_is_exact = min(segment.byte_count, state.written_position - segment.start_position), True
    following = state.segments.after(segment)
    if upto_offset < state.log_end_offset and (following is None or upto_offset < following.base_offset):
        upto_position, end_is_exact = state.segments.batch_position(segment, upto_offset)
        if end_is_exact:
            end_position = upto_position
    if position >= end_position:
        # Only an index entry that the disk has damaged points there: its batch is looked for from the start.
        position, begins_at_batch = 0, False
    wanted = max(max_bytes, HEADER_BYTES) + (0 if begins_at_batch else state.config.index_interval_bytes)
    effect = ReadEffect(segment.file, position, min(wanted, end_position - position))
    return ReadPlan(
        effect, segment, offset, max_bytes, upto_offset, min_one_batch, begins_at_batch, end_position, end_is_exact
    )


def finish_read(state: LogState, plan: ReadPlan, data: bytes) -> memoryview | ReadEffect | ErrorCode:
    """Return batches from the one that contains `plan.offset` on, below `plan.upto_offset`; empty if none may be
    returned. CORRUPT_MESSAGE: the bytes there are not a batch.
    """
    position = plan.effect.position
    index = 0 if plan.begins_at_batch else _skip_to(data, plan.offset)
    if index < 0:
        return _search_anew(plan)
    if index + HEADER_BYTES > len(data):
        if position + index == plan.end_position:
            return _go_on_in_next_segment(state, plan)
        if position + index + HEADER_BYTES > plan.end_position:
            return _search_anew(plan)
        if len(data) < plan.effect.length:
            return _NOTHING  # the file is shorter than the log knows: it was truncated from outside
        # A batch before this one is larger than the index interval.
        return _read_at(plan, position + index, HEADER_BYTES + plan.max_bytes)
    first = parse_header(data, index)
    if first.size_bytes < HEADER_BYTES or position + index + first.size_bytes > plan.end_position:
        return _search_anew(plan)
    plan.fetch_position = plan.segment.position_in_log(position + index)
    end = min(len(data), index + plan.max_bytes, _end_index(plan, data, index))
    if end - index >= first.size_bytes:
        return memoryview(data)[index:end]
    if not plan.min_one_batch:
        return _NOTHING
    if index + first.size_bytes <= len(data):
        return memoryview(data)[index : index + first.size_bytes]
    if len(data) < plan.effect.length:
        return _NOTHING
    plan.begins_at_batch = True
    return _read_at(plan, position + index, first.size_bytes)


def _search_anew(plan: ReadPlan) -> ReadEffect | ErrorCode:
    """There is no batch at the expected position: the disk has damaged an index entry, or the log."""
    if plan.searches_anew:
        return ErrorCode.CORRUPT_MESSAGE
    plan.searches_anew = True
    plan.begins_at_batch = False
    return _read_at(plan, 0, HEADER_BYTES + plan.max_bytes)


def _skip_to(data: bytes, offset: int) -> int:
    """Return where in `data` the batch begins that contains `offset` or follows it; at or past the last bytes if none
    does. -1: the bytes before it are not batches.
    """
    index = 0
    while index + HEADER_BYTES <= len(data):
        header = parse_header(data, index)
        if header.last_offset >= offset:
            return index
        if header.size_bytes < HEADER_BYTES:
            return -1
        index += header.size_bytes
    return index


def _end_index(plan: ReadPlan, data: bytes, index: int) -> int:
    """Return where in `data` to stop: before the first batch at or past `plan.upto_offset`."""
    if plan.end_is_exact:
        return plan.end_position - plan.effect.position
    if not plan.segment.is_retired:
        index = max(index, plan.segment.offset_index.position_before(plan.upto_offset) - plan.effect.position)
    while index + HEADER_BYTES <= len(data):
        header = parse_header(data, index)
        if header.base_offset >= plan.upto_offset:
            break
        index += max(header.size_bytes, LENGTH_OVERHEAD_BYTES)
    return index


def _read_at(plan: ReadPlan, position: int, length: int) -> ReadEffect:
    plan.effect = ReadEffect(plan.effect.file, position, min(length, plan.end_position - position))
    return plan.effect


def _go_on_in_next_segment(state: LogState, plan: ReadPlan) -> memoryview | ReadEffect:
    """The rest of this segment has nothing from `plan.offset` on: compaction leaves such gaps."""
    if plan.segment.is_retired:
        # A cleaned segment that has replaced it may reach further.
        following: Segment | None = state.segments.containing(plan.offset)
    else:
        following = state.segments.after(plan.segment)
    if following is None or following.base_offset >= plan.upto_offset:
        return _NOTHING
    further = _plan_in(state, following, plan.offset, plan.max_bytes, plan.upto_offset, plan.min_one_batch)
    plan.effect, plan.segment = further.effect, further.segment
    plan.begins_at_batch = further.begins_at_batch
    plan.end_position, plan.end_is_exact = further.end_position, further.end_is_exact
    return plan.effect


_NOTHING = memoryview(b"")
