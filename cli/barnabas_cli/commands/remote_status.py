"""Show whether a remote cluster is healthy, and if not, why, as its controller reports it."""

from __future__ import annotations

import click

from barnabas_cli.commands.nodes import NODE_HEADER, node_row
from barnabas_cli.formatting import moment, plain
from barnabas_cli.operating import print_json
from barnabas_cli.operations import OperationsClient, OperationsError, notices_of_members
from barnabas_cli.operator_access import OperatorAccess
from barnabas_cli.terminal import clear_errors, print_table

_ANSWER_SECONDS_MAX = 10.0


def show_remote_status(access: OperatorAccess, as_json: bool) -> int:
    """Print the status and return the exit code: 0 if the cluster is healthy."""
    with clear_errors(OperationsError), OperationsClient(access.address, _ANSWER_SECONDS_MAX, access) as operations:
        found = operations.describe_cluster()
    if as_json:
        print_json({"healthy": not found.problems, "ops": access.address, **plain(found)})
        return 1 if found.problems else 0
    print_table(NODE_HEADER, [node_row(node) for node in found.nodes])
    click.echo()
    for problem in found.problems:
        click.secho(problem, fg="red")
    for notice in notices_of_members(found):
        click.secho(notice, fg="yellow")
    drained = [node.id for node in found.nodes if node.drained]
    if drained:
        click.secho(f"drained: logstore {', '.join(drained)}", fg="yellow")
    if found.balance.paused:
        click.secho(
            f"automatic leader balancing is paused since {moment(found.balance.paused_since_ms)} UTC", fg="yellow"
        )
    if found.reassigning_partitions:
        click.echo(f"{found.reassigning_partitions} partitions are being reassigned")
    if not found.problems:
        line = f"healthy: controller {found.controller_id}, topics {found.topics}, partitions {found.partitions}"
        click.secho(line, fg="green")
    return 1 if found.problems else 0
