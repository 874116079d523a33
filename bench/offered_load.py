"""Latency against offered load: single-record produces at a steady rate, on Barnabas and Apache Kafka in turn.

    python -m bench.offered_load [--turns 3] [--seconds 3] [--rate 500 --rate 1000 …]

Requests come at random moments (a Poisson process), whether or not earlier ones are answered, on twenty connections
to the leader of one partition: one record of 100 bytes, acks=all, one replica. A latency is from the moment at which
the request was due, not from when it was sent, so that a broker that stalls is charged for all that had to wait. Rates
rise until a side answers less than it is offered; CPU is of all processes of a side, in percent of one core.
"""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final

import click

from bench.accounting import cpu_time
from bench.apache_kafka import need_apache_kafka
from bench.ending import end_in_order
from bench.groups.swarm import Connection, Swarm
from bench.one_at_a_time import ask_repeatedly, check_produced, connect_to_leader, produce_frame
from bench.plot import Curve, curve_plot
from bench.report import (
    PAGE,
    ROOT,
    command_line,
    commit,
    describe_machine,
    provenance,
    save_figures,
    utc_now,
    without_paths,
    write_section,
)
from bench.sides import ApacheKafkaSide, BarnabasSide, Side
from bench.table.rows import KAFKA, OURS

RATES: Final = (250, 500, 1_000, 2_000, 4_000, 8_000, 12_000, 16_000, 24_000, 32_000)
"""Requests each second."""
CONNECTIONS: Final = 20
PLOT: Final = "latency.svg"
_WARM_UP_SECONDS: Final = 4.0
_SETTLE_SECONDS: Final = 0.5
_ANSWERED_SHARE_MIN: Final = 0.95
"""Of what is offered within a measurement; a side that answers less is over its capacity."""
_DRAIN_SECONDS_MAX: Final = 60.0
_SEED: Final = 17


@dataclass(slots=True)
class Point:
    """One rate on one side, once."""

    offered: int
    answered_per_second: float
    """Within the time in which requests were due."""
    p50_us: float
    p99_us: float
    p999_us: float
    cpu_percent: float
    client_percent: float
    """Of one core: what this process used. Near 100 the client is the limit."""


@dataclass(slots=True)
class Run:
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    flags: dict[str, dict[str, str]] = field(default_factory=dict)
    points: dict[str, list[Point]] = field(default_factory=dict)
    """By side."""


class OpenLoop:
    """Sends requests when they are due, and notes how long after that each was answered."""

    def __init__(self, swarm: Swarm, connections: list[Connection], frame: bytes, chance: random.Random) -> None:
        self._swarm = swarm
        self._connections = cycle(connections)
        self._frame = frame
        self._chance = chance
        self._rate = 1
        self._due = self._end = 0.0
        self.took: list[float] = []
        self.sent = 0

    def run(self, rate: int, seconds: float) -> float:
        """Offer so many requests each second; return the share of them that was answered meanwhile.

        Raises TimeoutError if the rest is not answered within a minute.
        """
        self.took.clear()
        self.sent = 0
        began = time.perf_counter()
        self._end = began + seconds
        self._rate = rate
        self._due = began + self._chance.expovariate(rate)
        self._swarm.at(self._due, self._send_due)
        self._swarm.run_for(seconds)
        answered = len(self.took)
        self._swarm.run(lambda: len(self.took) == self.sent, _DRAIN_SECONDS_MAX)
        return answered / max(1, self.sent)

    def _send_due(self) -> None:
        now = time.perf_counter()
        while self._due <= now and self._due < self._end:
            self._send(self._due)
            self._due += self._chance.expovariate(self._rate)
        if self._due < self._end:
            self._swarm.at(self._due, self._send_due)

    def _send(self, due: float) -> None:
        took = self.took

        def answered(frame: memoryview) -> None:
            took.append(time.perf_counter() - due)
            if len(took) == 1:
                check_produced(bytes(frame))

        self.sent += 1
        next(self._connections).ask(self._frame, answered)


def measure(side: Side, loop: OpenLoop, rate: int, seconds: float) -> Point:
    before, own, began = cpu_time(side.sessions), time.process_time(), time.perf_counter()
    share = loop.run(rate, seconds)
    took = time.perf_counter() - began
    own_percent = (time.process_time() - own) / took * 100
    used = cpu_time(side.sessions).since(before).total
    times = sorted(loop.took)

    def percentile(share: float) -> float:
        return round(times[min(len(times) - 1, int(len(times) * share))] * 1e6, 1)

    return Point(
        rate,
        round(share * loop.sent / seconds, 1),
        percentile(0.5),
        percentile(0.99),
        percentile(0.999),
        round(used / took * 100, 1),
        round(own_percent, 1),
    )


def offer(sides: dict[str, Side], rates: list[int], turns: int, seconds: float, say: Callable[[str], None]) -> Run:
    """All rates on all sides, which run; the next rate on a side only while it keeps up with the last one."""
    run = Run(command_line("bench.offered_load"), commit(), utc_now(), describe_machine())
    run.points = {name: [] for name in sides}
    run.flags = {name: without_paths(side.flags) for name, side in sides.items()}
    keeps_up = dict.fromkeys(sides, True)
    frame = produce_frame()
    with Swarm() as swarm:
        loops = {}
        for name, side in sides.items():
            leader = connect_to_leader(side.bootstrap, 1)
            ask_repeatedly(leader, frame, _WARM_UP_SECONDS)
            connections = [swarm.connect(leader.address) for _ in range(CONNECTIONS)]
            leader.close()
            loops[name] = OpenLoop(swarm, connections, frame, random.Random(_SEED))
            loops[name].run(rates[0], _SETTLE_SECONDS)
        for rate in rates:
            tried = [name for name in sides if keeps_up[name]]
            for _ in range(turns):
                for name in tried:
                    point = measure(sides[name], loops[name], rate, seconds)
                    run.points[name].append(point)
                    keeps_up[name] &= point.answered_per_second > rate * _ANSWERED_SHARE_MIN
                    say(f"{name}: {point}")
                    swarm.run_for(_SETTLE_SECONDS)
    return run


def medians(points: list[Point]) -> list[Point]:
    """One point for each rate, in rising order."""
    rates = sorted({point.offered for point in points})
    return [_median([point for point in points if point.offered == rate]) for rate in rates]


def _median(points: list[Point]) -> Point:
    def of(figure: Callable[[Point], float]) -> float:
        return statistics.median(figure(point) for point in points)

    return Point(
        points[0].offered,
        of(lambda point: point.answered_per_second),
        of(lambda point: point.p50_us),
        of(lambda point: point.p99_us),
        of(lambda point: point.p999_us),
        of(lambda point: point.cpu_percent),
        of(lambda point: point.client_percent),
    )


def plot(run: Run) -> str:
    curves = []
    for number, (name, points) in enumerate(run.points.items()):
        found = medians(points)
        curves.append(Curve(f"{name}, p99", [(each.offered, each.p99_us / 1e3) for each in found], number))
        curves.append(
            Curve(f"{name}, p50", [(each.offered, each.p50_us / 1e3) for each in found], number, is_dashed=True)
        )
    return curve_plot("One-record produces, acks=all, one replica", "requests/s offered", "latency, ms", curves)


def section(run: Run, path: Path) -> str:
    lines = [
        f"![Latency against offered load]({PLOT})",
        "",
        f"{provenance(run)} Medians of the turns. All figures: `{path.relative_to(ROOT)}`.",
        "",
        "| side | offered/s | answered/s | p50 | p99 | p99.9 | CPU of one core | the client's |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, points in run.points.items():
        for each in medians(points):
            lines.append(
                f"| {name} | {each.offered:,} | {each.answered_per_second:,.0f} | {each.p50_us:,.0f} µs "
                f"| {each.p99_us:,.0f} µs | {each.p999_us:,.0f} µs | {each.cpu_percent:.0f} % "
                f"| {each.client_percent:.0f} % |"
            )
    return "\n".join(lines)


@click.command()
@click.option("--turns", type=click.IntRange(1), default=3, show_default=True)
@click.option("--seconds", type=float, default=3.0, show_default=True, help="Of each measurement.")
@click.option("--rate", "rates", type=click.IntRange(1), multiple=True, help=f"Default: {', '.join(map(str, RATES))}.")
def main(turns: int, seconds: float, rates: tuple[int, ...]) -> None:
    """Measure, save the figures, and update the plot and the page."""
    end_in_order()
    need_apache_kafka()
    directory = ROOT / ".cache/bench-offered-load"
    shutil.rmtree(directory, ignore_errors=True)
    sides: dict[str, Side] = {OURS: BarnabasSide(directory / "barnabas"), KAFKA: ApacheKafkaSide(directory / "kafka")}
    started: list[Side] = []
    try:
        for side in sides.values():
            started.append(side)
            side.start()
        run = offer(sides, sorted(rates or RATES), turns, seconds, click.echo)
    finally:
        for side in started:
            side.stop()
    shutil.rmtree(directory)
    path = save_figures(run, "offered-load")
    (PAGE.parent / PLOT).write_text(plot(run))
    text = section(run, path)
    write_section(PAGE, "<!-- made by make bench-latency: begin -->", "<!-- made by make bench-latency: end -->", text)
    click.echo(text)


if __name__ == "__main__":
    main()
