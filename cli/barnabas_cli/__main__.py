"""The `barnabas` command. Commands import what they need when they run, so that each starts quickly."""

from __future__ import annotations

import click

from barnabas import __version__
from barnabas_cli.commands.backups import backup, inspect, rebuild, restore
from barnabas_cli.commands.cluster import doctor, down, logs, status, up
from barnabas_cli.commands.configs import configs
from barnabas_cli.commands.events import events, history
from barnabas_cli.commands.groups import groups
from barnabas_cli.commands.kubernetes import kubernetes
from barnabas_cli.commands.nodes import balance, drain, drains, nodes, return_node
from barnabas_cli.commands.partitions import elect, partitions, reassign
from barnabas_cli.commands.probe import probe
from barnabas_cli.commands.records import consume, produce
from barnabas_cli.commands.topics import topics
from barnabas_cli.commands.transactions import transactions


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="barnabas")
def main() -> None:
    """Run and operate Barnabas, a Kafka broker split into four services.

    Without --data-dir, every command works on the cluster in ./data.
    """


_COMMANDS = (
    nodes,
    topics,
    partitions,
    groups,
    configs,
    reassign,
    elect,
    drain,
    drains,
    return_node,
    balance,
    events,
    history,
    transactions,
    up,
    down,
    status,
    probe,
    produce,
    consume,
    logs,
    doctor,
    backup,
    restore,
    rebuild,
    inspect,
)

for command in _COMMANDS:
    main.add_command(command)
main.add_command(kubernetes)

if __name__ == "__main__":
    main(prog_name="barnabas")
