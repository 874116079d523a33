"""`partitions`, `elect`, `reassign`: inspect partitions, elect leaders and move replicas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from barnabas_cli.formatting import listed, number, plain
from barnabas_cli.operating import ListingGroup, json_option, operating, print_json, show, warn
from barnabas_cli.operations import OperationsClient, OperationsError
from barnabas_protos.controller.v1 import operations_pb2 as pb

_PAGE = 5_000
_SHORT = {
    pb.OFFLINE: "offline",
    pb.UNDER_REPLICATED: "under-replicated",
    pb.UNDER_MIN_ISR: "under min ISR",
    pb.AT_MIN_ISR: "",
    pb.REASSIGNING: "moving",
    pb.LEADER_NOT_PREFERRED: "not preferred",
    pb.LEADER_RECOVERING: "recovering",
}


@click.command()
@click.argument("topic", required=False)
@click.option("--under-replicated", "conditions", flag_value=pb.UNDER_REPLICATED, multiple=True, type=int)
@click.option("--under-min-isr", "conditions", flag_value=pb.UNDER_MIN_ISR, multiple=True, type=int)
@click.option("--at-min-isr", "conditions", flag_value=pb.AT_MIN_ISR, multiple=True, type=int)
@click.option("--offline", "conditions", flag_value=pb.OFFLINE, multiple=True, type=int)
@click.option("--moving", "conditions", flag_value=pb.REASSIGNING, multiple=True, type=int)
@click.option("--not-preferred", "conditions", flag_value=pb.LEADER_NOT_PREFERRED, multiple=True, type=int)
@click.option(
    "--leader", type=int, metavar="NODE", help="Only partitions that this node leads; -1: those without a leader."
)
@click.option("--replica", type=int, metavar="NODE", help="Only partitions with a replica on this node.")
@json_option
@operating
def partitions(
    operations: OperationsClient,
    topic: str | None,
    conditions: Sequence[int],
    leader: int | None,
    replica: int | None,
    as_json: bool,
) -> None:
    """List partitions of all topics, or of TOPIC, that are in any of the given conditions."""
    request = pb.ListPartitionsRequest(
        topic=topic or "",
        conditions=[pb.PartitionCondition.ValueType(each) for each in conditions],
        leader=leader,
        replica=replica,
        page_size=_PAGE,
    )
    found = list(all_partitions(operations, request))
    header = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "MIN", "ELIGIBLE", "STATE")
    show(found, as_json, header, partition_row, "no partition matches")


def all_partitions(operations: OperationsClient, request: pb.ListPartitionsRequest) -> Iterator[pb.Partition]:
    """Yield all partitions, page by page."""
    while True:
        answer = operations.ask(lambda stub: stub.ListPartitions, request)
        yield from answer.partitions
        if not answer.next_page_token:
            return
        request.page_token = answer.next_page_token


def partition_row(found: pb.Partition) -> tuple[object, ...]:
    moves = [f"+{each}" for each in found.adding_replicas] + [f"-{each}" for each in found.removing_replicas]
    states = [_SHORT[each] for each in found.conditions if _SHORT.get(each)]
    return (
        f"{found.topic}-{found.partition}",
        found.leader if found.leader >= 0 else "none",
        found.leader_epoch,
        listed(found.replicas),
        listed(found.in_sync_replicas),
        found.min_insync_replicas,
        listed(found.eligible_leader_replicas),
        ", ".join(states) + (f" ({' '.join(moves)})" if moves else ""),
    )


@click.command()
@click.argument("names", nargs=-1, metavar="[TOPIC[:0,1,…]]...")
@click.option("--all", "everything", is_flag=True, help="Elect leaders of all partitions.")
@click.option("--unclean", is_flag=True, help="Elect any live replica if there is no leader; may lose records.")
@json_option
@operating
def elect(operations: OperationsClient, names: Sequence[str], everything: bool, unclean: bool, as_json: bool) -> None:
    """Elect preferred leaders of the given partitions, or of --all."""
    if bool(names) == everything:
        raise click.UsageError("give TOPIC arguments or --all")
    request = pb.RunElectionRequest(
        kind=pb.UNCLEAN if unclean else pb.PREFERRED, partitions=[_named(each) for each in names]
    )
    answer = operations.ask(lambda stub: stub.RunElection, request)
    show(
        answer.elections,
        as_json,
        ("PARTITION", "RESULT", "LEADER"),
        lambda each: (
            f"{each.topic}-{each.partition}",
            "elected" if each.error == "NONE" else f"{each.error}: {each.message}",
            each.leader if each.leader >= 0 else "none",
        ),
        "no partition needs an election",
    )
    failed = [each for each in answer.elections if each.error not in ("NONE", "ELECTION_NOT_NEEDED")]
    if failed:
        raise OperationsError(f"{len(failed)} of {len(answer.elections)} partitions could not be given a leader")


def _named(text: str) -> pb.TopicPartitions:
    topic, _, numbers = text.partition(":")
    if not all(each.isdecimal() for each in numbers.split(",") if numbers):
        raise click.BadParameter(f"{text} is neither TOPIC nor TOPIC:0,1")
    return pb.TopicPartitions(topic=topic, partitions=[int(each) for each in numbers.split(",") if numbers])


@click.group(cls=ListingGroup)
def reassign() -> None:
    """Move partitions to other replicas."""


@reassign.command("list")
@click.argument("topic", required=False)
@json_option
@operating
def list_reassignments(operations: OperationsClient, topic: str | None, as_json: bool) -> None:
    """List reassignments in progress and how far they have come."""
    found: list[pb.ReassigningPartition] = []
    request = pb.ListReassignmentsRequest(topic=topic or "")
    while True:
        answer = operations.ask(lambda stub: stub.ListReassignments, request)
        found += answer.partitions
        warn(answer.unanswered)
        if not answer.next_page_token:
            break
        request.page_token = answer.next_page_token
    header = ("PARTITION", "LEADER", "IN SYNC", "COMES TO", "GOES FROM")
    show(found, as_json, header, _move_row, "nothing moves")


def _move_row(found: pb.ReassigningPartition) -> tuple[object, ...]:
    return (
        f"{found.topic}-{found.partition}",
        found.leader if found.leader >= 0 else "none",
        listed(found.in_sync_replicas),
        ", ".join(_progress(each, found.leader_byte_count) for each in found.adding) or "-",
        listed(found.removing_replicas),
    )


def _progress(adding: pb.AddingReplica, leader_byte_count: int) -> str:
    if adding.in_sync:
        return f"{adding.node_id} (in sync)"
    return f"{adding.node_id} ({number(adding.byte_count)} of {number(leader_byte_count)} bytes)"


@reassign.command("start")
@click.argument("moves", nargs=-1, metavar="[TOPIC:PARTITION=NODE,NODE…]...")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A reassignment JSON file as for kafka-reassign-partitions.",
)
@click.option("--throttle", type=click.IntRange(1), metavar="BYTES", help="Maximum bytes per second of replication.")
@json_option
@operating
def start_reassignment(
    operations: OperationsClient, moves: Sequence[str], path: Path | None, throttle: int | None, as_json: bool
) -> None:
    """Start moving the given partitions, or those of a file for kafka-reassign-partitions."""
    if bool(moves) == (path is not None):
        raise click.UsageError("give moves (orders:0=1,2,3) or --file")
    asked = [_move(each) for each in moves] if path is None else _plan(path)
    request = pb.ReassignRequest(moves=asked, throttle_bytes_per_second=throttle or 0)
    answer = operations.ask(lambda stub: stub.Reassign, request)
    if as_json:
        print_json(plain(answer))
        return
    click.echo(f"moving {len(asked)} partition{'s' if len(asked) > 1 else ''}; `barnabas reassign` shows the progress")
    if throttle:
        click.echo("when all moves are complete: `barnabas reassign remove-throttles`")


def _move(text: str) -> pb.ReassignRequest.Move:
    name, equals, replicas = text.partition("=")
    topic, colon, partition = name.rpartition(":")
    node_ids = replicas.split(",")
    if not (equals and colon and partition.isdecimal() and all(each.isdecimal() for each in node_ids)):
        raise click.BadParameter(f"{text}: TOPIC:PARTITION=NODE,NODE")
    return pb.ReassignRequest.Move(topic=topic, partition=int(partition), replicas=[int(each) for each in node_ids])


def _plan(path: Path) -> list[pb.ReassignRequest.Move]:
    try:
        plan: Any = json.loads(path.read_text())
        return [
            pb.ReassignRequest.Move(topic=each["topic"], partition=each["partition"], replicas=each["replicas"])
            for each in plan["partitions"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OperationsError(
            f"{path} is not a reassignment plan ({error}): "
            '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,3]}]}'
        ) from None


@reassign.command("cancel")
@click.argument("names", nargs=-1, metavar="[TOPIC[:0,1,…]]...")
@click.option("--all", "everything", is_flag=True, help="Whatever moves.")
@operating
def cancel_reassignment(operations: OperationsClient, names: Sequence[str], everything: bool) -> None:
    """Cancel reassignments: replicas stay where they were."""
    if bool(names) == everything:
        raise click.UsageError("give TOPIC arguments or --all")
    request = pb.CancelReassignmentsRequest(partitions=[_named(each) for each in names])
    answer = operations.ask(lambda stub: stub.CancelReassignments, request)
    click.echo(f"cancelled: {answer.cancelled}" if answer.cancelled else "no reassignment is in progress")


@reassign.command("remove-throttles")
@operating
def remove_throttles(operations: OperationsClient) -> None:
    """Remove the replication throttles that reassignments set."""
    answer = operations.ask(lambda stub: stub.RemoveThrottles, pb.RemoveThrottlesRequest())
    click.echo(
        f"throttles removed from {answer.changed} topics and brokers" if answer.changed else "there are no throttles"
    )
