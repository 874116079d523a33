"""How much of a backlog one batch may take: limits in records and in bytes, shared between partitions.

Each partition gets a part in proportion to its backlog, so that partitions of one topic come to their ends together and
the event times of a backfill stay close. A partition with a backlog gets at least one offset in every batch, as in the
JVM connector, so that none starves: where limits are smaller than that, a batch is larger than they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas_pipeline.core.positions import TopicPartition

WAIT_MS_MAX: Final = 15 * 60 * 1000
"""The JVM connector's `maxTriggerDelay`, where none is given."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one batch; None: no limit. Records are counted by their offsets, bytes as they are in the log, compressed.

    A batch of fewer than `records_min` is put off, for `wait_ms_max` after the last one at most.
    """

    records_max: int | None = None
    bytes_max: int | None = None
    records_min: int | None = None
    wait_ms_max: int = WAIT_MS_MAX

    def puts_off(self, backlog_records: int, since_last_batch_ms: float | None) -> bool:
        """`since_last_batch_ms`: None before the first one of this process, which is never put off."""
        if self.records_min is None or since_last_batch_ms is None:
            return False
        return backlog_records < self.records_min and since_last_batch_ms < self.wait_ms_max


class Sample(NamedTuple):
    """Bytes per offset as found in the log from `offset` on."""

    offset: int
    bytes_per_offset: float


def admit_records(backlog: Mapping[TopicPartition, int], records_max: int | None) -> dict[TopicPartition, int]:
    """Offsets per partition, `records_max` in all, or one each; a backlog that fits is admitted whole."""
    total = sum(backlog.values())
    if records_max is None or total <= records_max:
        return dict(backlog)
    admitted: dict[TopicPartition, int] = {}
    left, waiting = records_max, len(backlog)
    for partition in sorted(backlog, key=lambda each: (-backlog[each], each)):
        waiting -= 1
        admitted[partition] = max(1, min(backlog[partition] * records_max // total, left - waiting))
        left -= admitted[partition]
    # What rounding has left goes to the most behind.
    for partition in admitted:
        more = max(0, min(left, backlog[partition] - admitted[partition]))
        admitted[partition] += more
        left -= more
    return admitted


def admit_bytes(
    admitted: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    samples: Mapping[TopicPartition, Sequence[Sample]],
    bytes_max: int | None,
) -> dict[TopicPartition, int]:
    """What of `admitted`, offsets from `starts` on, has at most about `bytes_max` bytes by `samples`.

    At least one offset of each is admitted: one that is larger than the limit has to be read all the same.
    """
    if bytes_max is None:
        return dict(admitted)
    sizes = {
        each: bytes_between(samples.get(each, ()), starts[each], starts[each] + count)
        for each, count in admitted.items()
    }
    total = sum(sizes.values())
    if total <= bytes_max:
        return dict(admitted)
    fitting: dict[TopicPartition, int] = {}
    left = float(bytes_max)
    for partition in sorted(admitted, key=lambda each: (-sizes[each], each)):
        share = max(0.0, min(sizes[partition] * bytes_max / total, left))
        count = offsets_within(samples.get(partition, ()), starts[partition], admitted[partition], share)
        fitting[partition] = max(1, count)
        left -= bytes_between(samples.get(partition, ()), starts[partition], starts[partition] + fitting[partition])
    return fitting


def probe_offsets(start: int, count: int, probes: int) -> list[int]:
    """Where to sample `count` offsets from `start` on: at both ends, and evenly spread between them."""
    return sorted({start + (count - 1) * index // (probes - 1) for index in range(probes)})


def bytes_between(samples: Sequence[Sample], start: int, end: int) -> float:
    """By the samples, the first of which is at `start` or before it; 0 without any."""
    return sum(max(0, min(until, end) - max(since, start)) * each for since, until, each in _stretches(samples, end))


def offsets_within(samples: Sequence[Sample], start: int, count: int, bytes_max: float) -> int:
    """How many of `count` offsets from `start` on have at most so many bytes."""
    end = start + count
    left = bytes_max
    for since, until, bytes_per_offset in _stretches(samples, end):
        size = (min(until, end) - since) * bytes_per_offset
        if size > left:
            return since - start + int(left / bytes_per_offset)
        left -= size
    return count


def _stretches(samples: Sequence[Sample], end: int) -> Iterator[tuple[int, int, float]]:
    """`(since, until, bytes per offset)`: between two samples it is the larger one's, so that where records grow the
    limit is kept, and a batch is rather too small."""
    for index, sample in enumerate(samples):
        if index + 1 < len(samples):
            following = samples[index + 1]
            yield sample.offset, following.offset, max(sample.bytes_per_offset, following.bytes_per_offset)
        else:
            yield sample.offset, max(end, sample.offset), sample.bytes_per_offset
