"""The section of docs/verify/omb.md that a run writes: every figure of both sides, their ratios, and what is behind."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from bench.omb.histogram import Latencies
from bench.omb.measurement import Sample
from bench.omb.processors import in_words
from bench.omb.results import MEASURES, Measure, OmbRun, WorkloadResult
from bench.report import ROOT

PAGE: Final = ROOT / "docs/verify/omb.md"
BEGIN: Final = "<!-- made by make bench-omb: begin -->"
END: Final = "<!-- made by make bench-omb: end -->"
_BEARS_ON_IT: Final = re.compile(r"java|threads|offsets\.topic|^brokers$|LANE|CORES")


def section(run: OmbRun, path: Path) -> str:
    """Return what stands between the marks of the page. `path`: where all figures are saved."""
    lines = [run.head(_how(run), path), "", *_figures(run), "", *_ratios(run), "", *_behind(run), ""]
    lines += ["Flags that bear on it (all of them are in the JSON):", ""]
    for name, flags in ((run.ours, run.flags_ours), (run.theirs, run.flags_theirs)):
        shown = [f"`{key}={value}`" for key, value in flags.items() if _BEARS_ON_IT.search(key)]
        lines.append(f"- {name}: {', '.join(shown)}")
    return "\n".join(lines)


def _how(run: OmbRun) -> str:
    places = "; ".join(f"{name} on processors {in_words(numbers)}" for name, numbers in run.processors.items())
    busiest = max((sample.load_average for result in run.results for sample in _all(result)), default=0.0)
    turns = "one turn" if run.scale.turns == 1 else f"{run.scale.turns} turns"
    return (
        f"load by {run.client}, {run.in_flight} request{'' if run.in_flight == 1 else 's'} in flight; {places}; "
        f"medians of {turns} of both in {run.seconds / 60:.0f} minutes, with least and most; {run.replicas_in_words}; "
        f"the largest load average before a measurement was {busiest:.2f}"
    )


def _all(result: WorkloadResult) -> list[Sample]:
    return [*result.ours, *result.theirs]


def _figures(run: OmbRun) -> Iterator[str]:
    yield (
        "| workload | scale | side | published/s | received/s | publish p50 / p99 / p99.9, ms "
        "| end to end p50 / p99 / p99.9, ms | CPU a record | memory | CPU of one processor: side, load |"
    )
    yield "|---|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for result in run.results:
        scale = run.scale.in_words(result.workload)
        for number, (name, samples) in enumerate(((run.ours, result.ours), (run.theirs, result.theirs))):
            cells = ["", ""] if number else [f"`{result.workload.name}`", scale]
            yield f"| {' | '.join([*cells, name, *_cells(result, samples)])} |"


def _cells(result: WorkloadResult, samples: list[Sample]) -> list[str]:
    if not samples:
        return ["**not measured**: " + "; ".join(result.failures), *[""] * 6]
    published = _spread((sample.published_per_second for sample in samples), "{:,.0f}")
    received = _spread((sample.received_per_second for sample in samples), "{:,.0f}")
    drains = [sample.drain for sample in samples if sample.drain is not None]
    if drains:
        rate = _spread((drain.records_per_second for drain in drains), "{:,.0f}")
        received = f"{rate} while it drains, for {_spread((drain.seconds for drain in drains), '{:.2f}')} s"
    return [
        published + (", **over its capacity**" if result.is_over_capacity(samples) else ""),
        received,
        _percentiles([sample.publish for sample in samples]),
        _percentiles([sample.end_to_end for sample in samples if sample.end_to_end is not None]),
        _spread((sample.cpu_us_per_record for sample in samples), "{:.1f}") + " µs",
        f"{statistics.median(sample.memory_bytes for sample in samples) / 1e6:,.0f} MB",
        f"{statistics.median(sample.cpu_percent for sample in samples):.0f} %, "
        f"{statistics.median(sample.load_percent for sample in samples):.0f} %",
    ]


def _percentiles(latencies: list[Latencies]) -> str:
    if not latencies:
        return ""
    kinds: tuple[Callable[[Latencies], float], ...] = (
        lambda each: each.p50_ms,
        lambda each: each.p99_ms,
        lambda each: each.p999_ms,
    )
    return " / ".join(_spread(map(kind, latencies), "{:,.2f}") for kind in kinds)


def _spread(values: Iterable[float], form: str) -> str:
    found = sorted(values)
    middle = form.format(statistics.median(found))
    return middle if len(found) < 2 else f"{middle} ({form.format(found[0])}–{form.format(found[-1])})"


def _ratios(run: OmbRun) -> Iterator[str]:
    yield (
        f"{run.ours} ÷ {run.theirs}, turn by turn: the goal is at least 1 in rate, with a backlog "
        "that of its drain, and at most 1 in all else; **bold** is behind."
    )
    yield ""
    yield f"| workload | {' | '.join(measure.title for measure in MEASURES)} |"
    yield f"|---|{'---:|' * len(MEASURES)}"
    for result in run.results:
        cells = [_ratio_cell(result, measure) for measure in MEASURES]
        yield f"| `{result.workload.name}` | {' | '.join(cells)} |"


def _ratio_cell(result: WorkloadResult, measure: Measure) -> str:
    ratio = result.ratio(measure)
    if ratio is None:
        return ""
    text = f"{ratio:.2f}" if measure.is_met(ratio) else f"**{ratio:.2f}**"
    ratios = result.ratios(measure)
    return text if len(ratios) < 2 else f"{text} ({min(ratios):.2f}–{max(ratios):.2f})"


def _behind(run: OmbRun) -> Iterator[str]:
    compared = sum(result.ratio(measure) is not None for result in run.results for measure in MEASURES)
    behind = run.behind
    yield f"{compared - len(behind)} of {compared} ratios reach the goal." + (
        " Behind, the worst first:" if behind else ""
    )
    if behind:
        yield ""
    for result, measure, ratio in behind:
        yield f"- `{result.workload.name}`: {measure.title} {ratio:.2f}"
    failures = [(result, failure) for result in run.results for failure in result.failures]
    if failures:
        yield ""
        yield "Turns that failed on a side and are left out for both:"
        yield ""
    for result, failure in failures:
        yield f"- `{result.workload.name}`: {failure}"
