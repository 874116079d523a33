"""`groups`: list and describe consumer groups and their lag."""

from __future__ import annotations

from collections.abc import Sequence

import click

from barnabas_cli.formatting import number, plain
from barnabas_cli.operating import ListingGroup, json_option, operating, print_json, show, warn
from barnabas_cli.operations import OperationsClient
from barnabas_cli.terminal import print_table
from barnabas_protos.controller.v1 import operations_pb2 as pb


@click.group(cls=ListingGroup)
def groups() -> None:
    """List and describe consumer groups."""


@groups.command("list")
@click.option("--state", "states", multiple=True, help="Only groups in this state: Stable, Empty, …; repeatable.")
@json_option
@operating
def list_groups(operations: OperationsClient, states: Sequence[str], as_json: bool) -> None:
    """List all groups and their coordinators."""
    found: list[pb.GroupSummary] = []
    request = pb.ListGroupsRequest(states=states)
    while True:
        answer = operations.ask(lambda stub: stub.ListGroups, request)
        found += answer.groups
        if not answer.next_page_token:
            break
        request.page_token = answer.next_page_token
    warn(answer.unanswered)
    show(
        found,
        as_json,
        ("GROUP", "STATE", "PROTOCOL", "COORDINATOR"),
        lambda each: (each.group_id, each.state, each.protocol_type or "-", each.coordinator),
        "no groups",
    )


@groups.command()
@click.argument("group")
@json_option
@operating
def describe(operations: OperationsClient, group: str, as_json: bool) -> None:
    """Describe members, committed offsets and lag of GROUP."""
    answer = operations.ask(lambda stub: stub.DescribeGroup, pb.DescribeGroupRequest(group_id=group))
    warn(answer.unanswered)
    if as_json:
        print_json(plain(answer))
        return
    protocol = f", {answer.protocol}" if answer.protocol else ""
    click.echo(
        f"{answer.group_id}  {answer.state}{protocol}, coordinator {answer.coordinator}, "
        f"members {len(answer.members)}, lag {answer.total_lag}"
    )
    clients = {member.member_id: f"{member.client_id} {member.client_host}" for member in answer.members}
    if answer.offsets:
        click.echo()
        print_table(
            ("PARTITION", "COMMITTED", "LOG END", "LAG", "MEMBER", "CLIENT"),
            [_row(offset, clients) for offset in answer.offsets],
        )
    owners = {offset.member_id for offset in answer.offsets}
    idle = [member for member in answer.members if member.member_id not in owners]
    for member in idle:
        click.echo(f"{member.member_id} ({clients[member.member_id]}) has no assigned partitions")


def _row(offset: pb.GroupOffset, clients: dict[str, str]) -> tuple[object, ...]:
    return (
        f"{offset.topic}-{offset.partition}",
        offset.committed_offset if offset.committed_offset >= 0 else "-",
        number(offset.log_end_offset),
        number(offset.lag) if offset.committed_offset >= 0 else "-",
        offset.member_id or "-",
        clients.get(offset.member_id, "-"),
    )
