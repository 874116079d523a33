"""The figures of a run, and the table of them in docs/verify/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.compared_run import ComparedRun
from bench.transactions.measurements import Comparison, Sample


@dataclass(slots=True)
class TransactionsRun(ComparedRun):
    versions: list[int]
    """The levels of `transaction.version`, ours and theirs."""
    comparisons: list[Comparison]


def table(run: TransactionsRun, path: Path) -> str:
    client = (
        "the client is Kafka's own, one process on the same machine; `transaction.version` is "
        f"{run.versions[0]} and {run.versions[1]}; topics have {run.replicas_in_words}"
    )
    lines = [
        run.head(client, path),
        "",
        f"| what | goal | {run.ours} | {run.theirs} | ratio: median (min–max) | p99 {run.ours}, {run.theirs} "
        f"| CPU a transaction {run.ours}, {run.theirs} |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in run.comparisons:
        ratios = each.ratios
        lines.append(
            f"| {each.load.title} | {each.load.goal} | {_spread(each, each.ours)} | {_spread(each, each.theirs)} "
            f"| **{each.ratio:.2f}** ({min(ratios):.2f}–{max(ratios):.2f}), {len(ratios)} pairs "
            f"| {_median(each.ours, lambda sample: sample.p99_ms):.1f} ms, "
            f"{_median(each.theirs, lambda sample: sample.p99_ms):.1f} ms "
            f"| {_median(each.ours, lambda sample: sample.cpu_ms):.2f} ms, "
            f"{_median(each.theirs, lambda sample: sample.cpu_ms):.2f} ms |"
        )
    return "\n".join(lines)


def _spread(comparison: Comparison, samples: list[Sample]) -> str:
    values = [comparison.value_of(sample) for sample in samples]
    unit, digits = ("ms", 1) if comparison.load.is_latency else ("/s", 0)
    return f"{statistics.median(values):,.{digits}f} {unit} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def _median(samples: Iterable[Sample], value_of: Callable[[Sample], float]) -> float:
    return statistics.median(map(value_of, samples))
