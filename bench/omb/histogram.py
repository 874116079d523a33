"""Percentiles of the latencies that the load counts, in buckets as bench/omb/java/LatencyHistogram.java has them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

SUB_BUCKETS: Final = 128
"""Of each power of two; as many microseconds below are counted one by one."""


def bucket_of(microseconds: int) -> int:
    """Return the number of the bucket that counts a latency."""
    if microseconds < SUB_BUCKETS:
        return microseconds
    shift = microseconds.bit_length() - SUB_BUCKETS.bit_length()
    return SUB_BUCKETS * shift + (microseconds >> shift)


def largest_in(bucket: int) -> int:
    """Return the largest latency that the bucket counts, in microseconds."""
    if bucket < SUB_BUCKETS:
        return bucket
    shift = bucket // SUB_BUCKETS - 1
    return ((bucket - SUB_BUCKETS * shift + 1) << shift) - 1


def percentile_us(counts: Mapping[int, int], percent: float) -> float:
    """Return the least latency in microseconds, rounded up to its bucket's largest, that so many percent do not exceed.

    `counts`: by bucket. Raises ValueError: nothing was counted.
    """
    total = sum(counts.values())
    if not total:
        raise ValueError("nothing was counted")
    # Of a thousand, 99.9 % are 999: the product must not be one more for what a float can't hold.
    rank = max(1, math.ceil(round(total * percent / 100, 6)))
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            return float(largest_in(bucket))
    raise AssertionError("the last bucket reaches the total")


@dataclass(slots=True, frozen=True)
class Latencies:
    """Of one kind, in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


def latencies_of(pairs: Iterable[tuple[int, int]]) -> Latencies | None:
    """Return the percentiles of (bucket, count); None if nothing was counted."""
    counts: Counter[int] = Counter()
    for bucket, count in pairs:
        counts[bucket] += count
    total = counts.total()
    if not total:
        return None
    p50, p99, p999, highest = (percentile_us(counts, percent) / 1e3 for percent in (50, 99, 99.9, 100))
    return Latencies(total, p50, p99, p999, highest)
