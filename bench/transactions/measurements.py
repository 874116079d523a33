"""What is measured: one load on each side, in turn, by one Java client process."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.accounting import cpu_time
from bench.loads import create_topic
from bench.sides import Side
from tests.integration.kafka_tools import KafkaTools

_SAID = re.compile(r"transactions (\d+) seconds ([\d.]+) p50 ([\d.]+) p99 ([\d.]+)")
_FINALIZED = re.compile(r"transaction\.version\s.*?FinalizedVersionLevel: (\d+)")
_SETTLE_SECONDS: Final = 0.2
"""What a broker puts off (flushing answers, compiling) is part of its cost."""


@dataclass(slots=True, frozen=True)
class Load:
    name: str
    title: str
    goal: str
    partitions: int
    producers: int
    records: int
    """Of a transaction."""
    is_latency: bool = False
    """Whether the p99 from commit to a consumer of committed records is compared, instead of the rate."""


LOADS: Final = (
    Load("small", "1 record × 1 partition, one producer", "≥ 1.0", 1, 1, 1),
    Load("large", "100 records × 10 partitions, one producer", "≥ 1.0", 10, 1, 100),
    Load("many", "1 record × 1 partition, 50 producers", "≥ 1.0", 10, 50, 1),
    Load("visible", "commit to visible, p99", "≤ 1.0", 1, 1, 1, is_latency=True),
)


@dataclass(slots=True)
class Sample:
    """One side, once."""

    transactions_per_second: float
    p50_ms: float
    p99_ms: float
    """Of a transaction from its beginning to its commit, or from its commit until a consumer has its record."""
    cpu_ms: float
    """Of all processes of the side, for each transaction; warm-up and the producers' beginning are part of it."""


@dataclass(slots=True)
class Comparison:
    load: Load
    ours: list[Sample] = field(default_factory=list)
    theirs: list[Sample] = field(default_factory=list)

    def value_of(self, sample: Sample) -> float:
        return sample.p99_ms if self.load.is_latency else sample.transactions_per_second

    @property
    def ratios(self) -> list[float]:
        """Ours to theirs, pair by pair."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return [self.value_of(ours) / self.value_of(theirs) for ours, theirs in pairs]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


def parse_report(said: str) -> tuple[int, float, float, float]:
    """Return transactions, seconds, p50 and p99 in ms of what TransactionLoad says. Raises ValueError."""
    found = _SAID.search(said)
    if found is None:
        raise ValueError(f"TransactionLoad said {said!r}")
    return int(found[1]), float(found[2]), float(found[3]), float(found[4])


def transaction_version(described: str) -> int:
    """Return the finalized level of `transaction.version`, by which clients choose their requests, from what Kafka's
    feature tool describes; 0 without one.
    """
    found = _FINALIZED.search(described)
    return int(found[1]) if found else 0


def compare(
    tools: KafkaTools,
    load: Load,
    sides: Sequence[Side],
    pairs: int,
    seconds: float,
    replicas: int,
    say: Callable[[str], None],
) -> Comparison:
    """Measure both sides so many times in turn, after a sample of each that does not count: the client and Kafka are
    compiled by it. The side that is first changes with each pair.
    """
    topic = f"bench-{load.name}"
    for side in sides:
        create_topic(side.bootstrap, topic, replicas, load.partitions)
    ours, theirs = sides
    comparison = Comparison(load)
    for number in range(pairs + 1):
        order = [(ours, comparison.ours), (theirs, comparison.theirs)]
        for side, samples in order if number % 2 else reversed(order):
            sample = _measure(tools, side, load, topic, seconds)
            say(f"{load.name} {side.name}: {sample.transactions_per_second:.0f}/s, p99 {sample.p99_ms:.1f} ms")
            if number:
                samples.append(sample)
    return comparison


def _measure(tools: KafkaTools, side: Side, load: Load, topic: str, seconds: float) -> Sample:
    before = cpu_time(side.sessions)
    if load.is_latency:
        arguments = ["visible", side.bootstrap, topic, str(seconds)]
    else:
        counts = map(str, (load.partitions, load.producers, load.records))
        arguments = ["rate", side.bootstrap, topic, *counts, str(seconds)]
    began = time.monotonic()
    transactions, measured, p50_ms, p99_ms = parse_report(tools.output("TransactionLoad", *arguments))
    whole = time.monotonic() - began
    time.sleep(_SETTLE_SECONDS)
    cpu = cpu_time(side.sessions).since(before)
    in_all = max(1.0, transactions * whole / measured)
    return Sample(transactions / measured, p50_ms, p99_ms, cpu.total / in_all * 1e3)
