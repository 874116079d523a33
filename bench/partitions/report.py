"""What a run leaves behind: JSON with every figure, and the table in docs/verify/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.partitions.measurements import Change, Measured
from bench.report import ROOT, provenance, save_figures


@dataclass(slots=True)
class PartitionsRun:
    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    flags: dict[str, dict[str, str]] = field(default_factory=dict)
    """By side."""
    measured: list[Measured] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """By side: why it was not measured."""


def save(run: PartitionsRun) -> Path:
    return save_figures(run, "partitions")


def table(run: PartitionsRun, path: Path) -> str:
    count = f"{run.measured[0].partitions:,}"
    rows: list[tuple[str, str, Callable[[Measured], str]]] = [
        ("three brokers without topics, idle: CPU of one core", "≤ 5 %", lambda each: _idle(each.idle_empty_percent)),
        (
            f"{count} partitions created, every replica in sync",
            "",
            lambda each: f"{each.created_seconds:.1f} s, {each.created_cpu_seconds:.1f} s of CPU",
        ),
        (
            "first write to each, by one producer that knew none of them: median, last",
            "≤ 5 s",
            lambda each: (
                f"{each.first_writes_median_seconds:.1f} s, **{each.first_writes_seconds:.1f} s**, "
                f"{each.first_writes_cpu_seconds:.1f} s of CPU"
            ),
        ),
        (f"{count} partitions, idle: CPU of one core", "", lambda each: _idle(each.idle_percent)),
        (f"a topic of one partition created among {count}", "", lambda each: _change(each.topic_created)),
        (f"one partition of {count} given another leader", "", lambda each: _change(each.leader_moved)),
        ("memory of all processes (PSS)", "", lambda each: f"{each.memory_bytes / 1e6:,.0f} MB"),
    ]
    return "\n".join(
        [
            f"{provenance(run)} {run.measured[0].partitions * 3:,} replicas on three brokers. "
            f"All figures: `{path.relative_to(ROOT)}`.",
            "",
            f"| what | goal | {' | '.join(each.side for each in run.measured)} |",
            f"|---|---|{'---|' * len(run.measured)}",
            *[f"| {what} | {goal} | {' | '.join(cell(each) for each in run.measured)} |" for what, goal, cell in rows],
            *[f"\n**Not measured**: {side}: {reason}" for side, reason in run.failures.items()],
        ]
    )


def _idle(percents: list[float]) -> str:
    return f"{statistics.median(percents):.1f} % ({min(percents):.1f}–{max(percents):.1f})"


def _change(change: Change) -> str:
    seconds, cpu = statistics.median(change.seconds), statistics.median(change.cpu_seconds)
    return f"{seconds * 1e3:,.0f} ms, {cpu * 1e3:,.0f} ms of CPU"
