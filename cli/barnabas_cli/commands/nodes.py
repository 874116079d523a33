"""`nodes`, `drain`, `return`, `balance`: take nodes out of service and back."""

from __future__ import annotations

import time

import click

from barnabas_cli.formatting import moment, plain
from barnabas_cli.operating import ListingGroup, json_option, operating, print_json, show
from barnabas_cli.operations import OperationsClient, OperationsError
from barnabas_protos.controller.v1 import operations_pb2 as pb

NODE_HEADER = ("NODE", "STATE", "LEADERS", "REPLICAS", "RACK", "ADDRESSES")
_POLL_SECONDS = 0.5


@click.group(cls=ListingGroup)
def nodes() -> None:
    """List nodes, and remove those that are gone for good."""


@nodes.command("list")
@click.option("--role", type=click.Choice(["logstore", "gateway", "purgatory", "controller"]))
@json_option
@operating
def list_nodes(operations: OperationsClient, role: str | None, as_json: bool) -> None:
    """List all nodes, alive or dead, with the leaders and replicas of each logstore."""
    found = operations.ask(lambda stub: stub.ListNodes, pb.ListNodesRequest(role=role or "")).nodes
    show(found, as_json, NODE_HEADER, node_row, "no node has registered yet")


def node_row(node: pb.Node) -> tuple[object, ...]:
    state = "up" if node.alive else f"down since {moment(node.down_since_ms)}"
    if node.alive and not node.connected:
        state = "control channel down"
    if node.drained:
        state += ", drained"
    if node.active:
        state += ", active"
    is_logstore = node.role == "logstore"
    return (
        f"{node.role} {node.id}",
        state,
        node.leaders if is_logstore else "",
        node.replicas if is_logstore else "",
        node.rack,
        ", ".join(f"{purpose} {address}" for purpose, address in sorted(node.addresses.items())),
    )


@nodes.command("remove")
@click.argument("node_id", type=int)
@operating
def remove_node(operations: OperationsClient, node_id: int) -> None:
    """Remove logstore NODE_ID, which is gone for good and has no replicas left."""
    operations.ask(lambda stub: stub.RemoveNode, pb.RemoveNodeRequest(node_id=node_id))
    click.echo(f"logstore {node_id} is removed")


@click.command()
@click.argument("node_id", type=int)
@click.option("--move-replicas", is_flag=True, help="Move all of its replicas to other logstores too.")
@click.option("--dry-run", is_flag=True, help="Only check whether it can be drained, and what would move.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the drain is complete.")
@click.option("--wait-seconds", default=3600.0, show_default=True, help="Maximum time to wait.")
@operating
def drain(
    operations: OperationsClient,
    node_id: int,
    move_replicas: bool,
    dry_run: bool,
    wait: bool,
    wait_seconds: float,
) -> None:
    """Drain logstore NODE_ID for maintenance: other logstores lead its partitions until `barnabas return`."""
    request = pb.DrainNodeRequest(node_id=node_id, move_replicas=move_replicas, validate_only=dry_run)
    answer = operations.ask(lambda stub: stub.DrainNode, request)
    if dry_run:
        moving = f", and has {answer.replicas} replicas to move" if move_replicas else ""
        click.echo(f"logstore {node_id} can be drained: it leads {answer.leaders} partitions{moving}")
        return
    click.echo(f"logstore {node_id} is being drained")
    if wait:
        _wait_until_drained(operations, node_id, wait_seconds)


def _wait_until_drained(operations: OperationsClient, node_id: int, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    reported = ""
    while True:
        (found,) = operations.ask(lambda stub: stub.ListDrains, pb.ListDrainsRequest(node_id=node_id)).drains
        if found.done:
            rest = "has no replicas left" if found.move_replicas else "leads no partitions"
            click.secho(f"logstore {node_id} {rest}: it can be stopped", fg="green")
            return
        line = _drain_line(found)
        if line != reported:
            click.echo(line)
            reported = line
        if time.monotonic() > deadline:
            raise OperationsError(
                f"logstore {node_id} is not drained after {wait_seconds:g} s; the drain continues: {line}"
            )
        time.sleep(_POLL_SECONDS)


def _drain_line(found: pb.Drain) -> str:
    left = f"leads {found.leaders}"
    if found.move_replicas:
        left += f", has {found.replicas} replicas, {found.moving} of them moving"
    return left + (f"; blocked: {found.blocked[0]}" if found.blocked else "")


@click.command()
@json_option
@operating
def drains(operations: OperationsClient, as_json: bool) -> None:
    """List drained logstores and what is left to do."""
    found = operations.ask(lambda stub: stub.ListDrains, pb.ListDrainsRequest()).drains
    header = ("LOGSTORE", "SINCE", "WHAT GOES", "LEADERS LEFT", "REPLICAS", "MOVING", "STATE")
    show(found, as_json, header, _drain_row, "no logstore is drained")
    if not as_json:
        for each in found:
            for line in each.blocked:
                click.echo(f"logstore {each.node_id} is blocked: {line}")


def _drain_row(found: pb.Drain) -> tuple[object, ...]:
    return (
        found.node_id,
        moment(found.since_ms),
        "replicas" if found.move_replicas else "leaders",
        found.leaders,
        found.replicas,
        found.moving,
        "done" if found.done else "blocked" if found.blocked else "under way",
    )


@click.command("return")
@click.argument("node_id", type=int)
@click.option("--let-moves-finish", is_flag=True, help="Let reassignments off this logstore finish.")
@operating
def return_node(operations: OperationsClient, node_id: int, let_moves_finish: bool) -> None:
    """Return logstore NODE_ID to service after a drain. It leads its partitions again."""
    request = pb.ReturnNodeRequest(node_id=node_id, let_moves_finish=let_moves_finish)
    operations.ask(lambda stub: stub.ReturnNode, request)
    click.echo(f"logstore {node_id} is back in service")


@click.group(cls=ListingGroup)
def balance() -> None:
    """Control the automatic election of preferred leaders."""


@balance.command("list")
@json_option
@operating
def show_balance(operations: OperationsClient, as_json: bool) -> None:
    """Show whether automatic leader balancing is on."""
    found = operations.describe_cluster().balance
    if as_json:
        print_json(plain(found))
    elif not found.enabled:
        click.echo("off: auto.leader.rebalance.enable is false in the controller's configuration")
    elif found.paused:
        click.echo(f"paused since {moment(found.paused_since_ms)} UTC; `barnabas balance resume` resumes it")
    else:
        click.echo("on")


@balance.command("pause")
@operating
def pause_balance(operations: OperationsClient) -> None:
    """Pause automatic leader balancing: leaders then change only on failures and on request."""
    operations.ask(lambda stub: stub.PauseBalance, pb.PauseBalanceRequest())
    click.echo("automatic leader balancing is paused")


@balance.command("resume")
@operating
def resume_balance(operations: OperationsClient) -> None:
    """Resume automatic leader balancing: preferred leaders are elected automatically again."""
    operations.ask(lambda stub: stub.ResumeBalance, pb.ResumeBalanceRequest())
    click.echo("automatic leader balancing is resumed")
