"""What a run leaves behind: JSON with every figure, and the table in docs/verify/performance.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.groups.measurements import Comparison, Sample
from bench.report import RESULTS, ROOT, interpreter

_BEARS_ON_GROUPS = re.compile(r"java|threads|offsets|group\.|brokers")


@dataclass(slots=True)
class GroupsRun:
    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    ours: str
    theirs: str
    replicas: int
    """Of `__consumer_offsets`, and as many logstores and brokers."""
    flags_ours: dict[str, str]
    flags_theirs: dict[str, str]
    comparisons: list[Comparison]


def save(run: GroupsRun) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"groups-{run.taken.replace(':', '')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    return path


def table(run: GroupsRun, path: Path) -> str:
    replicas = "one replica" if run.replicas == 1 else f"{run.replicas} replicas"
    lines = [
        f"Taken {run.taken} at commit {run.commit} by `{run.command}` on {run.machine['cpu']}, "
        f"{run.machine['memory']}, Linux {run.machine['kernel']}, {interpreter(run.machine)}, "
        f"load average before it {run.machine['load average before']}; the members are one process on the same "
        f"machine; `__consumer_offsets` has {replicas}. All figures: `{path.relative_to(ROOT)}`.",
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
