"""What a run leaves behind: JSON with every figure, and the table in docs/verify/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.report import RESULTS, ROOT, interpreter
from bench.transactions.measurements import Comparison, Sample


@dataclass(slots=True)
class TransactionsRun:
    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    ours: str
    theirs: str
    replicas: int
    """Of the topics, and as many logstores and brokers."""
    versions: list[int]
    """The levels of `transaction.version`, ours and theirs."""
    flags_ours: dict[str, str]
    flags_theirs: dict[str, str]
    comparisons: list[Comparison]


def save(run: TransactionsRun) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"transactions-{run.taken.replace(':', '')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    return path


def table(run: TransactionsRun, path: Path) -> str:
    replicas = "one replica" if run.replicas == 1 else f"{run.replicas} replicas"
    lines = [
        f"Taken {run.taken} at commit {run.commit} by `{run.command}` on {run.machine['cpu']}, "
        f"{run.machine['memory']}, Linux {run.machine['kernel']}, {interpreter(run.machine)}, "
        f"load average before it {run.machine['load average before']}; the client is Kafka's own, one process on the "
        f"same machine; `transaction.version` is {run.versions[0]} and {run.versions[1]}; topics have {replicas}. "
        f"All figures: `{path.relative_to(ROOT)}`.",
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
