"""Histogram: counts by fixed upper bounds; cheap to add to, and exact to merge."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

# Bounds of times, in microseconds: from a turn of an idle loop to the longest wait that a client may request, three per
# decade.
TIME_BOUNDS_US = (
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
)  # fmt: skip

# Bounds of sizes.
BYTE_BOUNDS = (128, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)


@dataclass(slots=True)
class Histogram:
    """`counts` has one more entry than `bounds`: for values above all of them. A value equal to a bound counts under
    it.

    `unit` is the divisor of values and bounds when they are reported (1000: microseconds become milliseconds).
    """

    bounds: tuple[int, ...] = TIME_BOUNDS_US
    unit: int = 1000
    counts: list[int] = field(init=False)
    sum: int = 0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: int) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def merge(self, other: Histogram) -> None:
        """Both must have the same bounds."""
        assert self.bounds == other.bounds, "histograms of one family have one set of bounds"
        for index, count in enumerate(other.counts):
            self.counts[index] += count
        self.sum += other.sum

    @property
    def count(self) -> int:
        return sum(self.counts)
