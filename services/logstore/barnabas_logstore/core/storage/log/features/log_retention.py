"""Which segments of a log have had their time: Kafka's deleteOldSegments, one rule after the other, oldest first.

Only what is below the high watermark, and only what is durable: until its files are gone, a crash may bring a segment
back, and if it were torn the log would end there. What is below the log start goes whatever the topic's policy says.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise

from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.rolling import DELETE
from barnabas_logstore.core.storage.segment.segment import Segment


class RetentionOutcome(IntEnum):
    """What retention has come to; the larger one where it is two things."""

    NOTHING = 0
    RETIRED = 1
    """Segments are out of the log; their files go by `PartitionLog.begin_retirement`."""
    ROLLED = 2
    """The active segment's time is over too: it goes at the next look, once it is flushed."""


IsOver = Callable[[Segment, Segment | None], bool]
"""(segment, the one after it) → whether its time is over."""
Rule = Callable[[LogState, int], IsOver]
"""(log, wall_ms) → what the rule says of the log as it is now. Raises DiskError."""


def rules_of(state: LogState) -> tuple[Rule, ...]:
    """The rules that hold for the log. Each looks at what the one before it has left."""
    if DELETE in state.config.cleanup_policy.split(","):
        return below_log_start, past_size, past_time
    return (below_log_start,)


def below_log_start(state: LogState, wall_ms: int) -> IsOver:
    return lambda segment, following: following is not None and following.base_offset <= state.log_start_offset


def past_size(state: LogState, wall_ms: int) -> IsOver:
    """Segments that are not needed for the rest to hold retention.bytes."""
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
    """By the largest timestamp, also one in the future: clients own their clocks."""
    retention_ms = state.config.retention_ms
    return lambda segment, following: retention_ms >= 0 and wall_ms - segment.latest_time_ms() > retention_ms


def count_over(state: LogState, upto_offset: int, is_over: IsOver) -> int:
    """Return how many of the oldest segments, all below `upto_offset`, have had their time. Raises DiskError."""
    count = 0
    for segment, following in pairwise(state.segments.all()):
        if following.base_offset > upto_offset or not is_over(segment, following) or not _is_there(state, following):
            break
        count += 1
    return count


def is_last_over(state: LogState, high_watermark: int, is_over: IsOver) -> bool:
    """Whether the log has but one segment, committed as a whole, whose time is over. Raises DiskError."""
    active = state.segments.active
    is_last = len(state.segments) == 1 and active.byte_count > 0 and high_watermark >= state.next_offset
    return is_last and is_over(active, None)


def _is_there(state: LogState, segment: Segment) -> bool:
    """Whether the file of a segment has been made: without any file a log would begin at 0 again."""
    return segment.is_made and (segment.byte_count == 0 or state.log_end_offset > segment.base_offset)
