"""`python -m bench.replicated`: three logstores and three brokers of Apache Kafka, RF 3, acks=all, in turn."""

from __future__ import annotations

import shutil

import click

from bench.apache_kafka import LIBS
from bench.comparison import PAIRS_MIN_TO_SAVE, take
from bench.ending import end_in_order
from bench.loads import REPLICATED_LOADS
from bench.report import PAGE, ROOT, command_line, save_json, table, write_target_section
from bench.sides import ApacheKafkaSide, BarnabasSide

_REPLICAS = 3


@click.command()
@click.option("--pairs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seconds", type=float, default=4.0, show_default=True, help="Of each measurement.")
@click.option("--load", "names", multiple=True, type=click.Choice([load.name for load in REPLICATED_LOADS]))
def main(pairs: int, seconds: float, names: tuple[str, ...]) -> None:
    """Compare, and save what was measured when it is a whole comparison: all loads, at least five pairs."""
    end_in_order()
    if shutil.which("java") is None or not LIBS.exists():
        raise click.ClickException("Apache Kafka is not here: make peer (needs a JDK 17 and Maven)")
    directory = ROOT / ".cache/bench-replicated"
    shutil.rmtree(directory, ignore_errors=True)
    loads = [load for load in REPLICATED_LOADS if not names or load.name in names]
    sides = (BarnabasSide(directory / "barnabas", _REPLICAS), ApacheKafkaSide(directory / "apache-kafka", _REPLICAS))
    run = take(sides, loads, pairs, seconds, command_line("bench.replicated"))
    shutil.rmtree(directory)
    if pairs >= PAIRS_MIN_TO_SAVE and len(run.loads) == len(REPLICATED_LOADS):
        path = save_json(run, "replicated-")
        write_target_section("bench-replicated", table(run, path))
        click.echo(f"\nsaved {path.relative_to(ROOT)} and the table in {PAGE.relative_to(ROOT)}")
    click.echo("\n" + table(run, ROOT / "not saved"))


if __name__ == "__main__":
    main()
