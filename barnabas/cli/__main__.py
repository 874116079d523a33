"""The `barnabas` command. Commands import what they need when they run, so that each starts quickly."""

from __future__ import annotations

import click

from barnabas import __version__
from barnabas.cli.backup_commands import backup, inspect, rebuild, restore
from barnabas.cli.cluster_commands import doctor, down, logs, status, up
from barnabas.cli.record_commands import consume, produce
from barnabas.cli.topic_commands import topics


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="barnabas")
def main() -> None:
    """Barnabas: a Kafka broker, taken apart.

    Without --data-dir every command means the cluster in ./data.
    """


for command in (up, down, status, topics, produce, consume, logs, doctor, backup, restore, rebuild, inspect):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="barnabas")
