"""Decide which segments of a log have expired: Kafka's deleteOldSegments, one rule after the other, oldest first.

Only segments below the high watermark, and only durable ones: until its files are gone, a crash may bring a segment
back, and if it were torn the log would end there. What is below the log start is deleted under any policy. One check
looks at the oldest `SEGMENTS_MAX` segments: a log may have thousands of them, and all may have expired.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from typing import Final

from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import Segment

SEGMENTS_MAX: Final = 64


class RetentionOutcome(IntEnum):
    """The result of retention; the larger one if there are two."""

    NOTHING = 0
    RETIRED = 1
    """Segments are out of the log; `PartitionLog.begin_retirement` renames their files."""
    MORE = 2
    """As many as one check may retire: the next one may find more."""
    ROLLED = 3
    """The active segment has expired too: it is deleted at the next check, once it is flushed."""


IsOver = Callable[[Segment, Segment | None], bool]
"""(segment, the one after it) → whether it has expired."""
Rule = Callable[[LogState, int], IsOver]
"""(log, wall_ms) → the rule's result for the log as it is now. Raises DiskError."""


def rules_of(state: LogState) -> tuple[Rule, ...]:
    """Return the rules that apply to the log. Each is applied to what the previous one has left."""
    if state.config.is_deleted:
        return below_log_start, past_size, past_time
    return (below_log_start,)


def below_log_start(state: LogState, wall_ms: int) -> IsOver:
    return lambda segment, following: following is not None and following.base_offset <= state.log_start_offset


def past_size(state: LogState, wall_ms: int) -> IsOver:
    """Return segments without which the rest still has retention.bytes."""
    retention_bytes = state.config.retention_bytes
    excess_bytes = -1 if retention_bytes < 0 else state.segments.byte_count - retention_bytes

    def is_over(segment: Segment, following: Segment | None) -> bool:
        nonlocal excess_bytes
        if excess_bytes <= 0 or segment.byte_count > excess_bytes:
            return False
        excess_bytes -= segment.byte_count
        return True

    return is_over


def past_time(state: LogState, wall_ms: int) -> IsOver:
    """By the largest timestamp, also one in the future: clients choose timestamps. What headers say of them is believed
    only as far as `RecordTimes` has it.
    """
    retention_ms = state.config.retention_ms

    def is_over(segment: Segment, following: Segment | None) -> bool:
        if retention_ms < 0 or wall_ms - segment.latest_time_ms() <= retention_ms:
            return False
        return segment.record_times.are_over(wall_ms, retention_ms, segment.modified_ms(), segment.byte_count)

    return is_over


def count_over(state: LogState, upto_offset: int, is_over: IsOver, count_max: int) -> int:
    """Return how many of the `count_max` oldest segments, all below `upto_offset`, have expired. Raises DiskError."""
    count = 0
    for segment, following in pairwise(state.segments.oldest(count_max + 1)):
        if following.base_offset > upto_offset or not is_over(segment, following) or not _is_there(state, following):
            break
        count += 1
    return count


def is_last_over(state: LogState, high_watermark: int, is_over: IsOver) -> bool:
    """Whether the log has only one segment, completely committed, which has expired. Raises DiskError."""
    active = state.segments.active
    is_last = len(state.segments) == 1 and active.byte_count > 0 and high_watermark >= state.next_offset
    return is_last and is_over(active, None)


def _is_there(state: LogState, segment: Segment) -> bool:
    """Whether the file of a segment has been created: without any file a log would begin at 0 again."""
    return segment.is_made and (segment.byte_count == 0 or state.log_end_offset > segment.base_offset)
