"""Ranges of offsets: what one task of Spark reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from barnabas_pipeline.core.positions import Positions, TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets `start` up to, not including, `end` of one partition; holes in it are fine (compaction, markers)."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def ranges_between(start: Positions, end: Positions) -> list[OffsetRange]:
    """What lies between two positions, sorted by topic and partition; empty ranges are left out.

    Of a partition that `start` does not name, or names under another topic id, nothing is read: such a one is written
    into the positions first, at its beginning, and read in the next batch. So a batch that is planned again, after a
    crash, is the same batch.
    """
    ranges = []
    for topic in sorted(end):
        before, after = start.get(topic), end[topic]
        if before is None or before.topic_id != after.topic_id:
            continue
        for partition, until in sorted(after.offsets.items()):
            since = before.offsets.get(partition, until)
            if until > since:
                ranges.append(OffsetRange(topic, after.topic_id, partition, since, until))
    return ranges


def limit_ranges(ranges: Iterable[OffsetRange], offsets_max: int | None) -> list[OffsetRange]:
    """The same, cut into pieces of at most `offsets_max`; None: as they are."""
    if offsets_max is None:
        return list(ranges)
    return [piece for each in ranges for piece in _cut(each, -(-each.size // offsets_max))]


def split_ranges(ranges: Iterable[OffsetRange], parts_min: int | None) -> list[OffsetRange]:
    """At least `parts_min` ranges where there are so many offsets, the larger ones cut into more pieces.

    None, or fewer than there are ranges: as they are. Pieces of one range differ by at most one offset in size.
    """
    whole = list(ranges)
    total = sum(each.size for each in whole)
    if parts_min is None or parts_min <= len(whole) or total <= len(whole):
        return whole
    pieces = dict.fromkeys(whole, 1)
    for _ in range(min(parts_min, total) - len(whole)):
        largest = max(pieces, key=lambda each: each.size / pieces[each])
        pieces[largest] += 1
    return [piece for each in whole for piece in _cut(each, pieces[each])]


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    edges = [whole.start + whole.size * index // pieces for index in range(pieces + 1)]
    return [replace(whole, start=since, end=until) for since, until in itertools.pairwise(edges)]
