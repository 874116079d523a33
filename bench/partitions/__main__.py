"""`python -m bench.partitions`: three brokers, empty and with 10,000 partitions at RF 3, beside Apache Kafka's.

One side after the other, each alone on the machine: an idle cluster, the creation of all partitions, the first write to
each by one producer, the idle cluster again, and single changes. A run with all partitions is saved under bench/results
and in docs/verify/performance.md, also that of one side alone.
"""

from __future__ import annotations

import shutil
import sys
import traceback

import click

from barnabas_cli.local.processes import raise_open_files_limit
from bench.apache_kafka import need_apache_kafka
from bench.ending import end_in_order
from bench.partitions.measurements import Measured, measure
from bench.partitions.report import PartitionsRun, save, table
from bench.report import ROOT, command_line, commit, describe_machine, utc_now, without_paths, write_section
from bench.sides import ApacheKafkaSide, BarnabasSide, Side

PARTITIONS_EACH = 1000
TOPICS = 10
BROKERS = 3


@click.command()
@click.option("--side", "wanted", type=click.Choice(["both", "barnabas", "kafka"]), default="both", show_default=True)
@click.option("--topics", type=click.IntRange(1), default=TOPICS, show_default=True, help="Of 1,000 partitions each.")
@click.option("--windows", type=click.IntRange(1), default=5, show_default=True, help="Of idle time, in each part.")
@click.option("--window-seconds", type=float, default=5.0, show_default=True)
@click.option("--changes", type=click.IntRange(1), default=5, show_default=True)
def main(wanted: str, topics: int, windows: int, window_seconds: float, changes: int) -> None:
    """Measure, and save what is whole."""
    end_in_order()
    if wanted != "barnabas":
        need_apache_kafka()
    raise_open_files_limit()
    directory = ROOT / ".cache/bench-partitions"
    run = PartitionsRun(command_line("bench.partitions"), commit(), utc_now(), describe_machine())
    for name in ("barnabas", "kafka") if wanted == "both" else (wanted,):
        shutil.rmtree(directory, ignore_errors=True)
        side: Side = (BarnabasSide if name == "barnabas" else ApacheKafkaSide)(directory / name, BROKERS)
        run.flags[side.name] = without_paths(side.flags)
        try:
            run.measured.append(_measure(side, topics, windows, window_seconds, changes))
        except Exception as error:
            # What the other side has taken is not lost with it.
            traceback.print_exc()
            run.failures[side.name] = f"{type(error).__name__}: {error}"
    shutil.rmtree(directory, ignore_errors=True)
    if not run.measured:
        sys.exit(1)
    if topics == TOPICS:
        path = save(run)
        mark = "made by bench.partitions"
        write_section(
            ROOT / "docs/verify/performance.md", f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->", table(run, path)
        )
        click.echo(f"\nsaved {path.relative_to(ROOT)}")
    click.echo("\n" + table(run, ROOT / "not saved"))
    sys.exit(1 if run.failures else 0)


def _measure(side: Side, topics: int, windows: int, window_seconds: float, changes: int) -> Measured:
    def say(line: str) -> None:
        print(f"{side.name}: {line}", flush=True)

    try:
        side.start()
        return measure(side, topics, PARTITIONS_EACH, windows, window_seconds, changes, say)
    finally:
        side.stop()


if __name__ == "__main__":
    main()
