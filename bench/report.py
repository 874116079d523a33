"""What a run leaves behind: JSON with every figure, a table in docs/verify/performance.md, a plot."""

from __future__ import annotations

import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import msgspec

from bench.measure import LoadResult
from bench.plot import Bar, bar_plot

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench/results"
PAGE = ROOT / "docs/verify/performance.md"
PLOT = ROOT / "docs/verify/performance.svg"

_BEARS_ON_SPEED = re.compile(r"java|threads|replication|queued|socket|segment|flush")


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    client: str
    ours: str
    theirs: str
    flags_ours: dict[str, str]
    flags_theirs: dict[str, str]
    seconds_per_measurement: float
    loads: list[LoadResult]


def describe_machine() -> dict[str, str]:
    cpus = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    return {
        "cpu": f"{len(cpus)} × {cpus[0] if cpus else platform.machine()}",
        "memory": f"{int(memory) / (1 << 20):.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load average before": f"{os.getloadavg()[0]:.2f}",
    }


def without_paths(flags: dict[str, str]) -> dict[str, str]:
    """What a saved result has no use for: where the checkout lies."""
    return {key: value.replace(f"{ROOT}/", "") for key, value in flags.items()}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def command_line(module: str = "bench") -> str:
    return shlex.join(["python", "-m", module, *sys.argv[1:]])


def commit(checkout: Path = ROOT) -> str:
    """The checkout's, with a plus when it was changed since."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=10"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def client_version() -> str:
    return f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def save_json(run: Run, prefix: str = "") -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{prefix}{run.taken.replace(':', '')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    return path


def write_target_section(target: str, section: str) -> None:
    """What `make <target>` has on the page."""
    write_section(PAGE, f"<!-- made by make {target}: begin -->", f"<!-- made by make {target}: end -->", section)


def save(run: Run) -> Path:
    """Write the JSON, the table and the plot; returns the path of the first."""
    path = save_json(run)
    write_target_section("bench", f"![Ratios]({PLOT.name})\n\n{table(run, path)}")
    bars = [Bar(load.title, *_spread([pair.ratio for pair in load.pairs])) for load in run.loads]
    PLOT.write_text(bar_plot(f"{run.ours}: times the rate of {run.theirs}", bars))
    return path


def table(run: Run, path: Path) -> str:
    lines = [
        f"Taken {run.taken} at commit {run.commit} by `{run.command}` on {run.machine['cpu']}, "
        f"{run.machine['memory']}, Linux {run.machine['kernel']}, Python {run.machine['python']}, "
        f"load average before it {run.machine['load average before']}; "
        f"client {run.client} on the same machine. All figures: `{path.relative_to(ROOT)}`.",
        "",
        f"| load | {run.ours} | {run.theirs} | ratio: median (min–max) | CPU {run.ours} | CPU {run.theirs} |",
        "|---|---|---|---|---|---|",
    ]
    for load in run.loads:
        low, median, high = _spread([pair.ratio for pair in load.pairs])
        ours, theirs = [pair.ours for pair in load.pairs], [pair.theirs for pair in load.pairs]
        cells = [load.title]
        for side in (ours, theirs):
            rate = statistics.median(each.records_per_second for each in side)
            megabytes = statistics.median(each.megabytes_per_second for each in side)
            cells.append(f"{rate:,.0f}/s" + ("" if load.is_one_record_a_request else f" ({megabytes:,.0f} MB/s)"))
        cells.append(f"**{median:.2f}** ({low:.2f}–{high:.2f}), {len(load.pairs)} pairs")
        for side in (ours, theirs):
            if load.is_one_record_a_request:
                cells.append(f"{statistics.median(each.cpu_us_per_record for each in side):.0f} µs a request")
            else:
                cells.append(f"{statistics.median(each.cpu_ms_per_megabyte for each in side):.2f} ms a MB")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Memory after each load, the sum of PSS of all processes of a side:", ""]
    lines += [f"| load | {run.ours} | {run.theirs} |", "|---|---|---|"]
    for load in run.loads:
        ours_mb, theirs_mb = load.memory_bytes_ours / 1e6, load.memory_bytes_theirs / 1e6
        lines.append(f"| {load.title} | {ours_mb:,.0f} MB | {theirs_mb:,.0f} MB |")
    lines += ["", "Flags that bear on speed (all of them are in the JSON):", ""]
    for name, flags in ((run.ours, run.flags_ours), (run.theirs, run.flags_theirs)):
        shown = [f"`{key}={value}`" for key, value in flags.items() if _BEARS_ON_SPEED.search(key)]
        lines.append(f"- {name}: {', '.join(shown)}")
    return "\n".join(lines)


def _spread(values: list[float]) -> tuple[float, float, float]:
    """Minimum, median, maximum."""
    return min(values), statistics.median(values), max(values)


def write_section(page: Path, begin: str, end: str, section: str) -> None:
    """Replace what is between the two marks of a page."""
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{section}\n{end}{after}")
