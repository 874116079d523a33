"""`barnabas-pipeline replay`."""

from __future__ import annotations

import datetime
from typing import Any

import click

from barnabas_pipeline.cli.job_file import pairs, read_job_file, with_flags
from barnabas_pipeline.core.errors import WrongOption
from barnabas_pipeline.core.replay import replay_job


@click.command()
@click.option("--job", "job_path", metavar="FILE", help="A YAML or TOML file with these options; flags win over it.")
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="The cluster.  [localhost:9092]")
@click.option("--target", metavar="TOPIC", help="The topic to write to.")
@click.option("--table", help="The table to read.")
@click.option("--format", type=click.Choice(["iceberg", "delta", "parquet"]), help="Its format.  [iceberg]")
@click.option("--to", metavar="PLACE", help="Where tables are, as a tables job has it.  [./data/tables]")
@click.option("--catalog", metavar="KEY=VALUE", multiple=True, help="Iceberg's catalog, pyiceberg's properties.")
@click.option("--source-topic", metavar="TOPIC", help="Without a table: the topic to read. With: which one of it.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="A topic's records of open and of aborted transactions: left out, or replayed.  [read_committed]",
)
@click.option("--since", metavar="TIME", help="From this time on: ISO 8601, or milliseconds since 1970.")
@click.option("--until", metavar="TIME", help="Up to this time, without it.")
@click.option("--partitions", type=click.Choice(["same", "by-key"]), help="As they were, or by hash of key.  [same]")
@click.option("--create", type=int, metavar="PARTITIONS", help="Make the target with so many partitions.")
@click.option("--append", is_flag=True, default=None, help="The target has records already: write behind them.")
@click.option("--rate", type=int, help="At most so many records a second.  [no bound]")
@click.option("--state", metavar="FILE", help="What a run that was cut short needs.  [.barnabas-replay-TARGET.json]")
def replay(**flags: Any) -> None:
    """A table, or a topic's time range, back into a topic."""
    from barnabas_pipeline.replay.running import run_replay

    file = read_job_file(flags.pop("job_path"))
    flags["catalog"] = pairs("catalog", flags["catalog"])
    values = with_flags(file, flags)
    for name in ("since", "until"):
        if name in values:
            values[f"{name}_ms"] = _time_ms(values.pop(name))
    job = replay_job(values)
    written = run_replay(job, lambda line: click.echo(line))
    click.echo(f"{job.target}: {written:,} records written")


def _time_ms(given: object) -> int:
    """`given`: a flag's text, or whatever a job file makes of a time (TOML and YAML have dates of their own)."""
    text = given.isoformat() if isinstance(given, datetime.date) else str(given)
    if text.isdecimal():
        return int(text)
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise WrongOption(f"{text!r} is no time: 2026-11-22T10:00, or milliseconds since 1970") from None
    return round((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp() * 1000)
