"""What a run leaves behind: JSON with every leader change, tables and two plots in docs/control-apart-from-data.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import TypeAlias

import msgspec

from bench.control.client_side import ClientPoint
from bench.control.designs import Design
from bench.control.measure import QUEUED_MAX_REQUESTS, Offered, Point, percentile
from bench.control.plot import backlog_plot
from bench.report import RESULTS, ROOT, write_section

PAGE = ROOT / "docs/control-apart-from-data.md"
_PLOTS = {
    "acknowledged": ROOT / "docs/control-acknowledged.svg",
    "parked_failed": ROOT / "docs/control-parked-failed.svg",
}
_BEGIN = "<!-- made by make bench-control: begin -->"
_END = "<!-- made by make bench-control: end -->"
_QUIET_LOAD_MAX = 0.5
_BUSY = "**The machine was busy with other work: these figures are too high, and scatter.** "

Times: TypeAlias = Callable[[Point], list[float]]


@dataclass(slots=True)
class ControlRun:
    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    value_bytes: int
    rounds: int
    points: list[Point]
    client_side: list[ClientPoint]


def save(run: ControlRun) -> Path:
    """Write the JSON, the page's section and the plots; returns the path of the first."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"control-{run.taken.replace(':', '')}.json"
    path.write_bytes(msgspec.json.encode(run) + b"\n")
    plots = f"![Acknowledged]({_PLOTS['acknowledged'].name})"
    if _has_failed(run):
        plots += f"\n\n![Parked failed]({_PLOTS['parked_failed'].name})"
        _PLOTS["parked_failed"].write_text(
            _plot("From the commit to the last parked produce failed, p99", run, _failed)
        )
    write_section(PAGE, _BEGIN, _END, f"{plots}\n\n{tables(run, path)}")
    _PLOTS["acknowledged"].write_text(_plot("From the commit to the acknowledgement, p99", run, _acknowledged))
    return path


def _has_failed(run: ControlRun) -> bool:
    """Whether leader changes failed what was parked when it was taken."""
    return all(point.parked_failed for point in run.points)


def tables(run: ControlRun, path: Path) -> str:
    machine = run.machine
    counts = [sum(change.away for change in point.changes) for point in run.points]
    failed = (
        []
        if not _has_failed(run)
        else [
            "**(b) From the commit in etcd to the failure of the last parked produce at the client**, p50 / p99 in ms:",
            "",
            *_by_design(run.points, _failed),
            "",
        ]
    )
    is_busy = float(machine["load average before"]) > _QUIET_LOAD_MAX
    lines = [
        f"Taken {run.taken} at commit {run.commit} by `{run.command}` on {machine['cpu']}, {machine['memory']}, "
        f"Linux {machine['kernel']}, Python {machine['python']}, load average before it "
        f"{machine['load average before']}. {_BUSY if is_busy else ''}The channel has {QUEUED_MAX_REQUESTS} places; "
        f"the load's requests carry one record of {run.value_bytes:,} bytes; {min(counts)} to {max(counts)} changes "
        f"away from the loaded logstore a point, and as many back to it. All figures: `{path.relative_to(ROOT)}`.",
        "",
        "**(a) From the commit in etcd to the loaded logstore's acknowledgement**, p50 / p99 in ms:",
        "",
        *_by_design(run.points, _acknowledged),
        "",
        *failed,
        *_added(run.points),
        "",
        *_separate_in_detail(run.points),
    ]
    if run.client_side:
        lines += ["", *_client_side(run.client_side)]
    return "\n".join(lines)


def _acknowledged(point: Point) -> list[float]:
    return point.acknowledged


def _failed(point: Point) -> list[float]:
    return point.parked_failed


def _by_design(points: Sequence[Point], times: Times) -> list[str]:
    designs = list(dict.fromkeys(point.design for point in points))
    backlogs = list(dict.fromkeys(point.backlog for point in points))
    lines = [f"| data offered | {' | '.join(designs)} |", "|---" * (len(designs) + 1) + "|"]
    for backlog in backlogs:
        cells = []
        for design in designs:
            measured = times(_find(points, design, backlog))
            cells.append(f"{percentile(measured, 0.5):.1f} / **{percentile(measured, 0.99):.1f}**")
        lines.append(f"| {backlog.name} | {' | '.join(cells)} |")
    return lines


def _added(points: Sequence[Point]) -> list[str]:
    """What the queue itself costs: the scheduler is in both terms."""
    elsewhere = next((point.backlog for point in points if point.backlog.elsewhere), None)
    if elsewhere is None:
        return []
    full = replace(elsewhere, elsewhere=False)
    lines = [
        f"**What the queue adds to (a)**: {full.name} offered, less the same load elsewhere, p50 / p99 in ms:",
        "",
        "| design | added |",
        "|---|---|",
    ]
    for design in dict.fromkeys(point.design for point in points):
        with_queue, without = (_find(points, design, each).acknowledged for each in (full, elsewhere))
        p50, p99 = (percentile(with_queue, part) - percentile(without, part) for part in (0.5, 0.99))
        lines.append(f"| {design} | {p50:+.1f} / **{p99:+.1f}** |")
    return lines


def _find(points: Sequence[Point], design: Design, backlog: Offered) -> Point:
    return next(point for point in points if point.design == design and point.backlog == backlog)


def _separate_in_detail(points: Sequence[Point]) -> list[str]:
    """Where the time goes in our own design, and what it was under."""
    lines = [
        "Our own design by its hops (p50 / p99, ms after the commit), with the rate of the load, the requests of it "
        "that waited for credit, how many the command found waiting at the logstore, and how busy the machine was:",
        "",
        "| data offered | sent | arrived | carried out | acknowledged | appends/s | no credit | found | busy |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for point in points:
        if point.design is not Design.SEPARATE:
            continue
        hops = [[getattr(change, hop) for change in point.changes] for hop in ("sent", "arrived", "applied")]
        cells = [
            f"{percentile(times, 0.5):.1f} / {percentile(times, 0.99):.1f}" for times in (*hops, point.acknowledged)
        ]
        cells.append(f"{mean(point.appends_per_second):,.0f}")
        cells.append(f"{mean(point.appends_without_credit):,.0f}")
        cells.append(f"{percentile([change.requests_waiting for change in point.changes], 0.5):.0f}")
        cells.append(f"{mean(point.machine_busy):.0%}")
        lines.append(f"| {point.backlog.name} | {' | '.join(cells)} |")
    return lines


def _client_side(points: Sequence[ClientPoint]) -> list[str]:
    lines = [
        "**Beside Apache Kafka, as a client sees both**: from ElectLeaders sent to the first produce that the new "
        "leader accepts, with the old leader idle or under as many connections as fill its queue:",
        "",
        "| side | load at the old leader | changes | p50 | p99 | load's produces/s |",
        "|---|---|---|---|---|---|",
    ]
    for point in points:
        load = f"{point.connections} connections, one produce each" if point.connections else "none"
        p50, p99 = (percentile(point.milliseconds, part) for part in (0.5, 0.99))
        lines.append(
            f"| {point.side} | {load} | {len(point.milliseconds)} | {p50:.1f} ms | {p99:.1f} ms "
            f"| {point.produces_per_second:,.0f} |"
        )
    return lines


def _plot(title: str, run: ControlRun, times: Times) -> str:
    series: dict[str, list[tuple[int, float]]] = {}
    for point in run.points:
        if not point.backlog.elsewhere:
            value = max(percentile(times(point), 0.99), 0.1)
            series.setdefault(point.design, []).append((point.backlog.percent, value))
    return backlog_plot(title, series)
