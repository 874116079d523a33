"""`python -m bench.control`: leader changes under a data backlog in four designs (docs/control-apart-from-data.md)."""

from __future__ import annotations

import shlex
import shutil
import sys

import click

from bench.control.client_side import measure_client_side
from bench.control.designs import Design
from bench.control.measure import Offered, measure
from bench.control.report import ControlRun, save, tables
from bench.ending import end_in_order
from bench.report import ROOT, commit, describe_machine, utc_now

_BACKLOGS = (*(Offered(percent) for percent in (0, 10, 25, 50, 100, 200)), Offered(200, elsewhere=True))
_QUICK_BACKLOGS = (Offered(0), Offered(200))


@click.command()
@click.option("--changes", type=click.IntRange(10), default=60, show_default=True, help="Away, a point and round.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--value-bytes", type=click.IntRange(1), default=2_000, show_default=True, help="Of the load's records.")
@click.option("--design", "designs", multiple=True, type=click.Choice([each.value for each in Design]))
@click.option("--quick", is_flag=True, help="No and full backlog, ten changes each, no Kafka; nothing is saved.")
def main(changes: int, rounds: int, value_bytes: int, designs: tuple[str, ...], quick: bool) -> None:
    """Measure, and save what was measured when it is all designs."""
    end_in_order()
    began, machine = utc_now(), describe_machine()
    directory = ROOT / ".cache/bench-control"
    chosen = [Design(name) for name in designs] or list(Design)
    if quick:
        points = measure(directory, chosen, _QUICK_BACKLOGS, 10, 1, value_bytes, click.echo)
        client_side = []
    else:
        points = measure(directory, chosen, _BACKLOGS, changes, rounds, value_bytes, click.echo)
        click.echo("client side")
        client_side = measure_client_side(directory, changes * rounds, value_bytes)
    shutil.rmtree(directory, ignore_errors=True)
    command = shlex.join(["python", "-m", "bench.control", *sys.argv[1:]])
    run = ControlRun(command, commit(), began, machine, value_bytes, rounds, points, client_side)
    if quick or len(chosen) < len(Design):
        click.echo("\n" + tables(run, ROOT / "not saved"))
    else:
        click.echo(f"\nsaved {save(run).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
