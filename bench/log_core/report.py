"""What a run leaves behind: JSON with every figure, and a section of docs/verify/performance.md with the medians."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.log_core.lookups import Lookups
from bench.log_core.opening import CleanStart, Recovery
from bench.log_core.throughput import Throughput
from bench.plot import line_plot
from bench.report import PAGE, ROOT, provenance, save_figures, write_section

PLOT = ROOT / "docs/verify/lookups.svg"
BEGIN = "<!-- made by bench.log_core: begin -->"
END = "<!-- made by bench.log_core: end -->"


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    throughput: list[Throughput]
    lookups: list[Lookups]
    recovery: list[Recovery]
    clean_starts: list[CleanStart]


def save(run: Run) -> Path:
    """Write the JSON, the section and the plot; returns the path of the first."""
    path = save_figures(run, "log-core")
    series = {
        "by offset": [(each.entries, each.by_offset_ns) for each in run.lookups],
        "by time": [(each.entries, each.by_time_ns) for each in run.lookups],
    }
    PLOT.write_text(line_plot("A lookup in a mapped index, by its entries", series, "ns"))
    write_section(PAGE, BEGIN, END, f"{section(run, path)}\n\n![Lookups]({PLOT.name})")
    return path


def section(run: Run, path: Path) -> str:
    busy = "**The machine was busy: these figures are too low.**"
    lines = [
        f"{provenance(run, busy=busy)} Medians; all figures: `{path.relative_to(ROOT)}`.",
        "",
        "| 1 MB batches, one core | GB/s | CPU seconds a GB |",
        "|---|---|---|",
    ]
    for load, disk in dict.fromkeys((each.load, each.disk) for each in run.throughput):
        same = [each for each in run.throughput if (each.load, each.disk) == (load, disk)]
        rate = _median(each.gigabytes_per_second for each in same)
        cpu = _median(each.cpu_seconds_per_gigabyte for each in same)
        lines.append(f"| {load}, {disk} | {rate:.2f} | {cpu:.2f} |")
    lines += ["", "| entries of the index | by offset | by time |", "|---|---|---|"]
    for each in run.lookups:
        lines.append(f"| {each.entries:,} | {each.by_offset_ns:,.0f} ns | {each.by_time_ns:,.0f} ns |")
    lines += ["", "| recovery of one log | reading its files | recovery | CPU seconds a GB |", "|---|---|---|---|"]
    for is_cold in (True, False):
        rounds = [each for each in run.recovery if each.is_cold is is_cold]
        if rounds:
            lines.append(
                f"| {rounds[0].gigabytes:.1f} GB, {'cold' if is_cold else 'in the page cache'} "
                f"| {_median(each.disk_gigabytes_per_second for each in rounds):.2f} GB/s "
                f"| {_median(each.gigabytes_per_second for each in rounds):.2f} GB/s "
                f"| {_median(each.cpu_seconds_per_gigabyte for each in rounds):.2f} |"
            )
    if run.clean_starts:
        seconds = _median(each.seconds for each in run.clean_starts)
        lines += ["", f"Clean start of {run.clean_starts[0].partitions:,} partitions: {seconds:.1f} s."]
    return "\n".join(lines)


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)
