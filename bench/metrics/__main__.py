"""`python -m bench.metrics`: what measuring requests costs, in CPU per request of single-record produces.

Two clusters on this machine, alike but for one thing, loaded in turn, pair after pair; which goes first changes from
pair to pair. The measured side has everything on, and all of its pods are scraped every 15 s, as Prometheus often does:
to tell what a pod has counted costs it tens of milliseconds. The other side is this version with
`metrics.enable=false`, by which gateways neither count nor time requests (what logstores count of topics stays on); or,
with `--baseline`, another checkout, say that of the commit before there were metrics at all.
"""

from __future__ import annotations

import shutil
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from barnabas_cli.local.layout import HOST
from barnabas_cli.local.services import Role
from bench.ending import end_in_order
from bench.loads import LOADS
from bench.measure import LoadOnSide
from bench.metrics.estimate import Estimate, Pair, estimate
from bench.report import ROOT, command_line, commit, describe_machine, save_figures, utc_now
from bench.sides import BarnabasSide

PAIRS_MIN_TO_SAVE = 20
SCRAPE_EVERY_S = 15.0
_PORT_OFF = 28_200


class Run(msgspec.Struct):
    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    off: str
    seconds_per_measurement: float
    pairs: list[Pair]
    estimate: Estimate


@click.command()
@click.option("--pairs", type=click.IntRange(2), default=PAIRS_MIN_TO_SAVE, show_default=True)
@click.option("--seconds", type=float, default=4.0, show_default=True, help="Of each measurement.")
@click.option("--baseline", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Another checkout.")
def main(pairs: int, seconds: float, baseline: Path | None) -> None:
    """Measure, and save what was measured when there are enough pairs."""
    end_in_order()
    directory = ROOT / ".cache/bench-metrics"
    shutil.rmtree(directory, ignore_errors=True)
    load = next(load for load in LOADS if load.is_one_record_a_request)
    on = BarnabasSide(directory / "on")
    off = BarnabasSide(directory / "off", port=_PORT_OFF, checkout=baseline)
    if baseline is None:
        off.set(Role.GATEWAY, "metrics.enable", "false")
    machine = describe_machine()
    try:
        for side in (on, off):
            side.start()
        loaded = LoadOnSide(on, load, seconds), LoadOnSide(off, load, seconds)
        for each in loaded:
            each.warm_up()
        measured = []
        with _scraped(on):
            for number in range(pairs):
                costs = [0.0, 0.0]
                for place in (0, 1) if number % 2 else (1, 0):
                    costs[place] = loaded[place].measure().cpu_us_per_record
                measured.append(Pair(*costs))
                click.echo(f"  pair {number + 1}/{pairs}: on {costs[0]:.2f} µs, off {costs[1]:.2f} µs a request")
    finally:
        for side in (on, off):
            side.stop()
    shutil.rmtree(directory)
    result = estimate(measured)
    reported = "metrics.enable=false" if baseline is None else f"commit {commit(baseline)}"
    run = Run(command_line("bench.metrics"), commit(), utc_now(), machine, reported, seconds, measured, result)
    if pairs >= PAIRS_MIN_TO_SAVE:
        path = save_figures(run, "metrics")
        click.echo(f"saved {path.relative_to(ROOT)}")
    click.echo(
        f"CPU per request with metrics: {result.percent:+.2f} % "
        f"(95 %: {result.percent_low:+.2f} to {result.percent_high:+.2f} %, {pairs} pairs, off: {reported})"
    )


@contextmanager
def _scraped(side: BarnabasSide) -> Iterator[None]:
    """All pods of the side, again and again, until the block is left."""
    layout = side.cluster.layout
    ports = [layout.controller_metrics_port, layout.purgatory_metrics_port, layout.gateway_metrics_port]
    ports += [layout.logstore_metrics_port(logstore_id) for logstore_id in layout.logstore_ids]
    is_over = threading.Event()

    def scrape() -> None:
        while not is_over.wait(SCRAPE_EVERY_S):
            for port in ports:
                with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=30) as answer:
                    answer.read()

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


if __name__ == "__main__":
    main()
