"""`python -m bench`: Barnabas and Apache Kafka side by side, interleaved, on this machine."""

from __future__ import annotations

import shutil

import click

from bench.apache_kafka import LIBS
from bench.comparison import PAIRS_MIN_TO_SAVE, take
from bench.ending import end_in_order
from bench.loads import LOADS
from bench.report import PAGE, ROOT, command_line, save, table
from bench.sides import ApacheKafkaSide, BarnabasSide


@click.command()
@click.option("--pairs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seconds", type=float, default=4.0, show_default=True, help="Of each measurement.")
@click.option("--load", "names", multiple=True, type=click.Choice([load.name for load in LOADS]), help="Only these.")
def main(pairs: int, seconds: float, names: tuple[str, ...]) -> None:
    """Compare, and save what was measured when it is a whole comparison: all loads, at least five pairs."""
    end_in_order()
    if shutil.which("java") is None or not LIBS.exists():
        raise click.ClickException("Apache Kafka is not here: make peer (needs a JDK 17 and Maven)")
    directory = ROOT / ".cache/bench"
    shutil.rmtree(directory, ignore_errors=True)
    loads = [load for load in LOADS if not names or load.name in names]
    sides = (BarnabasSide(directory / "barnabas"), ApacheKafkaSide(directory / "apache-kafka"))
    run = take(sides, loads, pairs, seconds, command_line())
    shutil.rmtree(directory)
    is_whole = pairs >= PAIRS_MIN_TO_SAVE and len(run.loads) == len(LOADS)
    if is_whole:
        path = save(run)
        click.echo(f"\nsaved {path.relative_to(ROOT)} and the table in {PAGE.relative_to(ROOT)}")
    click.echo("\n" + table(run, ROOT / "not saved"))


if __name__ == "__main__":
    main()
