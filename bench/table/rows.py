"""A row of the table: what it measures, and the samples of each side, turn by turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

OURS: Final = "Barnabas"
GRPC: Final = "Barnabas, gRPC"
KAFKA: Final = "Apache Kafka"
KFAKE: Final = "kfake"

_TURNS_MIN_TO_FALL: Final = 3
_COOL_SHARE_MAX: Final = 0.8

Say = Callable[[str], None]


@dataclass(slots=True)
class Sample:
    """One side, once."""

    value: float
    """In the unit of its row."""
    cpu: float = 0.0
    """Of all processes of the side, in the row's unit of CPU."""
    system_cpu: float = 0.0
    """What of it was the kernel's."""
    p50_us: float = 0.0
    """0, as `p99_us`, where single requests are not timed."""
    p99_us: float = 0.0
    switches: float = 0.0
    """Voluntary switches between threads, of all processes of the side, for each request; 0 where not counted."""


@dataclass(slots=True)
class Row:
    name: str
    title: str
    goal: str
    """As the ratio to Apache Kafka, unless it has a unit."""
    unit: str
    cpu_unit: str = ""
    """Empty where CPU is not taken apart from the value."""
    is_less_better: bool = False
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    """By side, in the order of the turns."""
    memory_bytes: dict[str, int] = field(default_factory=dict)
    """By side: the sum of PSS of its processes after the last turn."""
    seconds: float = 0.0
    """That it took, with its warm-up."""
    failure: str = ""
    """Why there are fewer samples than turns, or none."""

    def median(self, side: str, figure: Callable[[Sample], float] = lambda sample: sample.value) -> float:
        return statistics.median(figure(sample) for sample in self.samples[side])

    def is_warming(self, side: str) -> bool:
        """Whether the side's CPU fell from each turn to the next, by a fifth or more in all.

        A virtual machine was still compiling then, and a ratio to it says little.
        """
        cpus = [sample.cpu for sample in self.samples[side]]
        falls = all(later < earlier for earlier, later in pairwise(cpus))
        return len(cpus) >= _TURNS_MIN_TO_FALL and falls and cpus[-1] < _COOL_SHARE_MAX * cpus[0]

    def ratios(self, side: str) -> list[float]:
        """The side's values to Apache Kafka's, turn by turn; none where Apache Kafka was not measured."""
        pairs = zip(self.samples[side], self.samples.get(KAFKA, []), strict=False)
        return [own.value / theirs.value for own, theirs in pairs if theirs.value]


def take_in_turn(row: Row, takers: Mapping[str, Callable[[], Sample]], turns: int, say: Say) -> None:
    """Take a sample of each side in each turn; what was taken stays in the row when a taker raises."""
    row.samples.update({side: [] for side in takers})
    for turn in range(turns):
        for side, take in takers.items():
            row.samples[side].append(take())
        values = ", ".join(f"{side} {samples[-1].value:,.4g}" for side, samples in row.samples.items())
        say(f"  {row.name} {turn + 1}/{turns}: {values} {row.unit}")
