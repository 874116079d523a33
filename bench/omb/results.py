"""The figures of a run, how the sides compare in each, and whether that is the goal."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.compared_run import ComparedRun
from bench.omb.measurement import Sample
from bench.omb.workloads import Scale, Workload

KEEPS_UP_SHARE_MIN: Final = 0.98
"""Of the offered rate; a side that publishes less is over its capacity."""


@dataclass(slots=True, frozen=True)
class Measure:
    """One figure in which the sides are compared."""

    title: str
    of: Callable[[Sample], float | None]
    is_more_better: bool = False

    def is_met(self, ratio: float) -> bool:
        """Return whether ours is no worse than theirs, to two digits."""
        return round(ratio, 2) >= 1 if self.is_more_better else round(ratio, 2) <= 1


MEASURES: Final = (
    Measure("rate", lambda sample: sample.rate, is_more_better=True),
    Measure("CPU a record", lambda sample: sample.cpu_us_per_record),
    Measure("memory", lambda sample: sample.memory_bytes),
    Measure("publish p99", lambda sample: sample.publish.p99_ms),
    Measure("publish p99.9", lambda sample: sample.publish.p999_ms),
    Measure("end to end p99", lambda sample: None if sample.end_to_end is None else sample.end_to_end.p99_ms),
    Measure("end to end p99.9", lambda sample: None if sample.end_to_end is None else sample.end_to_end.p999_ms),
)


@dataclass(slots=True)
class WorkloadResult:
    workload: Workload
    ours: list[Sample] = field(default_factory=list)
    theirs: list[Sample] = field(default_factory=list)
    """Each turn has one of both."""
    failures: list[str] = field(default_factory=list)
    """Of turns that are left out."""

    def ratios(self, measure: Measure) -> list[float]:
        """Return ours to theirs, turn by turn, where both have the figure."""
        pairs = [(measure.of(ours), measure.of(theirs)) for ours, theirs in zip(self.ours, self.theirs, strict=True)]
        return [ours / theirs for ours, theirs in pairs if ours is not None and theirs]

    def ratio(self, measure: Measure) -> float | None:
        ratios = self.ratios(measure)
        return statistics.median(ratios) if ratios else None

    def is_over_capacity(self, samples: Sequence[Sample]) -> bool:
        """Return whether these, at a fixed rate, published less than they were offered."""
        rate = self.workload.rate_here
        if self.workload.is_maximum or not samples:
            return False
        return statistics.median(sample.published_per_second for sample in samples) < rate * KEEPS_UP_SHARE_MIN


@dataclass(slots=True)
class OmbRun(ComparedRun):
    is_quick: bool
    scale: Scale
    in_flight: int
    placement: str
    processors: dict[str, list[int]]
    """By side, and of the load: on which the kernel lets them run."""
    client: str
    seconds: float = 0.0
    """That all of it took."""
    results: list[WorkloadResult] = field(default_factory=list)

    @property
    def behind(self) -> list[tuple[WorkloadResult, Measure, float]]:
        """Return where the goal is missed, the worst first."""
        found = [
            (result, measure, ratio)
            for result in self.results
            for measure in MEASURES
            if (ratio := result.ratio(measure)) is not None and not measure.is_met(ratio)
        ]
        return sorted(found, key=lambda each: 1 / each[2] if each[1].is_more_better else each[2], reverse=True)
