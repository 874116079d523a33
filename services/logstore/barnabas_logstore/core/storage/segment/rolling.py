"""When a batch has to begin a new segment: Kafka's LogSegment.shouldRoll."""

from __future__ import annotations

from crc32c import crc32c

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.segment.segment import RELATIVE_OFFSET_MAX, Segment

# Of cleanup.policy.
COMPACT = "compact"
DELETE = "delete"


def must_roll(
    segment: Segment,
    directory: str,
    config: TopicConfig,
    byte_count: int,
    last_offset: int,
    timestamp_ms: int,
    wall_ms: int,
) -> bool:
    """By size, time, index space or the width of a relative offset. `segment` is not empty: that one never rolls."""
    return (
        segment.byte_count + byte_count > config.segment_bytes
        or segment.indexes_full
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        or _waited_ms(segment, timestamp_ms, wall_ms) > _segment_ms(segment, directory, config)
    )


def _waited_ms(segment: Segment, timestamp_ms: int, wall_ms: int) -> int:
    """How old the segment is: by its first batch and the new one, or by the clock when the first has no timestamp."""
    if segment.first_timestamp_ms >= 0:
        return timestamp_ms - segment.first_timestamp_ms
    if segment.created_ms < 0:
        segment.created_ms = wall_ms
    return wall_ms - segment.created_ms


def _segment_ms(segment: Segment, directory: str, config: TopicConfig) -> int:
    """segment.ms, less a jitter of the segment's own: partitions made together shall not roll together for ever.

    Records of the active segment are never compacted, so in a compacted topic it lasts max.compaction.lag.ms at most.
    """
    segment_ms = config.segment_ms
    if COMPACT in config.cleanup_policy.split(","):
        segment_ms = min(segment_ms, config.max_compaction_lag_ms)
    jitter_ms_max = min(config.segment_jitter_ms, segment_ms)
    if jitter_ms_max <= 0:
        return segment_ms
    spread: int = crc32c(f"{directory}/{segment.base_offset}".encode())
    return segment_ms - spread % jitter_ms_max
