"""`python -m bench`: Barnabas and Apache Kafka side by side, interleaved, on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from bench.apache_kafka import LIBS
from bench.loads import LOADS
from bench.measure import compare
from bench.report import (
    PAGE,
    ROOT,
    Run,
    client_version,
    command_line,
    commit,
    describe_machine,
    save,
    table,
    utc_now,
    without_paths,
)
from bench.sides import ApacheKafkaSide, BarnabasSide

_PAIRS_MIN_TO_SAVE = 5
_QUIET_LOAD_MAX = 0.5


@click.command()
@click.option("--pairs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seconds", type=float, default=4.0, show_default=True, help="Of each measurement.")
@click.option("--load", "names", multiple=True, type=click.Choice([load.name for load in LOADS]), help="Only these.")
def main(pairs: int, seconds: float, names: tuple[str, ...]) -> None:
    """Compare, and save what was measured when it is a whole comparison: all loads, at least five pairs."""
    if shutil.which("java") is None or not LIBS.exists():
        raise click.ClickException("Apache Kafka is not here: make peer (needs a JDK 17 and Maven)")
    directory = ROOT / ".cache/bench"
    shutil.rmtree(directory, ignore_errors=True)
    run = _run(directory, pairs, seconds, names or tuple(load.name for load in LOADS))
    shutil.rmtree(directory)
    is_whole = pairs >= _PAIRS_MIN_TO_SAVE and len(run.loads) == len(LOADS)
    if is_whole:
        path = save(run)
        click.echo(f"\nsaved {path.relative_to(ROOT)} and the table in {PAGE.relative_to(ROOT)}")
    click.echo("\n" + table(run, ROOT / "not saved"))


def _run(directory: Path, pairs: int, seconds: float, names: tuple[str, ...]) -> Run:
    sides = (BarnabasSide(directory / "barnabas"), ApacheKafkaSide(directory / "apache-kafka"))
    ours, theirs = sides
    machine = describe_machine()
    if float(machine["load average before"]) > _QUIET_LOAD_MAX:
        click.secho("this machine is busy: ratios will scatter", fg="yellow")
    started = []
    try:
        for side in sides:
            click.echo(f"starting {side.name}")
            started.append(side)
            side.start()
        loads = compare(ours, theirs, pairs, seconds, list(names))
        return Run(
            command=command_line(),
            commit=commit(),
            taken=utc_now(),
            machine=machine,
            client=client_version(),
            ours=ours.name,
            theirs=theirs.name,
            flags_ours=without_paths(ours.flags),
            flags_theirs=without_paths(theirs.flags),
            seconds_per_measurement=seconds,
            loads=loads,
        )
    finally:
        for side in started:
            side.stop()


if __name__ == "__main__":
    main()
