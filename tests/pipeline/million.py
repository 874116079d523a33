"""A million records into Iceberg, Delta and Parquet, with the driver and a gateway killed in the middle.

`python -m tests.pipeline.million --records 1000000`: the job is the command itself, killed with all its processes by
SIGKILL once some batches are in; then it is started again. What is in the tables is counted by readers that are not
ours. The outcome goes to tests/pipeline/results.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from barnabas_pipeline.tables.parquet import committed_files
from tests.integration.running_cluster import ROOT, RunningCluster

TOPIC = "events"
PARTITIONS = 4
RESULTS = Path(__file__).parent / "results"
BATCHES_BEFORE_THE_KILL = 2
SECONDS_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """`distinct`: of (partition, offset); `wrong`: rows whose value is not the one produced there."""

    table_format: str
    produced: int
    rows: int
    distinct: int
    wrong: int
    rows_at_the_kill: int
    seconds: float

    @property
    def is_exact(self) -> bool:
        return self.rows == self.distinct == self.produced and self.wrong == 0


def produce(bootstrap: str, records: int) -> None:
    """Record n has value n, goes to partition n mod 4, and so to offset n div 4."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept: its futures die with it
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, b"%d" % number, b"key-%d" % (number % 1000), number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(600) == 0


def read(table_format: str, lake: Path) -> pa.Table:
    """Partition, offset and value, by a reader of the format's own."""
    names = ["partition", "offset", "value"]
    match table_format:
        case "iceberg":
            catalog = load_catalog("barnabas", type="sql", uri=f"sqlite:///{lake}/catalog.db")
            return catalog.load_table(f"lake.{TOPIC}").scan(selected_fields=tuple(names)).to_arrow()
        case "delta":
            return DeltaTable(str(lake / TOPIC)).to_pyarrow_table(columns=names)
        case _:
            return duckdb.read_parquet(committed_files(str(lake / TOPIC))).select(*names).to_arrow_table()


def judge(table_format: str, lake: Path, records: int, at_the_kill: int, seconds: float) -> Outcome:
    rows = read(table_format, lake)
    identity = pc.add(pc.multiply(rows["offset"], PARTITIONS), rows["partition"])
    values = pc.cast(pc.cast(rows["value"], pa.string()), pa.int64())
    wrong = rows.num_rows - (pc.sum(pc.equal(identity, values)).as_py() or 0)
    distinct = pc.count_distinct(identity).as_py()
    return Outcome(table_format, records, rows.num_rows, distinct, wrong, at_the_kill, round(seconds, 1))


class Job:
    """The command, in a session of its own, with its lines as they come."""

    def __init__(self, bootstrap: str, table_format: str, lake: Path, batch_records_max: int) -> None:
        arguments = ["--bootstrap-servers", bootstrap, "--topics", TOPIC, "--into", table_format, "--to", str(lake)]
        arguments += [
            "--until",
            "now",
            "--option",
            f"maxOffsetsPerTrigger={batch_records_max}",
            "--spark",
            "spark.master=local[2]",
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "barnabas_pipeline.cli", "tables", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def follow(self) -> Iterator[str]:
        """Lines until the process ends, which it must before the time is up."""
        assert self.process.stdout is not None
        timer = threading.Timer(SECONDS_MAX, self.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                self.lines.append(line.rstrip())
                yield line.rstrip()
        finally:
            timer.cancel()
            self.process.wait()

    def kill(self) -> None:
        """SIGKILL for the driver, its JVM and its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)


@contextmanager
def no_process_left(job: Job) -> Iterator[Job]:
    try:
        yield job
    finally:
        if job.process.poll() is None:
            job.kill()
            job.process.wait()


def one_format(cluster: RunningCluster, table_format: str, lake: Path, records: int, batch_records_max: int) -> Outcome:
    begun = time.monotonic()
    batches = at_the_kill = 0
    with no_process_left(Job(cluster.bootstrap, table_format, lake, batch_records_max)) as job:
        for line in job.follow():
            click.echo(f"  {line}")
            batches += line.startswith("batch ")
            if batches == 1 and line.startswith("batch "):
                gateway = next(name for name in cluster.pids if name.startswith("gateway"))
                cluster.kill(gateway)
                click.echo(f"  -- {gateway} killed")
                cluster.start(gateway)
            if batches == BATCHES_BEFORE_THE_KILL:
                job.kill()
                click.echo("  -- the driver killed, with its JVM and workers")
                break
        job.process.wait()
    if batches < BATCHES_BEFORE_THE_KILL:
        raise click.ClickException("the job ended before it could be killed:\n" + "\n".join(job.lines[-20:]))
    at_the_kill = read(table_format, lake).num_rows
    with no_process_left(Job(cluster.bootstrap, table_format, lake, batch_records_max)) as job:
        for line in job.follow():
            click.echo(f"  {line}")
    if job.process.returncode != 0:
        raise click.ClickException("the second run failed:\n" + "\n".join(job.lines[-20:]))
    return judge(table_format, lake, records, at_the_kill, time.monotonic() - begun)


def report(outcomes: list[Outcome]) -> str:
    lines = [
        "| format | produced | rows | distinct (partition, offset) | wrong values | rows when killed | seconds | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in outcomes:
        verdict = "every record once" if each.is_exact else "WRONG"
        lines.append(
            f"| {each.table_format} | {each.produced:,} | {each.rows:,} | {each.distinct:,} | {each.wrong} "
            f"| {each.rows_at_the_kill:,} | {each.seconds:,.0f} | {verdict} |"
        )
    return "\n".join(lines)


@click.command()
@click.option("--records", default=1_000_000, show_default=True)
@click.option("--formats", default="iceberg,delta,parquet", show_default=True)
@click.option("--batches", default=8, show_default=True, help="About how many batches each format takes.")
@click.option("--save/--no-save", default=True)
def main(records: int, formats: str, batches: int, save: bool) -> None:
    """Kill the driver and a gateway in the middle; count."""
    outcomes = []
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-million-") as directory,
        RunningCluster(Path(directory) / "cluster", 1) as cluster,
    ):
        produce(cluster.bootstrap, records)
        click.echo(f"{records:,} records produced")
        for table_format in formats.split(","):
            click.echo(f"== {table_format}")
            lake = Path(directory) / table_format
            outcomes.append(one_format(cluster, table_format, lake, records, records // batches))
            click.echo(report(outcomes[-1:]).splitlines()[-1])
    click.echo(report(outcomes))
    if save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "million.md").write_text(f"{report(outcomes)}\n")
        (RESULTS / "million.json").write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")
    if not all(each.is_exact for each in outcomes):
        raise click.ClickException("not every record is there once")


if __name__ == "__main__":
    main()
