"""`python -m bench.scaling`: measure unit costs in this process and compute from them what many hosts cost.

The figures are saved under bench/results, and the tables in docs/scaling.md.
"""

from __future__ import annotations

import click

from bench.ending import end_in_order
from bench.report import ROOT, command_line, commit, describe_machine, save_figures, utc_now, write_section
from bench.scaling.model import Guesses, figures
from bench.scaling.report import (
    PAGE,
    SIZES,
    ScalingRun,
    newest_lane_result,
    newest_throughputs,
    text,
)
from bench.scaling.unit_costs import PARTITIONS_EACH, Measurement

LOADS = {
    "single": "single",
    "replicated-single": "single",
    "batched-1000": "batched-1000",
    "replicated-1000": "batched-1000",
    "consume-tail": "consume-tail",
}


@click.command()
@click.option("--partitions", type=click.IntRange(PARTITIONS_EACH), default=100_000, show_default=True)
def main(partitions: int) -> None:
    """Measure, save the figures, and update the page."""
    end_in_order()
    machine = describe_machine()
    unit = Measurement(partitions // PARTITIONS_EACH * PARTITIONS_EACH, click.echo).take()
    stream, source = newest_lane_result()
    guesses = Guesses()
    computed = [figures(size, unit, stream, guesses) for size in SIZES]
    run = ScalingRun(
        command_line("bench.scaling"), commit(), utc_now(), machine, unit, stream, source, guesses, computed
    )
    path = save_figures(run, "scaling")
    for name, section in text(run, newest_throughputs(LOADS)).items():
        mark = f"made by bench.scaling, {name}"
        write_section(PAGE, f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->", section)
        click.echo(f"{section}\n")
    click.echo(f"saved {path.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
