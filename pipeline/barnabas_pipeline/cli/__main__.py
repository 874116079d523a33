"""The command `barnabas-pipeline`."""

from __future__ import annotations

import logging
import sys

import click

from barnabas_pipeline.cli.maintain import maintain
from barnabas_pipeline.cli.replay import replay
from barnabas_pipeline.cli.tables import tables
from barnabas_pipeline.core.errors import PipelineError


class OneLineErrors(click.Group):
    """What a user can mend is one line on stderr and exit code 1; a traceback is for our own mistakes."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PipelineError as error:
            click.echo(f"barnabas-pipeline: {error}", err=True)
            sys.exit(1)


@click.group(cls=OneLineErrors)
@click.option("--verbose", is_flag=True, help="Log what it does besides.")
def main(verbose: bool) -> None:
    """Topics to tables and back, with Spark."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    # It prints whatever a batch raises, before that becomes the one line.
    logging.getLogger("py4j").setLevel(logging.ERROR if verbose else logging.CRITICAL)


main.add_command(tables)
main.add_command(maintain)
main.add_command(replay)

if __name__ == "__main__":
    main()
