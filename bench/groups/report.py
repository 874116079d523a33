"""The figures of a run, and the table of them in docs/verify/performance.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.compared_run import ComparedRun
from bench.groups.measurements import Comparison, Sample

_BEARS_ON_GROUPS = re.compile(r"java|threads|offsets|group\.|brokers")


@dataclass(slots=True)
class GroupsRun(ComparedRun):
    comparisons: list[Comparison]


def table(run: GroupsRun, path: Path) -> str:
    client = f"the members are one process on the same machine; `__consumer_offsets` has {run.replicas_in_words}"
    lines = [
        run.head(client, path),
        "",
        f"| what | goal | {run.ours} | {run.theirs} | ratio: median (min–max) | CPU {run.ours} | CPU {run.theirs} |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in run.comparisons:
        ratios = each.ratios
        lines.append(
            f"| {each.title} | {each.goal} | {_spread(each, each.ours)} | {_spread(each, each.theirs)} "
            f"| **{statistics.median(ratios):.2f}** ({min(ratios):.2f}–{max(ratios):.2f}), {len(ratios)} pairs "
            f"| {_cpu(each, each.ours)} | {_cpu(each, each.theirs)} |"
        )
    lines += ["", "Flags that bear on it (all of them are in the JSON):", ""]
    for name, flags in ((run.ours, run.flags_ours), (run.theirs, run.flags_theirs)):
        shown = [f"`{key}={value}`" for key, value in flags.items() if _BEARS_ON_GROUPS.search(key)]
        lines.append(f"- {name}: {', '.join(shown)}")
    return "\n".join(lines)


def _spread(comparison: Comparison, samples: list[Sample]) -> str:
    values = [sample.value for sample in samples]
    show = _precision(min(values))
    cell = f"{show(statistics.median(values))} {comparison.unit} ({show(min(values))}–{show(max(values))})"
    idle = statistics.median(sample.idle_percent for sample in samples)
    return f"{cell}, {idle:.1f} % without heartbeats" if idle else cell


def _precision(smallest: float) -> Callable[[float], str]:
    digits = 0 if smallest >= 1000 else 1
    return lambda value: f"{value:,.{digits}f}"


def _cpu(comparison: Comparison, samples: list[Sample]) -> str:
    return f"{statistics.median(sample.cpu_us for sample in samples):,.0f} µs a {comparison.cpu_of}"
