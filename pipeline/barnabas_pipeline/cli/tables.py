"""`barnabas-pipeline tables`."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from barnabas_pipeline.cli.job_file import pairs, read_job_file, spark_settings, with_flags
from barnabas_pipeline.core.tables_job import tables_job


@click.command()
@click.option("--job", "job_path", metavar="FILE", help="A YAML or TOML file with these options; flags win over it.")
@click.option("--name", help="The job's name: tables know their progress under it.  [tables]")
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="The cluster.  [localhost:9092]")
@click.option("--topics", metavar="A,B", help="The topics.")
@click.option("--topic-pattern", metavar="REGEX", help="All topics of this pattern, new ones too.")
@click.option("--into", type=click.Choice(["iceberg", "delta", "parquet"]), help="The tables' format.  [iceberg]")
@click.option("--to", metavar="PLACE", help="Where tables are: a directory, s3://…, …  [./data/tables]")
@click.option("--catalog", metavar="KEY=VALUE", multiple=True, help="Iceberg's catalog, pyiceberg's properties.")
@click.option("--table", help="A table's name, with {topic} for one per topic.  [{topic}]")
@click.option("--mode", type=click.Choice(["append", "upsert"]), help="A row per record, or per key.  [append]")
@click.option("--value", type=click.Choice(["raw", "json", "avro", "protobuf"]), help="What values are.  [raw]")
@click.option("--column", metavar="NAME=TYPE", multiple=True, help="A column's type, declared.")
@click.option("--keep-raw", is_flag=True, default=None, help="Keep the value's bytes beside its columns (for replay).")
@click.option("--registry", metavar="URL", help="The schema registry (with its path, as /apis/ccompat/v7).")
@click.option(
    "--registry-user",
    metavar="NAME:SECRET",
    envvar="BARNABAS_REGISTRY_USER",
    help="Who reads it; or in the environment, as BARNABAS_REGISTRY_USER.",
)
@click.option("--schema-file", metavar="FILE", help="The schema of all values: .avsc, .proto, or a descriptor set.")
@click.option("--message", help="The Protobuf message, with a schema file.")
@click.option("--partition-by", metavar="HOW", help="none, day, hour, partition or bucket(N).  [none]")
@click.option("--starting", type=click.Choice(["earliest", "latest"]), help="Where a new table begins.  [earliest]")
@click.option("--until", type=click.Choice(["now", "stopped"]), help="Read what is there and end, or tail.  [stopped]")
@click.option("--trigger-ms", type=int, help="How often a batch is made.  [1000]")
@click.option("--batch-bytes-max", type=int, help="How much of the log a batch takes.  [256 MiB]")
@click.option("--checkpoint", metavar="PLACE", help="Spark's checkpoint.  [in --to]")
@click.option("--group", help="The consumer group that lag tools see.  [barnabas-pipeline-NAME]")
@click.option("--recreated", type=click.Choice(["fail", "append"]), help="If a topic was made anew.  [fail]")
@click.option("--metrics-file", metavar="FILE", help="Write the newest figures there, as JSON.")
@click.option("--option", metavar="KEY=VALUE", multiple=True, help="More options of format('barnabas').")
@click.option("--spark", metavar="KEY=VALUE", multiple=True, help="Spark's settings: spark.master=local[2].")
def tables(**flags: Any) -> None:
    """Topics to tables, exactly once."""
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
        del values["registry_user"]  # it is there for other jobs
    job = tables_job(values)
    run_tables(job, settings, lambda line: click.echo(line))
