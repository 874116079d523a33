"""Reading batches for a fetch: where to begin, where to stop, and what KIP-74 asks for.

A plan holds one effect at a time. In the common case (a consumer at the tail, or one that begins where a batch does)
one effect is all: begin and end are known, and nothing is scanned. Elsewhere the bytes begin at an index entry and
are walked over by their headers up to the batch in question; when that turns out to lie beyond what was read, a
second effect reads there.

An answer may end in a part of a batch, as Kafka's do, but it never begins in one. Where the disk has damaged what says
how long batches are, nothing can be read from there on: CORRUPT_MESSAGE, as in Kafka. What is damaged within a batch is
for its reader to find, by the CRC.
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
    """Run `effect`, give its bytes to `PartitionLog.finish_read`, and again while that returns another effect.

    `fetch_position` is where the batch that holds `offset` begins in the bytes of the whole log, exact once the plan
    is finished.
    """

    effect: ReadEffect
    segment: Segment
    offset: int
    max_bytes: int
    upto_offset: int
    min_one_batch: bool
    begins_at_batch: bool
    """Whether the effect begins with the batch that holds `offset`; otherwise with one before it."""
    end_position: int
    """Where in the segment to stop; when `end_is_exact` is false only an upper bound."""
    end_is_exact: bool
    fetch_position: int = -1
    searches_anew: bool = False
    """An index entry led astray: the batch is looked for from the segment's begin."""


def plan_read(state: LogState, offset: int, max_bytes: int, upto_offset: int, min_one_batch: bool) -> ReadPlan:
    """`offset` is in the log and below `upto_offset`, which is at most the log's end."""
    return _plan_in(state, state.segments.holding(offset), offset, max_bytes, upto_offset, min_one_batch)


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
        # Only an index entry that the disk has damaged points there: what it was for is looked for from the start.
        position, begins_at_batch = 0, False
    wanted = max(max_bytes, HEADER_BYTES) + (0 if begins_at_batch else state.config.index_interval_bytes)
    effect = ReadEffect(segment.file, position, min(wanted, end_position - position))
    return ReadPlan(
        effect, segment, offset, max_bytes, upto_offset, min_one_batch, begins_at_batch, end_position, end_is_exact
    )


def finish_read(state: LogState, plan: ReadPlan, data: bytes) -> memoryview | ReadEffect | ErrorCode:
    """Batches from the one that holds `plan.offset` on, below `plan.upto_offset`; empty when none may be given.
    CORRUPT_MESSAGE: what is there is no batch.
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
            return _NOTHING  # The file is shorter than the log knows: somebody cut it.
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
    """There is no batch where one should be: by an index entry that the disk has damaged, or it has damaged the log."""
    if plan.searches_anew:
        return ErrorCode.CORRUPT_MESSAGE
    plan.searches_anew = True
    plan.begins_at_batch = False
    return _read_at(plan, 0, HEADER_BYTES + plan.max_bytes)


def _skip_to(data: bytes, offset: int) -> int:
    """Where in `data` the batch begins that holds `offset` or follows it; at or past the last bytes if none does. -1:
    what is before it are no batches.
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
    """Where in `data` to stop: before the first batch at or past `plan.upto_offset`."""
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
    """The rest of this segment holds nothing from `plan.offset` on: compaction leaves such gaps."""
    if plan.segment.is_retired:
        # A cleaned segment that has taken its place may reach further.
        following: Segment | None = state.segments.holding(plan.offset)
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
