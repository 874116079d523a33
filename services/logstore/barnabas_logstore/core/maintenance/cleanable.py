"""Determine what of a log can be cleaned, and when: Kafka's LogCleanerManager.cleanableOffsets and LogToClean.

The dirty part ends at the first of: the active segment, the last stable offset (the high watermark included), what is
not durable yet, and the first segment with a record younger than min.compaction.lag.ms. Whole segments only.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.config_values import INT64_MAX
from barnabas_logstore.core.storage.compaction.orders import CleanOrder, LastBatch, SourceSegment
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.segment.segment import Segment


@dataclass(slots=True, frozen=True)
class CleanableLog:
    """The dirty part of `log` is [first_dirty_offset, end_offset). `is_overdue`: its first record has waited longer
    than max.compaction.lag.ms.
    """

    log: PartitionLog
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def cleanable_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if self.is_overdue and self.cleanable_bytes:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio

    def order(self, order_id: int, wall_ms: int) -> CleanOrder:
        """Return the order for a pass that cleans it."""
        segments = self.log.segments.overlapping(0, self.end_offset)
        start_offset = segments[0].base_offset
        producers = []
        for entry in self.log.producers.entries():
            last_offset = entry.batches[-1].last_offset if entry.batches else -1
            if last_offset < 0 or start_offset <= last_offset < self.end_offset:
                producers.append(LastBatch(entry.producer_id, entry.producer_epoch, last_offset))
        return CleanOrder(
            order_id,
            self.log.directory,
            self.log.config,
            [SourceSegment(segment.base_offset, segment.byte_count) for segment in segments],
            self.first_dirty_offset,
            self.end_offset,
            wall_ms,
            producers,
        )


def cleanable(log: PartitionLog, last_stable_offset: int, wall_ms: int) -> CleanableLog:
    """Compute the present state. Raises DiskError."""
    first_dirty_offset = max(log.first_dirty_offset, log.log_start_offset)
    active_offset = log.segments.active.base_offset
    end_offset = active_offset
    # What still has to be flushed is not complete: its files must not be renamed meanwhile.
    limit = min(last_stable_offset, log.flushes.whole_segments_upto)
    if limit < active_offset:
        end_offset = log.segments.containing(limit).base_offset
    dirty = log.segments.overlapping(first_dirty_offset, end_offset) if first_dirty_offset < end_offset else []
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = [index for index, segment in enumerate(dirty) if segment.max_timestamp()[0] > wall_ms - lag_ms]
        if young:
            end_offset = dirty[young[0]].base_offset
            dirty = dirty[: young[0]]
    end_offset = max(first_dirty_offset, end_offset)
    clean = log.segments.overlapping(0, first_dirty_offset) if first_dirty_offset > 0 else []
    return CleanableLog(
        log,
        first_dirty_offset,
        end_offset,
        _bytes_of(clean),
        _bytes_of(dirty),
        _is_overdue(log, dirty, wall_ms),
    )


def _is_overdue(log: PartitionLog, dirty: list[Segment], wall_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == INT64_MAX:
        return False
    return any(0 < segment.first_timestamp() < wall_ms - lag_ms for segment in dirty)


def _bytes_of(segments: list[Segment]) -> int:
    return sum(segment.byte_count for segment in segments)
