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
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Bootstrap servers.  [localhost:9092]")
@click.option("--client-config", metavar="FILE", help="Properties of a Kafka client: TLS and SASL of the cluster.")
@click.option("--target", metavar="TOPIC", help="The topic to write to.")
@click.option("--table", help="The table to read.")
@click.option("--format", type=click.Choice(["iceberg", "delta", "parquet"]), help="The table's format.  [iceberg]")
@click.option("--to", metavar="PLACE", help="Location of the tables, as in `tables`.  [./data/tables]")
@click.option("--catalog", metavar="KEY=VALUE", multiple=True, help="Property of the Iceberg catalog; repeatable.")
@click.option("--source-topic", metavar="TOPIC", help="The topic to read; with --table, the topic within it.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether to replay records of open and aborted transactions.  [read_committed]",
)
@click.option("--since", metavar="TIME", help="From this time: ISO 8601 or milliseconds since 1970.")
@click.option("--until", metavar="TIME", help="Up to but excluding this time.")
@click.option(
    "--partitions", type=click.Choice(["same", "by-key"]), help="Keep partitions, or choose by hash of key.  [same]"
)
@click.option("--create", type=int, metavar="PARTITIONS", help="Create the target with this many partitions.")
@click.option("--append", is_flag=True, default=None, help="Append to a target that already has records.")
@click.option("--rate", type=int, help="Maximum records per second.  [unlimited]")
@click.option("--state", metavar="FILE", help="Progress, to resume.  [.barnabas-replay-TARGET.json]")
def replay(**flags: Any) -> None:
    """Replay a table, or a time range of a topic, into a topic."""
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
    """Parse a time: `given` is a flag's text, or what a job file has for a time (TOML and YAML have date types)."""
    text = given.isoformat() if isinstance(given, datetime.date) else str(given)
    if text.isdecimal():
        return int(text)
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise WrongOption(f"{text!r} is not a time: use 2026-11-22T10:00 or milliseconds since 1970") from None
    return round((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp() * 1000)
