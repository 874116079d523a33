"""`barnabas-pipeline maintain`."""

from __future__ import annotations

import click

from barnabas_pipeline.cli.job_file import pairs
from barnabas_pipeline.core.errors import WrongOption

HOUR_MS = 3_600_000


@click.command()
@click.option("--into", type=click.Choice(["iceberg", "delta", "parquet"]), default="iceberg", show_default=True)
@click.option("--to", metavar="PLACE", default="./data/tables", show_default=True, help="Where tables are.")
@click.option("--catalog", metavar="KEY=VALUE", multiple=True, help="Iceberg's catalog, pyiceberg's properties.")
@click.option("--table", "names", multiple=True, required=True, help="A table, any number of times.")
@click.option("--small-mib", type=click.IntRange(1), default=32, show_default=True, help="Smaller files are merged.")
@click.option(
    "--keep-hours",
    type=click.IntRange(1),
    default=7 * 24,
    show_default=True,
    help="Snapshots, and files that are in no newer one, are kept so long; a job under way needs an hour.",
)
@click.option(
    "--orphans-hours",
    type=click.IntRange(24),
    default=72,
    show_default=True,
    help="Files that no commit names are deleted when they are older; longer than any batch lasts.",
)
def maintain(
    into: str,
    to: str,
    catalog: tuple[str, ...],
    names: tuple[str, ...],
    small_mib: int,
    keep_hours: int,
    orphans_hours: int,
) -> None:
    """Small files made large, old snapshots forgotten, files of no commit deleted; beside a running job."""
    from barnabas_pipeline.tables.maintaining import maintain_table
    from barnabas_pipeline.tables.running import as_pipeline_error, wall_ms
    from barnabas_pipeline.tables.warehouse import TableFormat, Warehouse

    warehouse = Warehouse(TableFormat(into), to, wall_ms, pairs("catalog", catalog))
    for name in names:
        try:
            table = warehouse.open(name, "maintain")
            if table is None:
                raise WrongOption(f"there is no table {name} ({into}) at {to}")
            done = maintain_table(
                table, wall_ms, small_mib * 1024 * 1024, keep_hours * HOUR_MS, orphans_hours * HOUR_MS
            )
        except Exception as error:  # of the libraries of tables and catalogs
            raise as_pipeline_error(error) from error
        click.echo(done.line(name))
