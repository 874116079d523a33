"""What pairs of measurements say of a difference: its mean, and where it lies by 95 %."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

# Student's t for 95 %, both sides, by degrees of freedom from 1; beyond it is the last one, which is wider.
_T_95: Final = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
)  # fmt: skip


class Pair(msgspec.Struct):
    """CPU microseconds a request, of two measurements that followed each other."""

    on: float
    off: float

    @property
    def percent(self) -> float:
        return 100 * (self.on / self.off - 1)


class Estimate(msgspec.Struct):
    """How much more a request costs, in percent; the interval holds the mean by 95 %."""

    percent: float
    percent_low: float
    percent_high: float
    median_on_us: float
    median_off_us: float


def estimate(pairs: Sequence[Pair]) -> Estimate:
    """Of two pairs at least."""
    percents = [pair.percent for pair in pairs]
    mean = statistics.fmean(percents)
    freedom = len(percents) - 1
    half = _T_95[min(freedom, len(_T_95)) - 1] * statistics.stdev(percents) / math.sqrt(len(percents))
    on, off = (statistics.median(values) for values in ([pair.on for pair in pairs], [pair.off for pair in pairs]))
    return Estimate(mean, mean - half, mean + half, on, off)
