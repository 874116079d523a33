"""`python -m bench.log_core`: append, read, look up, recover and start, by the log core alone."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import click

from barnabas_logstore.shell.log_dirs import allow_open_files
from bench.ending import end_in_order
from bench.log_core.logs import GIGABYTE, room_for
from bench.log_core.lookups import measure_lookups
from bench.log_core.opening import measure_clean_start, measure_recovery
from bench.log_core.report import Run, save, section
from bench.log_core.throughput import measure_throughput
from bench.report import ROOT, commit, describe_machine, is_busy, utc_now

_SHARED_MEMORY = Path("/dev/shm")


@click.command()
@click.option("--gigabytes", type=float, default=2.0, show_default=True, help="Appended and read, each round.")
@click.option("--recovery-gigabytes", type=float, default=10.0, show_default=True, help="As far as the disk has room.")
@click.option("--entries", type=int, default=10_000_000, show_default=True, help="Of the largest index.")
@click.option("--partitions", type=int, default=10_000, show_default=True, help="Started cleanly.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), default=ROOT / ".cache/bench", help="On the disk.")
@click.option("--save/--no-save", "is_saved", default=True, show_default=True)
def main(
    gigabytes: float,
    recovery_gigabytes: float,
    entries: int,
    partitions: int,
    rounds: int,
    directory: Path,
    is_saved: bool,
) -> None:
    """What of a logstore's speed is the log's own; saved with the command that made it."""
    end_in_order()
    allow_open_files()
    machine = describe_machine()
    if is_busy(machine):
        click.secho("this machine is busy: figures will be too low", fg="yellow")
    directory.mkdir(parents=True, exist_ok=True)
    while recovery_gigabytes > 1 and not room_for(directory, int(recovery_gigabytes * GIGABYTE)):
        recovery_gigabytes /= 2
    work = Path(tempfile.mkdtemp(dir=directory))
    memory = Path(tempfile.mkdtemp(dir=_SHARED_MEMORY)) if _SHARED_MEMORY.is_dir() else work / "null"
    try:
        run = Run(
            command=shlex.join(["python", "-m", "bench.log_core", *sys.argv[1:]]),
            commit=commit(),
            taken=utc_now(),
            machine=machine,
            throughput=measure_throughput(
                {"null": memory / "null", "tmpfs": memory / "tmpfs", "disk": work / "disk"}, gigabytes, rounds
            ),
            lookups=measure_lookups(work / "lookups", entries),
            recovery=measure_recovery(work / "recovery", recovery_gigabytes, rounds),
            clean_starts=measure_clean_start(work / "start", partitions, rounds),
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(memory, ignore_errors=True)
    path = save(run) if is_saved else ROOT / "not saved"
    click.echo(section(run, path))


if __name__ == "__main__":
    main()
