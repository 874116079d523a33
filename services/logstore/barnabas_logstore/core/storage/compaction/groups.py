"""Merge segments: compaction leaves small ones behind, and a log must not end up with thousands of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.compaction.orders import SourceSegment
from barnabas_logstore.core.storage.segment.scan import RELATIVE_OFFSET_MAX
from barnabas_logstore.core.storage.segment.segment import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, file_name

SEGMENTS_MAX = 256
"""Segments in one group, so that swapping it in is bounded work."""


@dataclass(slots=True)
class Group:
    """Neighbours that fit into one segment, and their total size."""

    segments: list[SourceSegment]
    log_bytes: int
    offset_index_bytes: int
    time_index_bytes: int

    @property
    def base_offset(self) -> int:
        return self.segments[0].base_offset

    def can_take(self, other: Group, other_end_offset: int, config: TopicConfig) -> bool:
        return (
            self.log_bytes + other.log_bytes <= config.segment_bytes
            and self.offset_index_bytes + other.offset_index_bytes <= config.segment_index_bytes
            and self.time_index_bytes + other.time_index_bytes <= config.segment_index_bytes
            and other_end_offset - 1 - self.base_offset <= RELATIVE_OFFSET_MAX
            and len(self.segments) < SEGMENTS_MAX
        )

    def take(self, other: Group) -> None:
        self.segments += other.segments
        self.log_bytes += other.log_bytes
        self.offset_index_bytes += other.offset_index_bytes
        self.time_index_bytes += other.time_index_bytes


def group_segments(
    segments: Sequence[SourceSegment], file_sizes: Mapping[str, int], config: TopicConfig, end_offset: int
) -> list[Group]:
    """Group all of `segments` except empty ones, in order. Unchanged, the members of a group fit segment.bytes,
    segment.index.bytes with each index, and the width of a relative offset. `end_offset` is where the last one ends.
    """
    groups: list[Group] = []
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    for segment, segment_end_offset in zip(segments, ends, strict=True):
        alone = Group(
            [segment],
            segment.byte_count,
            file_sizes.get(file_name(segment.base_offset, OFFSET_INDEX_SUFFIX), 0),
            file_sizes.get(file_name(segment.base_offset, TIME_INDEX_SUFFIX), 0),
        )
        if groups and groups[-1].can_take(alone, segment_end_offset, config):
            groups[-1].take(alone)
        elif segment.byte_count:
            groups.append(alone)
    return groups
