"""The beginning of a log: it moves forward by DeleteRecords and by retention, and whole segments below it go.

What holds after a crash is what holds in Kafka. The log start is written down now and then
(`log-start-offset-checkpoint`), not with each move, since an operator also deletes records to make room on a full disk,
where nothing more can be written. So after a crash it may be back where it was at the last checkpoint, or at the first
segment that is still there: records whose deletion was answered may be seen again, never records with a gap between
them, as the files of each segment are gone for good before those of the next one are touched.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.wire.errors import ErrorCode
from services.logstore.core.storage.segment import Segment

if TYPE_CHECKING:
    from services.logstore.core.storage.log import PartitionLog

DELETE = "delete"
UPTO_HIGH_WATERMARK = -1


class RetentionOutcome(IntEnum):
    """What retention has come to; the larger one where it is two things."""

    NOTHING = 0
    RETIRED = 1
    """Segments are out of the log; their files go by `PartitionLog.take_retirement`."""
    ROLLED = 2
    """The active segment's time is over too: it goes at the next look, once it is flushed."""


# (segment, the one after it) → whether its time is over.
_IsOver = Callable[[Segment, Segment | None], bool]


def delete_records(log: PartitionLog, offset: int, high_watermark: int) -> int | ErrorCode:
    """Move the log start to `offset`; where it is now, which may be further on already."""
    if log.error is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if DELETE not in log.config.cleanup_policy.split(","):
        return ErrorCode.POLICY_VIOLATION
    wanted = high_watermark if offset == UPTO_HIGH_WATERMARK else offset
    if not 0 <= wanted <= high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    move_log_start(log, wanted)
    return log.log_start_offset


def move_log_start(log: PartitionLog, offset: int) -> None:
    """Never back. What is before it is not in the log any more, whether its files are gone or not."""
    if offset > log.log_start_offset:
        log.log_start_offset = offset
        log.leader_epochs.trim_to(offset)


def apply_retention(log: PartitionLog, high_watermark: int, wall_ms: int) -> RetentionOutcome:
    """Take away the segments whose time is over, oldest first (Kafka's deleteOldSegments).

    Only what is below the high watermark, and only what is durable: until its files are gone, a crash may bring a
    segment back, and if it were torn the log would end there. What is below the log start goes whatever the topic's
    policy says. Raises DiskError.
    """
    outcome = _retire(log, high_watermark, _below_log_start(log))
    if DELETE in log.config.cleanup_policy.split(","):
        # Each rule looks at what the one before it has left.
        outcome = max(outcome, _retire(log, high_watermark, _past_size(log)))
        outcome = max(outcome, _retire(log, high_watermark, _past_time(log, wall_ms)))
    return outcome


def _below_log_start(log: PartitionLog) -> _IsOver:
    return lambda segment, following: following is not None and following.base_offset <= log.log_start_offset


def _past_size(log: PartitionLog) -> _IsOver:
    """Segments that are not needed for the rest to hold retention.bytes."""
    excess_bytes = -1 if log.config.retention_bytes < 0 else log.byte_count - log.config.retention_bytes

    def is_over(segment: Segment, following: Segment | None) -> bool:
        nonlocal excess_bytes
        if excess_bytes <= 0 or segment.byte_count > excess_bytes:
            return False
        excess_bytes -= segment.byte_count
        return True

    return is_over


def _past_time(log: PartitionLog, wall_ms: int) -> _IsOver:
    """By the largest timestamp, also one in the future: clients own their clocks."""
    retention_ms = log.config.retention_ms
    return lambda segment, following: retention_ms >= 0 and wall_ms - log.latest_time_of(segment) > retention_ms


def _is_there(log: PartitionLog, segment: Segment) -> bool:
    """Whether the file of a segment has been made: without any file a log would begin at 0 again."""
    return segment.is_made and (segment.byte_count == 0 or log.log_end_offset > segment.base_offset)


def _retire(log: PartitionLog, high_watermark: int, is_over: _IsOver) -> RetentionOutcome:
    segments = log.segments.all()
    count = 0
    for segment, following in pairwise(segments):
        end_offset = following.base_offset
        if end_offset > min(high_watermark, log.flushes.whole_segments_upto) or not is_over(segment, following):
            break
        if not _is_there(log, following):
            break
        count += 1
    if count:
        log.retire_segments(count)
    active = log.segments.active
    is_last = len(log.segments) == 1 and active.byte_count > 0 and high_watermark >= log.next_offset
    if is_last and is_over(active, None) and log.try_to_roll():
        # The offsets of a log live on in the name of its active segment, so another one has to be there first.
        return RetentionOutcome.ROLLED
    return RetentionOutcome.RETIRED if count else RetentionOutcome.NOTHING
