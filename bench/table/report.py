"""What a run of the table leaves behind: JSON with every figure, and a section of docs/verify/performance.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.plot import Bar, bar_plot
from bench.report import PAGE, ROOT, provenance, save_figures, write_section
from bench.table.rows import GRPC, KAFKA, Row

PLOTS: Final = {"one broker": "performance.svg", "three brokers": "performance-three-brokers.svg"}
"""Of whole runs, by stage, beside the page."""
_BEARS_ON_SPEED: Final = re.compile(r"java|threads|replication|queued|socket|segment|flush|LANE|module|rebalance")


@dataclass(slots=True)
class StageRun:
    name: str
    flags: dict[str, dict[str, str]]
    """By side."""
    rows: list[Row]


@dataclass(slots=True)
class TableRun:
    command: str
    commit: str
    taken: str
    """UTC."""
    seconds: float
    machine: dict[str, str]
    client: str
    lane: str
    is_quick: bool
    turns: int
    stages: list[StageRun] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As it is typed."""
        lane = "BARNABAS_LANE=off " if self.lane == "off" else ""
        return f"{lane}make bench{' QUICK=1' if self.is_quick else ''}"


def save_json(run: TableRun) -> Path:
    return save_figures(run, "bench" + ("-quick" if run.is_quick else "") + ("-grpc" if run.lane == "off" else ""))


def write_page(run: TableRun, path: Path) -> list[str]:
    """Replace the sections that this run has measured, and the plots of a whole one; return the sections' names.

    A quick run has one section for all of its stages, a whole one a section for each.
    """
    if run.is_quick:
        sections = {run.name: "\n\n".join([head(run, path), *[stage_text(stage) for stage in run.stages]])}
    else:
        sections = {
            f"{run.name}, {stage.name}": "\n\n".join([*_plot(run, stage), head(run, path), stage_text(stage)])
            for stage in run.stages
        }
    page = PAGE.read_text()
    written = [name for name in sections if _begin(name) in page]
    for name in written:
        write_section(PAGE, _begin(name), f"<!-- made by {name}: end -->", sections[name])
    return written


def _begin(name: str) -> str:
    return f"<!-- made by {name}: begin -->"


def _plot(run: TableRun, stage: StageRun) -> Iterator[str]:
    if stage.name in PLOTS and run.lane == "on":
        bars = []
        for row in stage.rows:
            for side in row.samples:
                ratios = [] if row.is_less_better or side == KAFKA else row.ratios(side)
                if ratios:
                    label = row.title if side != GRPC else f"{row.title}, by gRPC"
                    bars.append(Bar(label, min(ratios), statistics.median(ratios), max(ratios)))
        (PAGE.parent / PLOTS[stage.name]).write_text(bar_plot(f"{stage.name}: times the rate of {KAFKA}", bars))
        yield f"![Ratios]({PLOTS[stage.name]})"


def head(run: TableRun, path: Path) -> str:
    return (
        f"{provenance(run)} Client: {run.client}, or frames of our own, on the same machine. Medians of {run.turns} "
        f"turns in {run.seconds / 60:.1f} minutes, with least and most. All figures: `{path.relative_to(ROOT)}`."
    )


def stage_text(stage: StageRun) -> str:
    """Return the table of a stage, with its failures and flags."""
    lines = [
        "| row | goal | side | measured | p50 | p99 | CPU | of it system | switches | memory "
        "| ÷ Apache Kafka | CPU ÷ | memory ÷ |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in stage.rows:
        lines += _lines(row)
    lines += ["", "Flags that bear on speed (all of them are in the JSON):", ""]
    for side, flags in stage.flags.items():
        shown = [f"`{key}={value}`" for key, value in flags.items() if _BEARS_ON_SPEED.search(key)]
        if shown:
            lines.append(f"- {side}: {', '.join(shown)}")
    failed = [f"- **not measured**: {row.title}: {row.failure}" for row in stage.rows if row.failure]
    return "\n".join([*lines, *([""] if failed else []), *failed])


def _lines(row: Row) -> Iterator[str]:
    for number, side in enumerate(row.samples):
        values = [sample.value for sample in row.samples[side]]
        cells = ["" if number else row.title, "" if number else row.goal, side]
        warming = ", still warming" if row.is_warming(side) else ""
        cells.append(f"{figure(row.median(side))} {row.unit}" + _spread(values) + warming)
        p50, p99, cpu, system, switched = (
            row.median(side, each)
            for each in (
                lambda sample: sample.p50_us,
                lambda sample: sample.p99_us,
                lambda sample: sample.cpu,
                lambda sample: sample.system_cpu,
                lambda sample: sample.switches,
            )
        )
        cells += [_duration(each) if each else "" for each in (p50, p99)]
        cells += [f"{figure(cpu)} {row.cpu_unit}" if cpu else "", f"{100 * system / cpu:.0f} %" if cpu else ""]
        cells.append(f"{switched:.1f}" if switched else "")
        memory = row.memory_bytes.get(side, 0)
        cells.append(f"{memory / 1e6:,.0f} MB" if memory else "")
        ratios = row.ratios(side)
        if side == KAFKA or not ratios:
            cells += ["", "", ""]
        else:
            cells.append(f"**{statistics.median(ratios):.2f}**{_spread(ratios, 2)}")
            theirs = row.median(KAFKA, lambda sample: sample.cpu)
            cells.append(f"{cpu / theirs:.2f}" if theirs and cpu else "")
            memory_of_theirs = row.memory_bytes.get(KAFKA, 0)
            cells.append(f"{memory / memory_of_theirs:.2f}" if memory and memory_of_theirs else "")
        yield f"| {' | '.join(cells)} |"


def _duration(microseconds: float) -> str:
    return f"{microseconds / 1e6:.1f} s" if microseconds >= 1e6 else f"{microseconds:,.0f} µs"


def figure(value: float) -> str:
    """Three digits, at least, and none that say nothing."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _spread(values: list[float], digits: int | None = None) -> str:
    if len(values) < 2:
        return ""
    low, high = (figure(each) if digits is None else f"{each:.{digits}f}" for each in (min(values), max(values)))
    return f" ({low}–{high})"
