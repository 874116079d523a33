"""`python -m bench.tls`: produce, consume and handshakes by TLS, beside Apache Kafka, in turn, on this machine.

    python -m bench.tls [--pairs 5] [--seconds 3]

Both sides run at the same time, and are idle but for the one whose turn it is. CPU is of all processes of a side.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from bench.ending import end_in_order
from bench.report import (
    PAGE,
    ROOT,
    client_version,
    command_line,
    commit,
    describe_machine,
    provenance,
    save_figures,
    utc_now,
    write_section,
)
from bench.tls.copying import CONSUME, PRODUCE, Copied, Copying
from bench.tls.handshakes import STORM_RATE, Handshakes, Victim, measure_handshakes, measure_victim, prepare
from bench.tls.secured import KAFKA, OURS, Secured, running_secured

_LOADS: Final = (*PRODUCE, CONSUME)
_MARK: Final = "made by bench.tls"
_Taken = TypeVar("_Taken", Copied, Handshakes, Victim)


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    client: str
    copied: list[Copied] = field(default_factory=list)
    handshakes: list[Handshakes] = field(default_factory=list)
    victims: list[Victim] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description="Produce, consume and handshakes by TLS, beside Apache Kafka.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measurement")
    arguments = parser.parse_args()
    end_in_order()
    run = Run(command_line("bench.tls"), commit(), utc_now(), describe_machine(), client_version())
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory,
        running_secured(Path(directory)) as sides,
    ):
        _take(run, sides, arguments.pairs, arguments.seconds)
    path = save_figures(run, "tls")
    text = section(run, path)
    write_section(PAGE, f"<!-- {_MARK}: begin -->", f"<!-- {_MARK}: end -->", text)
    print(text)


def _take(run: Run, sides: Mapping[str, Secured], pairs: int, seconds: float) -> None:
    copyings = {name: Copying(name, secured) for name, secured in sides.items()}
    for name, copying in copyings.items():
        copying.fill()
        prepare(sides[name])
        # A Java virtual machine has compiled its hot paths after some of each.
        for load in _LOADS:
            copying.measure(load, seconds, is_tls=True)
        measure_handshakes(name, sides[name], seconds, is_resumed=False)
        measure_victim(name, sides[name], seconds, is_storm=False)
    for _ in range(pairs):
        for load in _LOADS:
            for is_tls in (True, False):
                for copying in copyings.values():
                    run.copied.append(copying.measure(load, seconds, is_tls=is_tls))
                    print(run.copied[-1], flush=True)
        for is_resumed in (False, True):
            for name, secured in sides.items():
                run.handshakes.append(measure_handshakes(name, secured, seconds, is_resumed=is_resumed))
                print(run.handshakes[-1], flush=True)
        for is_storm in (False, True):
            for name, secured in sides.items():
                run.victims.append(measure_victim(name, secured, seconds, is_storm=is_storm))
                print(run.victims[-1], flush=True)


def section(run: Run, path: Path) -> str:
    averages = [each.load_average for each in run.copied]
    averages += [each.load_average for each in run.handshakes]
    averages += [each.load_average for each in run.victims]
    lines = [
        f"{provenance(run, f', during it {min(averages):.1f} to {max(averages):.1f}; client {run.client}')} Medians. "
        f"All figures: `{path.relative_to(ROOT)}`.",
        "",
        "| load | MB/s, Barnabas | Apache Kafka | ratio | CPU per MB, Barnabas | Apache Kafka | Kafka's ÷ ours |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for load in _LOADS:
        for is_tls in (True, False):
            of_load = [each for each in run.copied if each.load == load.name and each.is_tls == is_tls]
            rate = _medians(of_load, lambda each: each.megabytes_per_second)
            cpu = _medians(of_load, lambda each: each.cpu_ms_per_megabyte)
            lines.append(
                f"| {load.title}, {'TLS' if is_tls else 'clear'} | {rate[OURS]:,.0f} | {rate[KAFKA]:,.0f} "
                f"| {rate[OURS] / rate[KAFKA]:.2f} | {cpu[OURS]:.2f} ms | {cpu[KAFKA]:.2f} ms "
                f"| {cpu[KAFKA] / cpu[OURS]:.2f} |"
            )
    lines += [
        "",
        "| handshakes | for each second of CPU, Barnabas | Apache Kafka | ratio | resumed, Barnabas | Kafka |",
    ]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for is_resumed in (False, True):
        storms = [each for each in run.handshakes if each.is_resumed == is_resumed]
        rate = _medians(storms, lambda each: each.per_cpu_second)
        share = _medians(storms, lambda each: each.resumed_share)
        lines.append(
            f"| {'of clients that resume' if is_resumed else 'whole'} | {rate[OURS]:,.0f} | {rate[KAFKA]:,.0f} "
            f"| {rate[OURS] / rate[KAFKA]:.2f} | {share[OURS]:.0%} | {share[KAFKA]:.0%} |"
        )
    lines += [
        "",
        f"| a produce by TLS beside {STORM_RATE:.0f} handshakes/s | reached | p50 | p99 | p99 without | ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    reached = _medians([each for each in run.victims if each.is_storm], lambda each: each.handshakes_per_second)
    p50 = _medians([each for each in run.victims if each.is_storm], lambda each: each.p50_ms)
    p99 = _medians([each for each in run.victims if each.is_storm], lambda each: each.p99_ms)
    quiet = _medians([each for each in run.victims if not each.is_storm], lambda each: each.p99_ms)
    for side in (OURS, KAFKA):
        ratio = p99[side] / quiet[side]
        times = f"{p50[side]:.2f} ms | {p99[side]:.2f} ms | {quiet[side]:.2f} ms"
        lines.append(f"| {side} | {reached[side]:.0f} | {times} | {ratio:.2f} |")
    return "\n".join(lines)


def _medians(taken: Iterable[_Taken], figure: Callable[[_Taken], float]) -> dict[str, float]:
    """By side."""
    by_side: dict[str, list[float]] = {}
    for each in taken:
        by_side.setdefault(each.side, []).append(figure(each))
    return {side: statistics.median(figures) for side, figures in by_side.items()}


if __name__ == "__main__":
    main()
