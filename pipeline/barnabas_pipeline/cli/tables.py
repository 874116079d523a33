"""`barnabas-pipeline tables`."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from barnabas_pipeline.cli.job_file import pairs, read_job_file, spark_settings, with_flags
from barnabas_pipeline.core.tables_job import tables_job


@click.command()
@click.option("--job", "job_path", metavar="FILE", help="A YAML or TOML file with these options; flags win over it.")
@click.option("--name", help="The job's name; tables store progress under it.  [tables]")
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Bootstrap servers.  [localhost:9092]")
@click.option("--client-config", metavar="FILE", help="Properties of a Kafka client: TLS and SASL of the cluster.")
@click.option("--topics", metavar="A,B", help="The topics.")
@click.option("--topic-pattern", metavar="REGEX", help="Topics whose names match, including new ones.")
@click.option("--into", type=click.Choice(["iceberg", "delta", "parquet"]), help="The tables' format.  [iceberg]")
@click.option("--to", metavar="PLACE", help="Location of the tables: a directory, s3://…, …  [./data/tables]")
@click.option("--catalog", metavar="KEY=VALUE", multiple=True, help="Property of the Iceberg catalog; repeatable.")
@click.option("--table", help="Table name; {topic} makes one per topic.  [{topic}]")
@click.option("--mode", type=click.Choice(["append", "upsert"]), help="One row per record, or per key.  [append]")
@click.option("--value", type=click.Choice(["raw", "json", "avro", "protobuf"]), help="Format of values.  [raw]")
@click.option("--column", metavar="NAME=TYPE", multiple=True, help="Declare a column's type; repeatable.")
@click.option("--keep-raw", is_flag=True, default=None, help="Also keep the value's bytes (for replay).")
@click.option("--registry", metavar="URL", help="Schema registry, with its path, such as /apis/ccompat/v7.")
@click.option(
    "--registry-user",
    metavar="NAME:SECRET",
    envvar="BARNABAS_REGISTRY_USER",
    help="User of the registry; or set BARNABAS_REGISTRY_USER.",
)
@click.option("--schema-file", metavar="FILE", help="The schema of all values: .avsc, .proto, or a descriptor set.")
@click.option("--message", help="The Protobuf message, with a schema file.")
@click.option("--partition-by", metavar="HOW", help="none, day, hour, partition or bucket(N).  [none]")
@click.option("--starting", type=click.Choice(["earliest", "latest"]), help="Where a new table starts.  [earliest]")
@click.option(
    "--until", type=click.Choice(["now", "stopped"]), help="Stop at the current end, or keep reading.  [stopped]"
)
@click.option("--trigger-ms", type=int, help="Interval between batches.  [1000]")
@click.option("--batch-bytes-max", type=int, help="Maximum log bytes per batch.  [256 MiB]")
@click.option("--checkpoint", metavar="PLACE", help="Location of Spark's checkpoint.  [in --to]")
@click.option("--group", help="Consumer group for lag tools.  [barnabas-pipeline-NAME]")
@click.option("--recreated", type=click.Choice(["fail", "append"]), help="What to do if a topic was recreated.  [fail]")
@click.option("--metrics-file", metavar="FILE", help="Write current metrics to this file, as JSON.")
@click.option("--option", metavar="KEY=VALUE", multiple=True, help="Option of format('barnabas'); repeatable.")
@click.option(
    "--spark", metavar="KEY=VALUE", multiple=True, help="A Spark setting such as spark.master=local[2]; repeatable."
)
def tables(**flags: Any) -> None:
    """Write topics to tables, exactly once."""
    from barnabas_pipeline.tables.running import run_tables  # Spark takes a second to import: not for --help

    file = read_job_file(flags.pop("job_path"))
    settings = spark_settings(file, pairs("spark", flags.pop("spark")))
    if flags["topics"] is not None:
        flags["topics"] = [topic.strip() for topic in flags["topics"].split(",")]
    flags["catalog"] = pairs("catalog", flags["catalog"])
    flags["columns"] = pairs("column", flags.pop("column"))
    flags["options"] = pairs("option", flags.pop("option"))
    values = with_flags(file, flags)
    by = click.get_current_context().get_parameter_source("registry_user")
    if by is ParameterSource.ENVIRONMENT and not values.get("registry"):
        del values["registry_user"]  # it is only used by other jobs
    job = tables_job(values)
    run_tables(job, settings, lambda line: click.echo(line))
